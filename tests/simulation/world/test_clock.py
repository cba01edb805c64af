"""Virtual time: order of events, waking, and rhythms that do not drift."""

from __future__ import annotations

import math
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.simulation.clock import Order, VirtualClock

times = st.floats(min_value=0, max_value=1e6)


@given(st.lists(st.tuples(times, st.sampled_from(Order)), max_size=30))
def test_events_come_by_time_then_order_then_plan(planned: list[tuple[float, Order]]) -> None:
    clock, seen = VirtualClock(begin_s=0.0), list[tuple[float, Order, int]]()

    def note(at_s: float, order: Order, number: int) -> None:
        assert clock.now_s() == at_s
        seen.append((at_s, order, number))

    for number, (at_s, order) in enumerate(planned):
        clock.at(at_s, partial(note, at_s, order, number), order)
    clock.wait_until(1e6)
    assert seen == sorted(seen)
    assert len(seen) == len(planned)
    assert clock.now_s() == 1e6


def test_what_is_due_at_the_end_of_a_wait_has_happened() -> None:
    clock, seen = VirtualClock(), list[float]()
    clock.after(15.0, lambda: seen.append(clock.elapsed_s))
    clock.wait_until(clock.begin_s + 14.9)
    assert seen == []
    clock.wait_until(clock.begin_s + 15.0)
    assert seen == [15.0]


def test_an_event_plans_others_in_the_same_wait() -> None:
    clock, seen = VirtualClock(begin_s=0.0), list[float]()
    clock.at(1.0, lambda: clock.after(2.0, lambda: seen.append(clock.now_s())))
    clock.wait_until(10.0)
    assert seen == [3.0]


def test_waking_ends_a_wait_at_the_event() -> None:
    clock = VirtualClock(begin_s=0.0)
    clock.at(4.0, clock.wake)
    clock.wait_until(10.0)
    assert clock.now_s() == 4.0
    clock.wait_until(10.0)
    assert clock.now_s() == 10.0


def test_time_never_goes_back() -> None:
    clock, seen = VirtualClock(begin_s=100.0), list[float]()
    clock.wait_until(50.0)
    clock.at(20.0, lambda: seen.append(clock.now_s()))
    clock.wait_until(100.0)
    assert (clock.now_s(), seen) == (100.0, [100.0])


def test_a_rhythm_does_not_drift() -> None:
    clock, seen = VirtualClock(begin_s=0.0), list[float]()
    clock.every(0.1, lambda: seen.append(clock.now_s()), Order.RECORD, first_s=0.05)
    clock.wait_until(1000.0)
    assert len(seen) == 10_000
    assert seen[-1] == pytest.approx(999.95, abs=1e-9)


@pytest.mark.parametrize("at_s", [math.nan, math.inf])
def test_no_time_is_refused(at_s: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        VirtualClock().at(at_s, lambda: None)


def test_time_passes_whoever_is_woken() -> None:
    clock, seen = VirtualClock(begin_s=0.0), list[float]()
    clock.at(4.0, clock.wake)
    for at_s in (6.0, 10.0, 10.5):
        clock.at(at_s, lambda: seen.append(clock.now_s()))
    clock.at(10.0, clock.wake)
    clock.let_pass(10.0)
    assert (clock.now_s(), seen) == (10.0, [6.0, 10.0])
    clock.let_pass(10.0)
    clock.wait_until(20.0)
    assert (clock.now_s(), seen) == (20.0, [6.0, 10.0, 10.5])
