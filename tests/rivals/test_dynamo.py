"""Dynamo's planner in both modes, worked by hand."""

from __future__ import annotations

import math

import pytest

from loadtests.rivals.dynamo_load import DYNAMO_LOAD, load_target
from loadtests.rivals.dynamo_throughput import DYNAMO_THROUGHPUT, LocalTrend
from tests.rivals.scene import FACTS, LOST, WIDE, Scene, fleet


@pytest.mark.parametrize(
    ("asked", "replicas", "wanted"),
    [
        pytest.param([0.5, 1.01], 2, 3, id="any above: up"),
        pytest.param([1.0, 1.0], 2, 2, id="at the threshold"),
        pytest.param([0.59, 0.5], 2, 1, id="all below: down"),
        pytest.param([0.6, 0.1], 2, 2, id="one isn't below"),
        pytest.param([0.1], 1, 1, id="never below one"),
        pytest.param([], 3, 3, id="no figures"),
    ],
)
def test_load(asked: list[float], replicas: int, wanted: int) -> None:
    assert load_target(asked, replicas=replicas, up=1.0, down=0.6) == wanted


@pytest.mark.parametrize(
    ("scene", "wanted"),
    [
        # 80 % in use and 25 queued prompts of 900 tokens, 22.5 % of 100,000.
        pytest.param(fleet(1, kv_each=(0.8,), waiting_each=(25.0,)), 2, id="queued prompts count"),
        pytest.param(fleet(2, starting=1, kv_each=(0.8,), waiting_each=(25.0,)), 2, id="not while one starts"),
        pytest.param(fleet(2, kv_each=(0.1, math.nan), waiting_each=(0.0, 0.0)), 1, id="one without figures"),
        pytest.param(fleet(2, kv_each=(0.9, 0.9), prompt=LOST), 2, id="lengths unknown"),
    ],
)
def test_load_mode(scene: Scene, wanted: int) -> None:
    assert DYNAMO_LOAD.make(DYNAMO_LOAD.knob.default, WIDE, FACTS).desired(scene) == wanted


def test_the_filter_by_hand() -> None:
    # The first value starts it: level 100, trend 0, variances 1,000; forecast 100, variances 2,001 and 1,000.1
    # (covariance 1,000). The second, 110: gain 2,001 / 2,011 of 10 on the level, 1,000 / 2,011 on the trend, so
    # 109.950 + 4.973 is forecast.
    trend = LocalTrend()
    assert trend.forecast(100.0) == 100.0
    assert trend.forecast(110.0) == pytest.approx(100 + 10 * 2001 / 2011 + 10 * 1000 / 2011)


def test_the_filter_follows_a_straight_line() -> None:
    trend = LocalTrend()
    forecasts = [trend.forecast(50.0 + 7 * i) for i in range(60)]
    assert forecasts[-1] == pytest.approx(50 + 7 * 60, rel=1e-3)


def test_the_filter_ignores_leading_zeros() -> None:
    trend = LocalTrend()
    assert [trend.forecast(0.0), trend.forecast(0.0), trend.forecast(40.0)] == [0.0, 0.0, 40.0]


@pytest.mark.parametrize(
    ("rates", "wanted"),
    [
        # 45/s by 10/s each; the first forecast is the value itself.
        pytest.param([45.0], 5, id="rounded up"),
        pytest.param([0.0], 1, id="idle keeps one"),
        # A falling line is carried on below zero requests: one.
        pytest.param([90.0, 60.0, 30.0, 1.0], 1, id="never below none"),
    ],
)
def test_throughput_mode(rates: list[float], wanted: int) -> None:
    rival = DYNAMO_THROUGHPUT.make(1.0, WIDE, FACTS)
    for i, rate in enumerate(rates):
        answer = rival.desired(fleet(4, now_s=180.0 * i, rate=rate))
    assert answer == wanted


def test_without_traffic_figures_it_holds() -> None:
    assert DYNAMO_THROUGHPUT.make(1.0, WIDE, FACTS).desired(fleet(4, rate=LOST)) == 4
