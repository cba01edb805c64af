"""The fluid fleet against a second-by-second reference, and its pages against its own truth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from adapters.simulation.fluid_fleet import FluidFleet, FluidModel
from adapters.simulation.serving import Outcome
from autoscaler.domain.reading import Histogram
from autoscaler.domain.service import Slo

SLO = Slo(ttft_s=2.0)


@dataclass
class Waiting:
    """A request, or a part of one, in the reference's queue."""

    second: int
    amount: float


def reference(arrivals: NDArray[np.int64], capacity: list[float], patience: int = 2) -> list[float]:
    """Missed requests of each second, from a list of those that wait; whole seconds, at least one replica."""
    queue: list[Waiting] = []
    in_time = [0.0] * len(arrivals)
    for second, count in enumerate(arrivals.tolist()):
        queue.append(Waiting(second, float(count)))
        left = capacity[second]
        while queue and left > 0:
            served = min(left, queue[0].amount)
            if second - queue[0].second <= patience:
                in_time[queue[0].second] += served
            queue[0].amount -= served
            left -= served
            if queue[0].amount <= 1e-12:
                queue.pop(0)
    return [float(count) - met for count, met in zip(arrivals.tolist(), in_time, strict=True)]


counts = st.lists(st.integers(0, 40), min_size=1, max_size=60).map(lambda each: np.array(each, dtype=np.int64))
changes = st.lists(st.tuples(st.integers(0, 60), st.booleans()), max_size=12)


@settings(deadline=None)
@given(counts, changes, st.floats(1, 15))
def test_misses_equal_those_of_a_queue(arrivals: NDArray[np.int64], plan: list[tuple[int, bool]], rps: float) -> None:
    fleet = FluidFleet(arrivals, FluidModel(capacity_rps=rps))
    serving = [fleet.add()]
    fleet.open(serving[0])
    capacity = [0.0] * len(arrivals)
    begun = 0
    for second, grow in [*sorted(plan), (len(arrivals), True)]:
        for each in range(begun, min(second, len(arrivals))):
            capacity[each] = rps * len(serving)
        begun = max(begun, second)
        fleet.advance(float(second))
        if grow:
            serving.append(fleet.add())
            fleet.open(serving[-1])
        elif len(serving) > 1:
            fleet.close(serving.pop())
    assert fleet.missed() == pytest.approx(reference(arrivals, capacity), abs=1e-6)


@settings(deadline=None)
@given(counts, changes, st.floats(0, 9))
def test_pages_add_up(arrivals: NDArray[np.int64], plan: list[tuple[int, bool]], service_s: float) -> None:
    """All pages together show every arrival, whoever opens and closes; and counters never run back."""
    fleet = FluidFleet(arrivals, FluidModel(capacity_rps=5.0, service_s=service_s))
    serving = [fleet.add()]
    fleet.open(serving[0])
    all_of_them = list(serving)
    before: dict[int, tuple[float, ...]] = {}
    for second, grow in sorted(plan):
        fleet.advance(float(second))
        if grow:
            all_of_them.append(fleet.add())
            fleet.open(all_of_them[-1])
            serving.append(all_of_them[-1])
        elif len(serving) > 1:
            fleet.close(serving.pop())
        pages = {each: fleet.page(each) for each in all_of_them}
        arrived = sum(page.arrived for page in pages.values())
        assert arrived == pytest.approx(arrivals[: min(second, len(arrivals))].sum(), abs=1e-6)
        for each, page in pages.items():
            assert page.first_tokens is not None
            assert page.ttft is not None
            counters = (page.completed, page.first_tokens, page.ttft.total, float(page.ttft.counts[-1]))
            assert all(now >= then - 1e-9 for now, then in zip(counters, before.get(each, (0.0,) * 4), strict=True))
            assert page.completed + page.running == pytest.approx(page.first_tokens)
            before[each] = counters


def test_a_page_shows_the_share_in_time() -> None:
    """Of what was served, the histogram's share within the threshold is the true one."""
    arrivals = np.concatenate([np.random.default_rng(2).poisson(9.5, 3000), np.zeros(100, dtype=np.int64)])
    fleet = FluidFleet(arrivals, FluidModel(capacity_rps=10.0))
    replica = fleet.add()
    fleet.open(replica)
    fleet.advance(3100.0)
    page = fleet.page(replica)
    assert page.ttft is not None
    share = page.ttft.histogram().share_within(2.0)
    served_late = fleet.missed().sum()
    assert isinstance(share, float)
    assert served_late > 0
    assert page.ttft.count * (1 - share) == pytest.approx(served_late)
    assert isinstance(page.ttft.histogram(), Histogram)


def test_requests_are_held_while_no_replica_is_open() -> None:
    arrivals = np.array([5] * 10)
    fleet = FluidFleet(arrivals, FluidModel(capacity_rps=100.0, held_limit=12, held_s=6.0))
    fleet.advance(5.0)
    page = fleet.gateway()
    assert (page.waiting, page.refused, page.arrivals) == (12, 13, 25)
    fleet.open(fleet.add())
    fleet.advance(10.0)
    page = fleet.gateway()
    assert (page.waiting, page.in_flight, page.refused, page.arrivals) == (0, 0, 13, 50)
    assert fleet.missed().sum() == 13 + 12  # refused, and held for longer than the threshold


def test_held_too_long_is_refused() -> None:
    fleet = FluidFleet(np.array([4] + [0] * 20), FluidModel(capacity_rps=1.0, held_s=5.0))
    fleet.advance(4.0)
    assert fleet.gateway().waiting == 4
    fleet.advance(10.0)
    assert (fleet.gateway().waiting, fleet.gateway().refused) == (0, 4)
    assert fleet.missed().sum() == 4


def test_a_closed_replica_stays_for_one_service_time_and_a_removed_one_loses_its_requests() -> None:
    fleet = FluidFleet(np.array([10] * 60), FluidModel(capacity_rps=10.0, service_s=8.0))
    first, second = fleet.add(), fleet.add()
    fleet.open(first)
    fleet.open(second)
    fleet.advance(20.0)
    assert fleet.in_flight(first) == 40
    fleet.close(first)
    fleet.advance(24.0)
    assert fleet.page(first).running == pytest.approx(20)
    assert fleet.empty_since_s(first) is None
    fleet.advance(30.0)
    assert fleet.empty_since_s(first) == 28.0
    assert fleet.gateway().failed == 0
    fleet.remove(second)
    assert fleet.gateway().failed == 80  # what it began within the last 8 s, alone
    assert fleet.missed().sum() == 80 + 300  # those to come are not served yet


def test_outcomes_of_single_requests() -> None:
    fleet = FluidFleet(np.array([3, 0, 0, 0, 0, 2]), FluidModel(capacity_rps=1.0))
    fleet.open(fleet.add())
    fleet.advance(6.0)
    outcomes = fleet.outcomes()
    assert outcomes.ttft_s[:3].tolist() == [0.0, 1.0, 2.0]
    assert outcomes.code.tolist() == [Outcome.FINISHED] * 4 + [Outcome.UNFINISHED]
    assert np.count_nonzero(~outcomes.in_slo(SLO)) == fleet.missed().sum() == 1


def test_a_share_of_a_second_counts() -> None:
    """A replica that is open for half a second serves half as much in it."""
    fleet = FluidFleet(np.array([10, 0, 0]), FluidModel(capacity_rps=4.0))
    replica = fleet.add()
    fleet.advance(0.5)
    fleet.open(replica)
    fleet.advance(1.0)
    assert fleet.page(replica).first_tokens == pytest.approx(2.0)


def test_weights_are_parts_of_the_capacity() -> None:
    fleet = FluidFleet(np.array([10] * 10), FluidModel(capacity_rps=8.0))
    whole, quarter = fleet.add(), fleet.add(weight=0.25)
    fleet.open(whole)
    fleet.open(quarter)
    fleet.advance(10.0)
    assert fleet.page(whole).first_tokens == pytest.approx(80)
    assert fleet.page(quarter).first_tokens == pytest.approx(20)
