"""The board: what is published is what is read, by reference, with its past."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from adapters.serving.store import DecisionBoard
from autoscaler.domain.plan import Reason, ServiceDecision
from autoscaler.domain.service import Service, ServiceId

Decide = Callable[..., ServiceDecision]
CHAT, CODE = ServiceId("chat"), ServiceId("code")


@pytest.fixture
def board(service: Callable[..., Service]) -> DecisionBoard:
    return DecisionBoard(services=(service("code"), service("chat")), stale_after_s=15.0)


def test_services_are_listed_before_their_first_decision(board: DecisionBoard) -> None:
    assert list(board.board.entries) == ["chat", "code"]
    assert board.board.entries[CHAT].decision is None


def test_the_latest_decision_is_the_one_published_last(board: DecisionBoard, decision: Decide) -> None:
    for at_s in (10.0, 15.0):
        board.publish(decision("chat", at_s=at_s))
    entry = board.board.entries[CHAT]
    assert entry.decision == decision("chat", at_s=15.0)
    assert [point.at_s for point in entry.timeline.points] == [10.0, 15.0]
    assert board.board.entries[CODE].decision is None


def test_a_reader_keeps_what_it_took(board: DecisionBoard, decision: Decide) -> None:
    board.publish(decision("chat", at_s=10.0))
    taken = board.board
    board.publish(decision("chat", at_s=15.0))
    board.configure(services=(), stale_after_s=1.0)
    assert taken.entries[CHAT].timeline.points[-1].at_s == 10.0
    assert taken.stale_after_s == 15.0


def test_only_the_changed_entry_gets_a_new_version(board: DecisionBoard, decision: Decide) -> None:
    before = board.board
    board.publish(decision("chat"))
    after = board.board
    assert after.entries[CHAT].version > before.version
    assert after.entries[CODE] is before.entries[CODE]


def test_readers_are_told_until_they_leave(board: DecisionBoard, decision: Decide) -> None:
    told: list[int] = []
    leave = board.subscribe(lambda: told.append(board.board.version))
    board.publish(decision("chat"))
    leave()
    board.publish(decision("code"))
    assert len(told) == 1


def test_a_new_configuration_adds_and_removes_and_keeps_the_rest(
    board: DecisionBoard, decision: Decide, service: Callable[..., Service]
) -> None:
    board.publish(decision("chat", at_s=10.0))
    board.publish(decision("code", at_s=10.0))
    board.configure(services=(service("chat", cost=9.0), service("embed")), stale_after_s=30.0)
    entries = board.board.entries
    assert list(entries) == ["chat", "embed"]
    assert entries[CHAT].decision is not None
    board.publish(decision("chat", at_s=15.0))
    costs = [point.cost_per_hour for point in board.board.entries[CHAT].timeline.points]
    assert costs == [3 * 2.5, 3 * 9.0]


def test_changes_tell_numbers_and_holds_newest_first(board: DecisionBoard, decision: Decide) -> None:
    board.publish(decision("chat", at_s=0.0, before=3, need=3))
    board.publish(decision("chat", at_s=5.0, before=3, need=5))
    board.publish(decision("chat", at_s=10.0, before=5, need=5))
    board.publish(decision("chat", at_s=15.0, before=5, need=5, blind=True))
    board.publish(decision("chat", at_s=20.0, before=5, need=5, blind=True))
    board.publish(decision("chat", at_s=25.0, before=5, need=5))
    told = [(change.at_s, change.before, change.after, change.held) for change in board.board.entries[CHAT].changes]
    assert told == [(25.0, 5, 5, False), (15.0, 5, 5, True), (5.0, 3, 5, False)]
    assert board.board.entries[CHAT].changes[1].reason is Reason.UNKNOWN_DEMAND


def test_a_long_life_keeps_a_bounded_past(board: DecisionBoard, decision: Decide) -> None:
    for tick in range(3000):
        need = 3 + tick % 2
        board.publish(decision("chat", at_s=5.0 * tick, need=need, before=7 - need))
    entry = board.board.entries[CHAT]
    assert len(entry.timeline.points) <= 720
    assert len(entry.changes) <= 40
    assert entry.timeline.points[0].at_s >= 5.0 * 2999 - 7200


def test_many_services_share_the_room(service: Callable[..., Service], decision: Decide) -> None:
    board = DecisionBoard(services=[service(f"s{n}") for n in range(1000)], stale_after_s=15.0)
    for tick in range(400):
        board.publish(decision("s7", at_s=5.0 * tick))
    assert len(board.board.entries[ServiceId("s7")].timeline.points) <= 150


def test_a_restored_past_is_shown_but_not_counted(board: DecisionBoard, decision: Decide) -> None:
    board.prefill([decision("chat", at_s=10.0, need=2, before=2), decision("gone"), decision("chat", at_s=15.0)])
    entry = board.board.entries[CHAT]
    assert [point.at_s for point in entry.timeline.points] == [10.0, 15.0]
    assert ServiceId("gone") not in board.board.entries
    assert entry.decision is not None
    assert entry.decision.at_s == 15.0
    assert board.board.last_tick_s is None
    board.publish(decision("chat", at_s=16.0))
    totals = board.board.entries[CHAT].totals
    assert (totals.replica_s, dict(totals.decisions)) == (0.0, {"Steady": 1})


def test_replica_time_and_cost_add_up_over_ticks_but_not_over_a_silence(board: DecisionBoard, decision: Decide) -> None:
    for at_s in (0.0, 10.0, 20.0, 1000.0):
        board.publish(decision("chat", at_s=at_s))
    totals = board.board.entries[CHAT].totals
    counted_s = 10 + 10 + 15  # no more than the 15 s after which the board is stale
    assert totals.replica_s == pytest.approx(3 * counted_s)
    assert totals.cost == pytest.approx(3 * 2.5 * counted_s / 3600)


def test_unknown_inputs_are_counted_by_signal_and_reason(board: DecisionBoard, decision: Decide) -> None:
    board.publish(decision("chat", at_s=0.0, blind=True))
    board.publish(decision("chat", at_s=5.0, blind=True))
    assert dict(board.board.entries[CHAT].totals.unknowns) == {("demand", "Timeout"): 2}


def test_a_decision_on_an_unconfigured_service_is_kept_without_a_price(board: DecisionBoard, decision: Decide) -> None:
    board.publish(decision("stranger"))
    assert board.board.entries[ServiceId("stranger")].service is None


@pytest.mark.parametrize(
    ("since_s", "until_s", "limit", "found"),
    [
        pytest.param(0.0, 20.0, 5, 1, id="inside"),
        pytest.param(15.0, 15.0, 1, 1, id="exactly then"),
        pytest.param(16.0, 99.0, 5, 0, id="made earlier"),
        pytest.param(0.0, 14.0, 5, 0, id="made later"),
        pytest.param(0.0, 20.0, 0, 0, id="none asked for"),
    ],
)
def test_the_board_alone_knows_the_latest(
    *, board: DecisionBoard, decision: Decide, since_s: float, until_s: float, limit: int, found: int
) -> None:
    for at_s in (10.0, 15.0):
        board.publish(decision("chat", at_s=at_s))
    decisions = board.decisions(CHAT, since_s, until_s, limit)
    assert list(decisions) == [decision("chat", at_s=15.0)][:found]
    assert list(board.decisions(ServiceId("none"), since_s, until_s, limit)) == []


def test_ticks_are_remembered_without_services(board: DecisionBoard) -> None:
    board.ticked(at_s=5.0, duration_s=0.02)
    board.ticked(at_s=10.0, duration_s=99.0)
    assert board.board.last_tick_s == 10.0
    assert sum(board.board.ticks.buckets) == 2
    assert board.board.ticks.buckets[-1] == 1


def test_what_a_service_does_not_say_stays_unknown(board: DecisionBoard, decision: Decide) -> None:
    held = decision("chat", blind=True)
    board.publish(replace(held, stages=()))
    assert board.board.entries[CHAT].timeline.points[-1].desired == 3
