"""The past looked up by the time of the day and of the week."""

from __future__ import annotations

import math

import numpy as np
import pytest

from predictors.levels import FLOOR_RPS
from predictors.seasonal import past_log, seasonal_logs
from predictors.timeline import Timeline, advance

DAY_S = 86400.0


def after(until_s: float, *, without: tuple[float, float] = (0.0, 0.0)) -> Timeline:
    """Told in five minutes each, except those inside ``without``, that the rate is the day's wave."""
    timeline = Timeline.empty()
    for index in range(1, int(until_s / 300) + 1):
        end_s = 300.0 * index
        if not without[0] < end_s <= without[1]:
            for step in advance(timeline, end_s=end_s, span_s=300.0, rate_rps=wave(end_s - 150)):
                timeline = step.timeline
    for step in advance(timeline, end_s=until_s, span_s=until_s % 300 or 15.0, rate_rps=wave(until_s)):
        timeline = step.timeline
    return timeline


def wave(at_s: float) -> float:
    return 30 + 20 * math.sin(2 * math.pi * at_s / DAY_S)


@pytest.mark.parametrize("ago_s", [150.0, 400.0, 3600.0, 10_007.0, DAY_S, DAY_S + 77.0])
@pytest.mark.parametrize("until_s", [2 * DAY_S, 2 * DAY_S + 190.0])
def test_the_past_is_found_where_it_was(until_s: float, ago_s: float) -> None:
    found = past_log(after(until_s), until_s - 300.0 - ago_s)
    assert math.exp(found) - FLOOR_RPS == pytest.approx(wave(until_s - 300.0 - ago_s), rel=1e-3)


@pytest.mark.parametrize(
    "center_s",
    [
        pytest.param(2 * DAY_S + 1.0, id="the future"),
        pytest.param(-10_000.0, id="before the first measurement"),
        pytest.param(2 * DAY_S - 8 * DAY_S, id="more than a week ago"),
        pytest.param(50_000.0, id="a gap"),
    ],
)
def test_what_was_not_measured_is_not_known(center_s: float) -> None:
    assert math.isnan(past_log(after(2 * DAY_S, without=(48_000.0, 52_000.0)), center_s))


@pytest.mark.parametrize("horizon", [0, 4, 20, 240])
@pytest.mark.parametrize("doubled", [1.0, 2.0])
def test_the_level_moves_as_it_moved_a_day_and_a_week_ago(horizon: int, doubled: float) -> None:
    """Whatever the level has become since then."""
    until_s = 7.2 * DAY_S
    level_rps = doubled * wave(until_s - 150)
    moved = seasonal_logs(after(until_s), math.log(level_rps), horizon)
    expected = doubled * wave(until_s + (horizon + 1) * 15.0)
    np.testing.assert_allclose(np.exp(moved), expected, rtol=0.003)


def test_before_a_week_only_the_day_is_known() -> None:
    day_log, week_log = seasonal_logs(after(1.5 * DAY_S), 0.0, 4)
    assert math.isfinite(day_log)
    assert math.isnan(week_log)
