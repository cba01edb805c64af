"""The HPA's formulas, worked by hand from the Kubernetes documentation and source."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.domain.reading import Measured
from loadtests.rivals.hpa import (
    HPA_IN_FLIGHT,
    HPA_PODS,
    HPA_RATE,
    HPA_VALUE,
    Tolerances,
    average_hpa,
    by_average,
    by_pods,
    by_value,
    milli,
)
from tests.rivals.scene import FACTS, LOST, WIDE, Scene, fleet

TENTH = Tolerances()


@pytest.mark.parametrize(
    ("usage", "target", "pods", "replicas"),
    [
        # 45 by 8 is 5.6: six.
        pytest.param(45_000, 8_000, 4, 6, id="rounded up"),
        # 44 over 8 x 5 is 1.1: within the tolerance, its end included.
        pytest.param(44_000, 8_000, 5, 5, id="upper end of the tolerance"),
        pytest.param(44_001, 8_000, 5, 6, id="just above it"),
        # 36 over 8 x 5 is 0.9.
        pytest.param(36_000, 8_000, 5, 5, id="lower end of the tolerance"),
        pytest.param(31_000, 8_000, 5, 4, id="down"),
        pytest.param(0, 8_000, 5, 0, id="idle"),
        # "Desired replicas" as a metric with target 1: 11 over 10 pods is 1.1 and swallowed.
        pytest.param(11_000, 1_000, 10, 10, id="a step of one from ten is swallowed"),
        pytest.param(10_000, 1_000, 9, 10, id="from nine it is not"),
        pytest.param(3_000, 8_000, 0, 1, id="from no pods"),
    ],
)
def test_average_value(usage: int, target: int, pods: int, replicas: int) -> None:
    assert by_average(usage, target, pods=pods, tolerances=TENTH) == replicas


@pytest.mark.parametrize(
    ("usage", "target", "current", "ready", "replicas"),
    [
        # 200m by 100m doubles (the documentation's example), 50m by 100m halves.
        pytest.param(200, 100, 3, 3, 6, id="doubled"),
        pytest.param(50, 100, 4, 4, 2, id="halved"),
        pytest.param(109, 100, 7, 7, 7, id="within the tolerance"),
        # Ready pods are multiplied, not all: 1.5 x 2 = 3, although 5 are asked for.
        pytest.param(150, 100, 5, 2, 3, id="only ready pods count"),
        pytest.param(250, 100, 0, 0, 3, id="from zero by the ratio alone"),
    ],
)
def test_value(usage: int, target: int, current: int, ready: int, replicas: int) -> None:
    assert by_value(usage, target, current=current, ready=ready, tolerances=TENTH) == replicas


@pytest.mark.parametrize(
    ("values", "missing", "unready", "current", "replicas"),
    [
        # Mean 15 by 10: 1.5 x 2 = 3.
        pytest.param([10, 20], 0, 0, 2, 3, id="all known"),
        pytest.param([10, 11], 0, 0, 2, 2, id="within the tolerance"),
        # Up: a missing pod counts as zero. 40 over 3 pods is 13.3: 1.33 x 3 = 4, not 2 x 3 = 6.
        pytest.param([20, 20], 1, 0, 3, 4, id="missing on the way up"),
        # 24 over 3 pods is 8, below the target: the other way round, so nothing.
        pytest.param([12, 12], 1, 0, 3, 3, id="missing turns the way round"),
        # Down: a missing pod counts as the target. (4 + 10) / 2 = 7: 0.7 x 2 = 1.4, two.
        pytest.param([4], 1, 0, 2, 2, id="missing on the way down"),
        # (2 + 2 + 2 + 10) / 4 = 4: 0.4 x 4 = 1.6, two.
        pytest.param([2, 2, 2], 1, 0, 4, 2, id="missing, yet far down"),
        # Unready pods count, as zero, on the way up: 60 over 3 is 20: 2 x 3 = 6 (without it 3 x 2 = 6).
        pytest.param([30, 30], 0, 1, 3, 6, id="unready on the way up"),
        # On the way down they are left out: 0.5 x 2 = 1.
        pytest.param([5, 5], 0, 1, 3, 1, id="unready on the way down"),
        # Two known of twelve asked for, ten missing: (30 + 30) / 12 = 5, the other way round.
        pytest.param([30, 30], 10, 0, 12, 12, id="most are missing"),
    ],
)
def test_pods(values: list[int], missing: int, unready: int, current: int, replicas: int) -> None:
    found = by_pods(values, 10, current=current, missing=missing, unready=unready, tolerances=TENTH)
    assert found == replicas


def test_without_any_pod_metric_there_is_no_answer() -> None:
    assert by_pods([], 10, current=3, missing=3, unready=0, tolerances=TENTH) is None


@pytest.mark.parametrize(
    ("value", "thousandths"),
    [
        pytest.param(1.5, 1500, id="exact"),
        pytest.param(0.0001, 1, id="rounded up"),
        # 0.1 + 0.2 is a little more than 0.3 in binary fractions.
        pytest.param(0.1 + 0.2, 300, id="noise is not rounded up"),
    ],
)
def test_quantities_in_thousandths(value: float, thousandths: int) -> None:
    assert milli(value) == thousandths


@pytest.mark.parametrize(
    ("contender", "scene", "replicas"),
    [
        # 80 % of 10/s: 8/s each; 50/s need 7 (6.25).
        pytest.param(HPA_RATE, fleet(5, rate=50.0), 7, id="rate"),
        # 80 % of 50 in flight: 40 each; 350 need 9 (8.75).
        pytest.param(HPA_IN_FLIGHT, fleet(5, flight=350.0), 9, id="in flight"),
        # 50/s over 4 ready are 12.5 each, 1.5625 of 8: x 4 = 6.25, seven.
        pytest.param(HPA_VALUE, fleet(5, starting=1, rate=50.0), 7, id="utilisation"),
        # Two ready with 70 and 50, one that loads: mean 60 is over 40, the third counts zero: 40 is on target.
        pytest.param(
            HPA_PODS, fleet(3, starting=1, running_each=(60.0, 50.0), waiting_each=(10.0, 0.0)), 3, id="per pod"
        ),
    ],
)
def test_the_default_target(contender: object, scene: Scene, replicas: int) -> None:
    rival = contender.make(contender.knob.default, WIDE, FACTS)  # type: ignore[attr-defined]
    assert rival.desired(scene) == replicas


@pytest.mark.parametrize("contender", [HPA_RATE, HPA_IN_FLIGHT, HPA_VALUE, HPA_PODS], ids=lambda each: each.name)
def test_without_its_metric_it_holds(contender: object) -> None:
    rival = contender.make(0.8, WIDE, FACTS)  # type: ignore[attr-defined]
    assert rival.desired(fleet(6, rate=LOST, flight=LOST, running_each=(math.nan,) * 6)) == 6


@given(rate=st.floats(0, 1e5), replicas=st.integers(1, 1000))
def test_never_beyond_the_bounds(rate: Measured, replicas: int) -> None:
    rival = average_hpa(lambda seen: seen.rate_rps(60), 8.0, WIDE)
    for now_s in (0.0, 15.0, 400.0):
        assert WIDE.min_replicas <= rival.desired(fleet(replicas, now_s=now_s, rate=rate)) <= WIDE.max_replicas
