"""What is kept of a service's past, and what a point says of a decision."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.serving.timeline import Point, Timeline, point_of
from autoscaler.domain.capacity import CapacityLimit, CapacitySource, ReplicaCapacity
from autoscaler.domain.demand import Demand
from autoscaler.domain.plan import Plan, Reason, ServiceDecision, VariantTarget
from autoscaler.domain.reading import Unknown, UnknownReason
from autoscaler.domain.service import Service, Variant

Decide = Callable[..., ServiceDecision]


def a_point(at_s: float, desired: int = 1) -> Point:
    none = Unknown(UnknownReason.NO_OBSERVATIONS)
    return Point(
        at_s=at_s,
        short_rps=none,
        stable_rps=none,
        backlog=none,
        forecast_rps=none,
        forecast_median_rps=none,
        forecast_quantile=none,
        forecast_for_s=none,
        capacity_rps=none,
        attained=none,
        cost_per_hour=none,
        ready=desired,
        starting=0,
        draining=0,
        failed=0,
        desired=desired,
        binding=Reason.STEADY,
        held=None,
    )


@given(
    steps=st.lists(st.floats(min_value=-20, max_value=600), min_size=1, max_size=200),
    max_points=st.integers(min_value=3, max_value=40),
    keep_s=st.floats(min_value=10, max_value=10_000),
)
def test_a_timeline_is_bounded_ordered_recent_and_ends_with_the_newest(
    steps: list[float], max_points: int, keep_s: float
) -> None:
    timeline, at_s = Timeline(keep_s=keep_s, max_points=max_points), 1e6
    for step in steps:
        at_s += step
        timeline = timeline.with_point(a_point(at_s))
        times = [point.at_s for point in timeline.points]
        assert len(times) <= max_points
        assert all(earlier < later for earlier, later in pairwise(times))
        assert times[-1] == at_s
        assert times[0] >= at_s - keep_s


def test_nothing_is_thinned_while_there_is_room() -> None:
    timeline = Timeline(keep_s=7200, max_points=200)
    for second in range(180):
        timeline = timeline.with_point(a_point(float(second)))
    assert [point.at_s for point in timeline.points] == [float(second) for second in range(180)]


@pytest.mark.parametrize("interval_s", [1.0, 5.0, 15.0])
def test_a_full_timeline_is_even(interval_s: float) -> None:
    timeline = Timeline(keep_s=7200, max_points=120)
    for tick in range(int(9000 / interval_s)):
        timeline = timeline.with_point(a_point(tick * interval_s))
    gaps = [b.at_s - a.at_s for a, b in pairwise(timeline.points)]
    assert len(timeline.points) > 120 / 4
    assert max(gaps[:-1]) <= 2 * (timeline.spacing_s + interval_s)


def test_the_same_moment_again_replaces_it() -> None:
    timeline = Timeline(keep_s=100, max_points=10)
    for at_s, desired in ((1.0, 1), (2.0, 2), (2.0, 3)):
        timeline = timeline.with_point(a_point(at_s, desired))
    assert [(point.at_s, point.desired) for point in timeline.points] == [(1.0, 1), (2.0, 3)]


def test_a_smaller_limit_thins_what_is_there() -> None:
    timeline = Timeline(keep_s=1000, max_points=100)
    for second in range(100):
        timeline = timeline.with_point(a_point(float(second)))
    smaller = timeline.resized(20)
    assert len(smaller.points) <= 20
    assert smaller.points[-1] == timeline.points[-1]


def test_a_point_of_an_unknown_demand_holds_no_number_for_it(decision: Decide) -> None:
    point = point_of(decision(blind=True), None)
    for value in (point.short_rps, point.stable_rps, point.backlog, point.attained):
        assert isinstance(value, Unknown)
        assert value.reason is UnknownReason.TIMEOUT
    assert point.held is Reason.UNKNOWN_DEMAND


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf], ids=str)
def test_what_is_no_number_is_unknown(decision: Decide, value: float) -> None:
    broken = decision()
    assert isinstance(broken.demand, Demand)
    demand = replace(broken.demand, short_rps=value, attained=value)
    point = point_of(replace(broken, demand=demand), None)
    for given_value in (point.short_rps, point.attained):
        assert isinstance(given_value, Unknown)
        assert given_value.reason is UnknownReason.NOT_A_NUMBER


def test_a_known_capacity_is_told(decision: Decide) -> None:
    capacity = ReplicaCapacity(rps=7.5, limit=CapacityLimit.TTFT, source=CapacitySource.PROFILE)
    assert point_of(replace(decision(), capacity=capacity), None).capacity_rps == 7.5


def targets(**replicas: int) -> tuple[VariantTarget, ...]:
    return tuple(VariantTarget(variant=name, replicas=count) for name, count in replicas.items())


@pytest.mark.parametrize(
    ("current", "desired", "phases", "expected"),
    [
        pytest.param(targets(big=2), targets(big=3), (2, 1, 0), 3 * 4.0, id="one variant, starting ones counted"),
        pytest.param(targets(big=1, small=3), targets(big=1, small=3), (4, 0, 0), 4.0 + 3 * 1.0, id="as asked for"),
        pytest.param(targets(big=0), targets(big=2), (0, 2, 0), 2 * 4.0, id="from zero: what is asked for now"),
        pytest.param(targets(small=0), targets(small=0), (0, 0, 1), 4.0, id="the last one drains: the dearest"),
        pytest.param(targets(big=0), targets(big=0), (0, 0, 0), 0.0, id="asleep costs nothing"),
    ],
)
def test_cost_is_that_of_the_replicas_that_hold_devices(
    *,
    decision: Decide,
    service: Callable[..., Service],
    current: tuple[VariantTarget, ...],
    desired: tuple[VariantTarget, ...],
    phases: tuple[int, int, int],
    expected: float,
) -> None:
    priced = replace(service(), variants=(Variant(name="big", cost=4.0), Variant(name="small", cost=1.0)))
    ready, starting, draining = phases
    made = replace(
        decision(),
        current=current,
        outcome=Plan(targets=desired),
        ready=ready,
        starting=starting,
        draining=draining,
        failed=5,
    )
    assert point_of(made, priced).cost_per_hour == expected


def test_cost_without_a_price_is_unknown(decision: Decide, service: Callable[..., Service]) -> None:
    unpriced = replace(service(), variants=(Variant(name="other"),))
    for configured in (None, unpriced):
        assert isinstance(point_of(decision(), configured).cost_per_hour, Unknown)
