"""Recording ticks and reading them again, across restarts, faults and time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.local.database import FILE_NAME, Database
from adapters.local.journal import Retention, SqliteJournal
from adapters.local.recording import Recording, Segment
from autoscaler.codec import encode
from autoscaler.domain.cluster import ClusterSnapshot, Device, Phase, Replica, Target
from autoscaler.domain.learned import Learned
from autoscaler.domain.params import Params, Plans
from autoscaler.domain.plan import Decision, Hold, Plan, Reason, ServiceDecision, VariantTarget
from autoscaler.domain.reading import Observations, Unknown, UnknownReason
from autoscaler.domain.service import Bounds, Service, ServiceId, Slo, Variant
from autoscaler.domain.state import ControllerState, LengthSums, ServiceState, Tick
from autoscaler.ports import InvalidAnswerError, RefusedError, UnavailableError
from tests.local.rehearsal import GPU, Stage, template

CHAT, CODE = ServiceId("chat"), ServiceId("code")
START_S = 1_000_000.0


def service(name: ServiceId, *, most: int = 10) -> Service:
    return Service(id=name, slo=Slo(ttft_s=1.0), variants=(Variant(name="v"),), bounds=Bounds(max_replicas=most))


def decision(name: ServiceId, at_s: float, replicas: int | None) -> ServiceDecision:
    nothing = Unknown(UnknownReason.WARMING_UP, "young")
    targets = (VariantTarget(variant="v", replicas=replicas or 0),)
    return ServiceDecision(
        service=name,
        at_s=at_s,
        outcome=Hold(reason=Reason.UNKNOWN_DEMAND) if replicas is None else Plan(targets=targets),
        stages=(),
        binding=Reason.STEADY,
        current=targets,
        demand=nothing,
        forecast=nothing,
        capacity=nothing,
        ready=1,
        starting=0,
        draining=0,
        failed=0,
        lead_s=30.0,
        ages=(("chat-v-1", 0.25),),
    )


def tick(at_s: float, *, chat: int | None = 1, code: int | None = 2) -> Tick:
    replica = Replica(name="chat-v-1", service=CHAT, variant="v", phase=Phase.READY, created_s=5.0)
    return Tick(
        now_s=at_s,
        snapshot=ClusterSnapshot(
            at_s=at_s - 0.5,
            devices=(Device(id="0"),),
            replicas=(replica,),
            targets=(Target(service=CHAT, variant="v", replicas=1),),
        ),
        observations=Observations(
            at_s=at_s - 0.25, engines={"chat-v-1": Unknown(UnknownReason.TIMEOUT, "1 s")}, gateways={}
        ),
        decision=Decision(at_s=at_s, services=(decision(CHAT, at_s, chat), decision(CODE, at_s, code))),
    )


def state(at_s: float) -> ControllerState:
    chat = ServiceState(
        seen_s=at_s,
        tracks={},
        gateway=None,
        increments=(),
        lengths=LengthSums(),
        forecaster=Learned("mixture", {"weights": np.linspace(0.0, at_s, 7)}),
        capacities={},
        theta=3.0,
        day_arrivals=at_s,
        peaks_rps=np.zeros(168),
        peak_hour=3,
    )
    return ControllerState(services={CHAT: chat})


def plans(*, most: int = 10) -> Plans:
    return Plans(services=(service(CHAT, most=most), service(CODE)), params=Params())


@dataclass
class Run:
    """A controller's journal in a state file, recorded tick by tick with explicit time."""

    path: Path
    now_s: float = START_S
    plans: Plans = field(default_factory=plans)
    retention: Retention = field(default_factory=Retention)
    recorded: list[Tick] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.begin()

    def begin(self) -> ControllerState | None:
        """As a controller begins; an earlier one may have ended in any way."""
        self.database = Database(self.path, now_s=lambda: self.now_s)
        self.journal = SqliteJournal(self.database, now_s=lambda: self.now_s, retention=self.retention)
        return self.journal.restore()

    def killed(self) -> None:
        self.database.close()

    def record(self, ticks: int, *, every_s: float = 15.0, make: Callable[[float], Tick] = tick) -> None:
        for _ in range(ticks):
            self.now_s += every_s
            made = make(self.now_s)
            self.journal.record(made, self.plans, state(self.now_s))
            self.recorded.append(made)

    @property
    def recording(self) -> Recording:
        return Recording(self.path)

    def segments(self) -> list[Segment]:
        return list(self.recording.segments())

    def replayable(self) -> list[Tick]:
        return [each for segment in self.segments() for each in segment.ticks]

    def history(self, name: ServiceId = CHAT, *, limit: int = 1_000_000) -> list[float]:
        found = self.recording.decisions(name, since_s=0.0, until_s=1e12, limit=limit)
        return [each.at_s for each in found]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    run = Run(tmp_path / FILE_NAME)
    yield run
    run.database.close()


def plain(ticks: list[Tick]) -> list[bytes]:
    return [encode(each) for each in ticks]


def test_ticks_are_read_as_they_were_recorded_to_the_byte(run: Run) -> None:
    run.record(100)
    assert plain(run.replayable()) == plain(run.recorded)


def test_every_segment_begins_with_the_state_its_first_tick_was_decided_from(run: Run) -> None:
    run.record(100)
    segments = run.segments()
    assert len(segments) > 1
    assert segments[0].state.services == {}
    for before, after in pairwise(segments):
        assert encode(after.state) == encode(state(before.ticks[-1].now_s))


def test_changed_services_begin_a_segment_from_the_state_before(run: Run) -> None:
    run.record(3)
    run.plans = plans(most=20)
    run.record(3)
    first, second = run.segments()
    assert (len(first.ticks), len(second.ticks)) == (3, 3)
    assert second.plans == run.plans != first.plans
    assert encode(second.state) == encode(state(first.ticks[-1].now_s))


@pytest.mark.parametrize("clean", [True, False])
def test_the_next_controller_goes_on_from_the_memory_of_the_last(run: Run, *, clean: bool) -> None:
    run.record(7, every_s=7.0)
    if clean:
        run.journal.close()
    run.killed()
    restored = run.begin()
    assert restored is not None
    age_s = run.now_s - restored.services[CHAT].seen_s
    assert age_s == 0.0 if clean else 0.0 < age_s <= run.retention.state_every_s
    run.record(4)
    assert plain(run.replayable()) == plain(run.recorded)
    assert encode(run.segments()[-1].state) == encode(restored)


def test_nothing_recorded_is_no_memory(run: Run) -> None:
    assert run.journal.restore() is None
    run.journal.close()
    assert run.begin() is None


def test_a_memory_of_another_version_is_no_memory(run: Run) -> None:
    run.record(3)
    run.database.write([("UPDATE latest SET state = ?", (b"\x00\x01",))])
    assert run.journal.restore() is None
    run.record(3)


def test_decisions_are_found_by_service_and_time(run: Run) -> None:
    run.record(10, make=lambda at_s: tick(at_s, code=None if at_s < START_S + 100 else 4))
    assert run.recording.services() == (CHAT, CODE)
    assert run.history() == [START_S + 15.0 * number for number in range(1, 11)]
    assert run.history(limit=3) == [START_S + 15.0 * number for number in range(8, 11)]
    assert run.history(ServiceId("none")) == []
    between = run.recording.decisions(CODE, since_s=START_S + 30.0, until_s=START_S + 45.0, limit=9)
    assert [each.at_s for each in between] == [START_S + 30.0, START_S + 45.0]
    assert between[0] == decision(CODE, START_S + 30.0, None)
    assert run.recording.decision_at(CODE, START_S + 149.0) == decision(CODE, START_S + 135.0, 4)
    assert run.recording.decision_at(CODE, START_S + 14.9) is None


def test_old_entries_go_and_what_stays_can_still_be_computed_again(tmp_path: Path) -> None:
    keep = Retention(decisions_s=6000.0, inputs_s=2000.0)
    run = Run(tmp_path / FILE_NAME, retention=keep)
    run.record(1000)
    oldest_s = min(run.history())
    assert run.now_s - 6000.0 - keep.trim_every_s - 15.0 <= oldest_s <= run.now_s - 5900.0
    replayable = run.replayable()
    assert run.now_s - 2100.0 <= replayable[0].now_s <= run.now_s - 2000.0 + keep.checkpoint_every_s
    assert plain(replayable) == plain(run.recorded[-len(replayable) :])
    run.database.close()


def test_the_file_stays_within_its_size_and_drops_the_oldest(tmp_path: Path) -> None:
    limit = 600_000
    run = Run(tmp_path / FILE_NAME, retention=Retention(max_bytes=limit))
    for _ in range(4):
        run.record(500)
        assert run.database.used_bytes() <= limit * 1.1
    newest = [each.now_s for each in run.recorded]
    history, replayable = run.history(), run.replayable()
    assert 100 < len(history) < 2000
    assert history == newest[-len(history) :]
    assert 100 < len(replayable) < 2000
    assert plain(replayable) == plain(run.recorded[-len(replayable) :])
    run.database.close()
    assert run.path.stat().st_size <= limit * 1.3


@pytest.mark.parametrize("step_s", [-7200.0, -1e6, 7200.0])
def test_a_clock_that_was_set_between_runs_mixes_nothing_up(run: Run, step_s: float) -> None:
    run.record(20)
    run.journal.close()
    run.killed()
    run.now_s += step_s
    before = [each for each in run.recorded if each.now_s <= run.now_s]
    assert run.begin() is not None  # as it was: its times may lie ahead
    run.recorded = before
    run.record(20)
    assert run.history() == [each.now_s for each in run.recorded]
    assert plain(run.replayable()) == plain(run.recorded)


def test_a_full_disk_costs_the_ticks_that_do_not_fit_and_nothing_else(run: Run) -> None:
    run.record(5)
    pages = run.database.read("PRAGMA page_count")[0][0]
    run.database.read(f"PRAGMA max_page_count = {pages}")
    lost = 0
    for _ in range(200):
        try:
            run.record(1)
        except RefusedError:
            lost += 1
    assert lost > 0
    run.database.read("PRAGMA max_page_count = 1000000")
    run.record(50)
    assert run.history() == [each.now_s for each in run.recorded]
    # The first tick after a loss was decided from a state that is not on record.
    whole = plain(run.recorded)
    replayable = plain(run.replayable())
    assert set(replayable) <= set(whole)
    assert replayable[-49:] == whole[-49:]
    assert whole[-50] not in replayable


def test_a_file_that_is_damaged_meanwhile_is_set_aside_and_recording_goes_on(run: Run) -> None:
    run.record(50)
    run.database.read("PRAGMA wal_checkpoint(TRUNCATE)")
    with run.path.open("r+b") as file:
        for offset in range(0, run.path.stat().st_size, 4096):
            file.seek(offset)
            file.write(b"\xff" * 2048)
    run.database.read("PRAGMA shrink_memory")  # or else it goes on for a while from what it remembers
    run.recorded.clear()
    run.record(20)
    assert run.history() == [each.now_s for each in run.recorded]
    assert len(list(run.path.parent.glob("state.sqlite.corrupt-*"))) >= 1
    assert "started afresh" in run.database.notices[0]


def test_a_tick_that_is_no_json_is_refused_alone(run: Run) -> None:
    run.record(2)
    broken = tick(run.now_s + 1.0)
    part = replace(broken.decision.services[0], lead_s=float("nan"))
    with pytest.raises(InvalidAnswerError):
        run.journal.record(
            replace(broken, decision=Decision(at_s=broken.now_s, services=(part,))), run.plans, state(run.now_s)
        )
    run.record(2)
    assert len(run.history()) == 4


def test_reading_needs_a_file(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="does not exist"):
        Recording(tmp_path).services()
    (tmp_path / "else.txt").write_text("no database at all")
    with pytest.raises(UnavailableError, match="can't be read"):
        Recording(tmp_path / "else.txt").services()


def test_the_fleet_is_read_as_last_kept(tmp_path: Path) -> None:
    stage = Stage(directory=tmp_path, templates=[template(devices=GPU)], devices=[Device(id="0")])
    stage.scale_and_make_ready(1)
    stage.ask(2)
    stage.step()
    view = stage.supervisor.view()
    snapshot = Recording(tmp_path).fleet(at_s=5.0, devices=view.devices)
    assert snapshot == ClusterSnapshot(at_s=5.0, devices=view.devices, replicas=view.replicas, targets=view.targets)
    stage.database.write([("UPDATE replicas SET body = ?", (b"{}",))])
    with pytest.raises(InvalidAnswerError, match="another version"):
        Recording(tmp_path).fleet(at_s=5.0, devices=())
    stage.database.close()


def test_decisions_of_another_version_are_no_decisions(run: Run) -> None:
    run.record(1)
    run.database.write([("UPDATE decisions SET body = ?", (b"\x00",))])
    with pytest.raises(InvalidAnswerError, match="ServiceDecision"):
        run.history()


def test_a_recording_is_read_beside_the_controller_and_after_it(run: Run) -> None:
    run.record(5)
    directory = Recording(run.path.parent)
    assert len(directory.decisions(CHAT, since_s=0.0, until_s=1e12, limit=99)) == 5
    run.record(5)
    assert len(directory.decisions(CHAT, since_s=0.0, until_s=1e12, limit=99)) == 10
    run.database.close()
    assert len(directory.decisions(CHAT, since_s=0.0, until_s=1e12, limit=99)) == 10
    run.begin()


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["tick", "restart", "kill", "services"]), st.floats(0.5, 900.0), st.integers(0, 9)),
        max_size=40,
    )
)
def test_whatever_is_replayed_was_recorded_and_follows_from_its_state(
    tmp_path_factory: pytest.TempPathFactory, events: list[tuple[str, float, int]]
) -> None:
    run = Run(tmp_path_factory.mktemp("journal") / FILE_NAME)
    before: dict[float, bytes] = {}  # the state that each tick was decided from
    present = ControllerState(services={})
    for what, span_s, number in events:
        if what == "services":
            run.plans = plans(most=10 + number)
        elif what in ("restart", "kill"):
            if what == "restart":
                run.journal.close()
            run.killed()
            present = run.begin() or ControllerState(services={})
        else:
            before[run.now_s + span_s] = encode(present)
            run.record(1, every_s=span_s)
            present = state(run.now_s)
    replayed = []
    for segment in run.segments():
        given_state = encode(segment.state)
        for each in segment.ticks:
            assert before[each.now_s] == given_state
            given_state = encode(state(each.now_s))
            replayed.append(each)
    assert plain(replayed) == plain(run.recorded)
    run.database.close()
