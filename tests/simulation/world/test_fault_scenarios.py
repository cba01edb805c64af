"""The shipped controller among faults: nothing is given up on what is not known, and it recovers by itself."""

from __future__ import annotations

from operator import ge

import pytest

from adapters.simulation.faults import Fault, FaultKind
from loadtests.workloads.workload import SecondCounts
from tests.simulation.world.runs import STEP_S, asked, misses, run, share, step

# A fault begins just before traffic changes, and lasts 15 minutes.
BEGIN_S, END_S = STEP_S - 5.0, 2700.0
QUIET, SAME, BUSY = step(40.0, 10.0), step(40.0, 40.0), step(40.0, 80.0)
ENOUGH_FOR_40, ENOUGH_FOR_80 = 4, 8
INTERVAL_S = 15.0


def fault(kind: FaultKind, amount: float | None = None, *, until_s: float = END_S) -> Fault:
    return Fault(kind=kind, from_s=BEGIN_S, until_s=until_s, amount=amount)


BLIND = [
    pytest.param(fault(FaultKind.SOURCE_DOWN), id="source down"),
    pytest.param(fault(FaultKind.EMPTY_PAGES), id="empty pages"),
    pytest.param(fault(FaultKind.NOT_A_NUMBER), id="NaN"),
    pytest.param(fault(FaultKind.STALE_PAGES), id="stale pages"),
    pytest.param(fault(FaultKind.INVENTORY_DOWN), id="inventory down"),
    pytest.param(fault(FaultKind.SKEWED_CLOCK, -120.0), id="clock behind"),
]


def test_without_a_fault_it_follows_the_traffic() -> None:
    assert max(asked(run(QUIET), 2100.0, 4800.0)) < ENOUGH_FOR_40
    assert min(asked(run(BUSY), 2100.0, 4800.0)) >= ENOUGH_FOR_80


@pytest.mark.parametrize("trouble", BLIND)
def test_nothing_is_given_up_blindly_and_what_is_too_much_goes_afterwards(trouble: Fault) -> None:
    result = run(QUIET, trouble)
    assert min(asked(result, BEGIN_S, END_S + INTERVAL_S)) >= max(asked(result, BEGIN_S, BEGIN_S + INTERVAL_S))
    assert max(asked(result, END_S + 600.0, 4800.0)) < ENOUGH_FOR_40
    assert misses(result, BEGIN_S, 4800.0) == 0


@pytest.mark.parametrize("trouble", BLIND)
def test_growth_follows_as_soon_as_it_sees_again(trouble: Fault) -> None:
    result = run(BUSY, trouble)
    assert max(asked(result, END_S + 4 * INTERVAL_S, END_S + 300.0)) >= ENOUGH_FOR_80
    assert min(asked(result, END_S + 300.0, 4800.0)) >= ENOUGH_FOR_80
    assert share(result, 3600.0, 4800.0) > 0.99


def test_half_of_the_replicas_dark() -> None:
    """Those count as loaded: nothing goes while they are newly dark, and never more than the visible ones allow."""
    result = run(QUIET, fault(FaultKind.PART_DARK))
    before = asked(result, BEGIN_S - INTERVAL_S, BEGIN_S)[0]
    assert set(asked(result, BEGIN_S, BEGIN_S + 240.0)) == {before}
    assert misses(result, BEGIN_S, 4800.0) == 0
    assert max(asked(result, END_S + 600.0, 4800.0)) < ENOUGH_FOR_40


def test_half_of_the_replicas_dark_while_traffic_grows() -> None:
    """What can be seen of the growth is followed at once."""
    result = run(BUSY, fault(FaultKind.PART_DARK))
    assert asked(result, BEGIN_S, BEGIN_S + 60.0)[-1] > asked(result, BEGIN_S - INTERVAL_S, BEGIN_S)[0]
    assert min(asked(result, BEGIN_S + 400.0, 4800.0)) >= ENOUGH_FOR_80  # by then the dark ones count as loaded


@pytest.mark.parametrize(
    "traffic", [pytest.param(QUIET, id="less"), pytest.param(SAME, id="as before"), pytest.param(BUSY, id="more")]
)
def test_pages_that_never_change_are_noticed_at_once(traffic: SecondCounts) -> None:
    """The time on them is new, and requests are on them, so a heartbeat that stands still gives them away."""
    result = run(traffic, fault(FaultKind.FROZEN_PAGES))
    before = asked(result, BEGIN_S - INTERVAL_S, BEGIN_S)[0]
    assert set(asked(result, BEGIN_S, END_S)) == {before}
    assert share(result, 3600.0, 4800.0) > 0.99


def test_pages_of_idle_engines_that_never_change_are_noticed_later() -> None:
    """Idle engines may stand still: nothing is given up once that has lasted for too long, and nothing below one."""
    noticed_s = BEGIN_S + 12 * INTERVAL_S + 2 * INTERVAL_S
    result = run(step(0.0, 0.0), fault(FaultKind.FROZEN_PAGES))
    held = asked(result, noticed_s, END_S)
    assert min(held) == held[0] >= 1


def test_a_clock_that_is_ahead() -> None:
    result = run(QUIET, fault(FaultKind.SKEWED_CLOCK, 120.0))
    assert misses(result, BEGIN_S, 4800.0) == 0
    assert max(asked(result, END_S + 600.0, 4800.0)) < ENOUGH_FOR_40


@pytest.mark.parametrize(
    "gap_s", [pytest.param(15.0, id="within a tick"), pytest.param(120.0, id="two minutes without a leader")]
)
def test_another_leader_goes_on_from_the_journal(gap_s: float) -> None:
    """It knows the start-up time and the traffic of before, and gives up nothing before the same leader would have."""
    handover = fault(FaultKind.LEADER_CHANGE, until_s=BEGIN_S + gap_s)
    result = run(QUIET, handover)
    unbroken = asked(run(QUIET), BEGIN_S, 4800.0)
    assert all(map(ge, asked(result, BEGIN_S, 4800.0), unbroken[1:]))
    assert max(asked(result, handover.until_s + 400.0, 4800.0)) < ENOUGH_FOR_40
    assert misses(result, BEGIN_S, 4800.0) == 0


def test_a_conflict_is_tried_again_until_it_is_over() -> None:
    result = run(BUSY, fault(FaultKind.CONFLICT))
    before = asked(result, BEGIN_S - INTERVAL_S, BEGIN_S)[0]
    assert set(asked(result, BEGIN_S, END_S)) == {before}
    assert result.faults["ActuationFailed"] > 50
    assert min(asked(result, END_S + 2 * INTERVAL_S, 4800.0)) >= ENOUGH_FOR_80


@pytest.mark.parametrize("amount", [-2.0, 4.0])
def test_an_edit_by_hand_is_put_right(amount: float) -> None:
    result = run(SAME, fault(FaultKind.MANUAL_EDIT, amount, until_s=BEGIN_S))
    before = asked(result, BEGIN_S - INTERVAL_S, BEGIN_S)[0]
    assert asked(result, BEGIN_S, STEP_S)[-1] == before + amount
    after = asked(result, BEGIN_S + 600.0, 4800.0)
    assert ENOUGH_FOR_40 <= min(after) <= max(after) <= before + 1
    assert misses(result, BEGIN_S + 600.0, 4800.0) == 0


def test_crashed_replicas_are_replaced_while_they_start_again() -> None:
    result = run(SAME, fault(FaultKind.CRASH, until_s=BEGIN_S))
    line = result.timeline
    failed = line.failed[line.at_s == STEP_S]
    assert failed[0] >= 2
    before = asked(result, BEGIN_S - INTERVAL_S, BEGIN_S)[0]
    assert max(asked(result, BEGIN_S, BEGIN_S + 300.0)) > before
    assert asked(result, 4800.0, 4800.0)[0] <= before + 1
    assert misses(result, 3000.0, 4800.0) == 0


def test_a_crash_loop_asks_for_no_more_than_replacements_and_leaves_nothing_behind() -> None:
    result, without = run(BUSY, fault(FaultKind.CRASH_LOOP)), run(BUSY)
    usual = max(asked(without, BEGIN_S, 4800.0))
    assert max(asked(result, BEGIN_S, END_S)) <= 2 * usual
    assert len(set(asked(result, BEGIN_S + 300.0, END_S))) == 1
    assert min(asked(result, BEGIN_S + 60.0, 4800.0)) >= ENOUGH_FOR_80
    assert misses(result, END_S + 600.0, 4800.0) == 0
    assert asked(result, 4800.0, 4800.0)[0] <= asked(without, 4800.0, 4800.0)[0]


def test_replicas_that_crash_in_a_crash_loop_are_replaced_once() -> None:
    lost = fault(FaultKind.CRASH, 0.3, until_s=BEGIN_S)
    result, without = run(SAME, fault(FaultKind.CRASH_LOOP), lost), run(SAME)
    crashed = int(result.timeline.failed[result.timeline.at_s == STEP_S][0])
    usual = max(asked(without, BEGIN_S, 4800.0))
    assert crashed > 0
    assert max(asked(result, BEGIN_S, END_S)) <= usual + crashed
    assert misses(result, 3600.0, 4800.0) == 0
    assert asked(result, 4800.0, 4800.0)[0] <= asked(without, 4800.0, 4800.0)[0] + 1


def test_starts_that_take_five_times_as_long() -> None:
    result = run(BUSY, fault(FaultKind.SLOW_START))
    assert min(asked(result, BEGIN_S + 60.0, 4800.0)) >= ENOUGH_FOR_80
    assert misses(result, END_S, 4800.0) == 0


def test_replicas_that_no_node_takes_are_asked_for_again_later() -> None:
    result = run(BUSY, fault(FaultKind.UNSCHEDULABLE))
    assert min(asked(result, END_S + 700.0, 4800.0)) >= ENOUGH_FOR_80
    assert misses(result, 3900.0, 4800.0) == 0
