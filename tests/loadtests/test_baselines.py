"""The computed fleets against arithmetic by hand: 1 request/s a replica, boot 10 s, drain 2 s, 2 s may be waited."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtests.arrivals import Arrivals
from loadtests.baselines import FleetFacts, ReactivePolicy, reactive, static_peak

FACTS = FleetFacts(capacity_rps=1.0, startup_s=10.0, drain_s=2.0, min_replicas=1, max_replicas=8, max_wait_s=2.0)
POLICY = ReactivePolicy(target=0.8, interval_s=5.0, window_s=10.0, down_window_s=20.0, tolerance=0.1)


def even(*parts: tuple[float, float]) -> Arrivals:
    """Evenly spaced arrivals, each part (requests per second, seconds)."""
    times: list[float] = []
    begin = 0.0
    for rate, seconds in parts:
        times += [begin + (index + 0.5) / rate for index in range(round(rate * seconds))]
        begin += seconds
    at_s = np.array(times)
    ones = np.ones(len(at_s), dtype=np.int64)
    return Arrivals(at_s=at_s, prompt_tokens=ones, output_tokens=ones, duration_s=begin, label="even")


def test_static_peak_holds_what_the_busiest_window_needs() -> None:
    """2 requests/s, and 3.5 for 20 s: 4 replicas for 120 s."""
    base = static_peak(even((2, 50), (3.5, 20), (2, 50)), facts=FACTS, busiest_s=10.0)
    assert base.peak_replicas == 4
    assert base.replica_seconds == 4 * 120
    assert base.share_served == 1.0


def test_static_peak_sized_on_a_long_window_misses_a_short_burst() -> None:
    """Sized for 10 requests in 100 s, hit by all of them within one second: one replica has served 1.x + 2 in time."""
    burst = even((0, 50), (10, 1), (0, 49))
    base = static_peak(burst, facts=FACTS, busiest_s=100.0)
    assert base.peak_replicas == 1
    # The i-th comes at 0.1 i and is served at i + 1, so it is in time while 0.9 i + 1 <= 2.05 or so.
    assert base.share_served == pytest.approx(0.2, abs=0.11)


def test_reactive_policy_step_by_step() -> None:
    """From 0.8 to 3.2 requests/s at 40 s, for 60 s, and back for 60 s; looked at every 5 s, mean of 10 s.

    At 45 s the mean is 2.0, so ceil(2.0 / 0.8) = 3 are wanted; at 50 s it is 3.2, so 4. The load ends at 100 s; at
    105 s 3 would do and at 110 s 1 would, but the largest recommendation of the last 20 s counts: 4 until 120 s, 3 at
    125 s. So two more than one are paid from 45 to 130 s, a third one from 50 to 125 s, and 2 s for the drain of each.
    """
    base = reactive(even((0.8, 40), (3.2, 60), (0.8, 60)), facts=FACTS, policy=POLICY)
    assert base.peak_replicas == 4
    assert base.replica_seconds == pytest.approx(160 + 2 * (130 - 45) + (125 - 50) + 3 * 2, abs=2)


def test_reactive_policy_pays_for_boots_that_come_too_late() -> None:
    """A replica takes longer to boot than requests may wait, so those of the first seconds of a step are missed."""
    load = even((0.7, 60), (4.0, 60))
    served = reactive(load, facts=FACTS, policy=POLICY).share_served
    at_once = reactive(load, facts=dataclasses.replace(FACTS, startup_s=0.0), policy=POLICY).share_served
    assert served < at_once <= 1.0


def test_within_tolerance_nothing_changes() -> None:
    """8.6 of 10 requests/s is 1.075 of the target of 80 %: within 10 %, so one replica stays alone."""
    base = reactive(even((8.6, 100)), facts=dataclasses.replace(FACTS, capacity_rps=10.0), policy=POLICY)
    assert base.peak_replicas == 1
    assert base.replica_seconds == pytest.approx(100)


def test_nothing_arrives() -> None:
    base = static_peak(even((0, 10)), facts=FACTS, busiest_s=10.0)
    assert (base.peak_replicas, base.share_served) == (1, 1.0)


@given(
    parts=st.lists(st.tuples(st.floats(0, 12), st.floats(5, 40)), min_size=1, max_size=5),
    startup_s=st.floats(0, 30),
)
def test_promises_of_the_reactive_policy(parts: list[tuple[float, float]], startup_s: float) -> None:
    """Never below the least, never above the most, but for those that drain; the share is a share."""
    load = even(*parts)
    facts = dataclasses.replace(FACTS, startup_s=startup_s, drain_s=0.0)
    base = reactive(load, facts=facts, policy=POLICY)
    assert 1 <= base.peak_replicas <= 8
    assert load.duration_s - 1 <= base.replica_seconds <= 8 * (load.duration_s + 1)
    assert 0 <= base.share_served <= 1


@pytest.mark.parametrize("capacity", [0.0, -1.0, float("inf"), float("nan")])
def test_impossible_capacity_is_refused(capacity: float) -> None:
    with pytest.raises(ValueError, match="positive and finite"):
        dataclasses.replace(FACTS, capacity_rps=capacity)
