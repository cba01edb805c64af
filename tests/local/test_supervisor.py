"""Replicas from being asked for to being gone, step by step with explicit time."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from adapters.local.probes import Answer
from autoscaler.domain.cluster import Device, Phase
from autoscaler.domain.plan import VariantTarget
from autoscaler.domain.service import DeviceRequest, ServiceId
from autoscaler.ports import RefusedError
from tests.local.rehearsal import CODE, GPU, Machine, Stage, template


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(directory=tmp_path, templates=[template()])


def test_a_replica_starts_loads_and_becomes_ready(stage: Stage) -> None:
    stage.ask(1)
    stage.run(10.0)
    assert stage.only().phase is Phase.STARTING
    assert stage.only().metrics_url is None
    stage.machine.of("chat-v-1").answer = Answer.NOT_YET  # 503 while the model loads
    stage.run(50.0)
    assert stage.only().phase is Phase.STARTING
    assert stage.accepting() == []
    stage.machine.make_ready()
    stage.run(0.5)
    replica = stage.only()
    assert replica.phase is Phase.READY
    assert replica.restarts == 0
    assert stage.accepting() == ["chat-v-1"]
    assert replica.metrics_url == f"{stage.machine.routed[0].url}/metrics"
    assert replica.ready_s is not None
    assert 60.0 <= replica.ready_s - replica.created_s <= 60.5


def test_what_is_asked_for_is_kept_before_anything_is_started(stage: Stage) -> None:
    stage.ask(2)
    assert stage.machine.processes == {}
    stage.open()
    stage.step()
    assert len(stage.machine.living()) == 2


def test_asking_again_for_the_same_changes_nothing(stage: Stage) -> None:
    stage.scale_and_make_ready(2)
    stage.ask(2)
    stage.run(60.0)
    assert len(stage.machine.processes) == 2


@pytest.mark.parametrize(
    ("service", "variant", "replicas", "message"),
    [
        pytest.param("chat", "w", 1, "no variant 'w' of service 'chat' is configured; known: chat/v", id="variant"),
        pytest.param("code", "v", 1, "no variant 'v' of service 'code'", id="service"),
        pytest.param("chat", "v", -1, "must be >= 0, got -1", id="negative"),
    ],
)
def test_a_senseless_request_is_refused(stage: Stage, service: str, variant: str, replicas: int, message: str) -> None:
    with pytest.raises(RefusedError, match=message):
        stage.supervisor.ask(ServiceId(service), [VariantTarget(variant=variant, replicas=replicas)])
    assert stage.targets() == {("chat", "v"): 0}


def test_variants_that_are_not_named_stay(tmp_path: Path) -> None:
    stage = Stage(directory=tmp_path, templates=[template(variant="big"), template(variant="small")])
    stage.ask(2, variant="big")
    stage.ask(1, variant="small")
    stage.step()
    assert stage.targets() == {("chat", "big"): 2, ("chat", "small"): 1}
    assert [replica.name for replica in stage.replicas] == ["chat-big-1", "chat-big-2", "chat-small-1"]


def test_equal_names_from_different_services_are_told_apart(tmp_path: Path) -> None:
    templates = [template(ServiceId("a-b"), variant="c"), template(ServiceId("a"), variant="b-c")]
    stage = Stage(directory=tmp_path, templates=templates)
    stage.ask(1, ServiceId("a-b"), "c")
    stage.ask(1, ServiceId("a"), "b-c")
    stage.step()
    assert [replica.name for replica in stage.replicas] == ["a-b-c-1", "a-b-c-2"]


# Crashes


def test_a_crashed_replica_is_no_capacity_and_starts_again_on_another_port(stage: Stage) -> None:
    stage.scale_and_make_ready(1)
    first = stage.machine.routed[0].url
    stage.machine.of("chat-v-1").end(1)
    stage.step()
    failed = stage.only()
    assert failed.phase is Phase.FAILED
    assert failed.metrics_url is None
    assert failed.restarts == 1
    assert "exit code 1 after it was ready" in failed.detail
    assert stage.accepting() == []
    stage.run(1.0)
    assert stage.only().phase is Phase.STARTING
    stage.machine.make_ready()
    stage.run(1.0)
    assert stage.only().phase is Phase.READY
    assert stage.only().restarts == 1
    assert stage.machine.routed[0].url != first


@pytest.mark.parametrize(
    ("code", "words"),
    [
        pytest.param(0, "ended with exit code 0", id="in good order"),
        pytest.param(137, "ended with exit code 137", id="code"),
        pytest.param(-9, "ended by SIGKILL", id="signal"),
        pytest.param(-200, "ended by signal 200", id="unknown signal"),
        pytest.param(None, "ended after", id="not our child"),
    ],
)
def test_how_a_replica_ended_is_said(stage: Stage, code: int | None, words: str) -> None:
    stage.scale_and_make_ready(1)
    stage.machine.of("chat-v-1").end(code)
    stage.step()
    assert words in stage.only().detail


def test_backoff_doubles_to_five_minutes_and_never_ends(stage: Stage) -> None:
    stage.ask(1)
    stage.step()
    pauses = []
    for _ in range(14):
        stage.machine.of("chat-v-1").end(-6)
        stage.step()
        assert "SIGABRT during its start" in stage.only().detail
        failed_s = stage.now_s
        while not stage.machine.living():
            stage.now_s += 0.5
            stage.step()
        pauses.append(stage.now_s - failed_s)
    assert pauses == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300, 300, 300]
    assert stage.only().restarts == 14


def test_a_stable_run_forgives_earlier_failures(stage: Stage) -> None:
    stage.ask(1)
    stage.step()
    for _ in range(5):
        stage.machine.of("chat-v-1").end(1)
        stage.run(301.0)
    stage.machine.make_ready()
    stage.run(stage.pace.stable_s + 1.0)
    stage.machine.of("chat-v-1").end(1)
    stage.run(1.5)
    assert stage.only().phase is Phase.STARTING


def test_a_start_that_takes_too_long_is_ended_and_tried_again(stage: Stage) -> None:
    stage.ask(1)
    stage.run(599.0, every_s=1.0)
    assert stage.only().phase is Phase.STARTING
    first = stage.machine.of("chat-v-1")
    stage.run(1.0)
    assert stage.only().phase is Phase.FAILED
    assert "not ready within 600 s" in stage.only().detail
    assert not first.alive
    stage.run(2.0)
    assert stage.only().phase is Phase.STARTING


def test_measured_slow_starts_extend_the_deadline(stage: Stage) -> None:
    stage.ask(1)
    stage.run(400.0, every_s=1.0)
    stage.machine.make_ready()
    stage.run(1.0)
    stage.ask(2)
    stage.run(1100.0, every_s=1.0)
    assert stage.replicas[1].restarts == 0
    stage.run(110.0, every_s=1.0)  # 3 x 400 s are over
    assert stage.replicas[1].restarts == 1


def test_a_command_that_can_not_run_says_so_and_holds_only_its_own_service(tmp_path: Path) -> None:
    stage = Stage(directory=tmp_path, templates=[template(), template(CODE)])
    stage.scale_and_make_ready(1, CODE)
    stage.machine.refuse_to_spawn = "command not found: serve"
    stage.ask(1)
    stage.run(100.0)
    broken, healthy = stage.replicas
    assert broken.phase is Phase.FAILED
    assert "command not found: serve" in broken.detail
    assert broken.restarts == 7  # after 1, 2, 4, ... 64 s
    assert healthy.phase is Phase.READY
    stage.machine.refuse_to_spawn = ""
    stage.run(64.0)
    assert stage.replicas[0].phase is Phase.STARTING


def test_a_taken_port_is_retried_at_once_but_only_once(stage: Stage) -> None:
    stage.ask(1)
    stage.step()
    log = stage.machine.of("chat-v-1").launch.log
    log.parent.mkdir(parents=True)
    log.write_text("INFO starting\nOSError: [Errno 98] Address already in use\n")
    stage.machine.of("chat-v-1").end(1)
    stage.step()
    assert stage.only().phase is Phase.STARTING
    stage.machine.of("chat-v-1").end(1)
    stage.step()
    assert stage.only().phase is Phase.FAILED
    assert stage.only().restarts == 2


# Ready, and yet not


def test_an_overloaded_replica_that_does_not_answer_stays_ready(stage: Stage) -> None:
    stage.scale_and_make_ready(1)
    stage.machine.of("chat-v-1").answer = Answer.SILENT
    stage.run(300.0)
    assert stage.only().phase is Phase.READY
    assert "Silent" in stage.only().detail
    assert stage.only().failing_probe == stage.only().detail
    assert stage.accepting() == ["chat-v-1"]
    stage.machine.make_ready()
    stage.run(2.0)
    assert (stage.only().detail, stage.only().failing_probe) == ("", None)
    assert stage.only().restarts == 0


@pytest.mark.parametrize("answer", [Answer.SILENT, Answer.NOT_YET])
def test_one_that_is_not_ready_for_as_long_as_a_start_may_take_starts_again(stage: Stage, answer: Answer) -> None:
    stage.scale_and_make_ready(1)
    stage.machine.of("chat-v-1").answer = answer
    stage.run(610.0, every_s=1.0)
    assert stage.only().restarts == 1
    assert len(stage.machine.processes) == 2
    assert len(stage.machine.living()) == 1


def test_one_that_refuses_connections_again_and_again_is_replaced(stage: Stage) -> None:
    stage.scale_and_make_ready(1)
    gone = stage.machine.of("chat-v-1")
    gone.answer = Answer.REFUSED
    stage.run(30.0)
    assert not gone.alive
    assert stage.only().restarts == 1


def test_single_refusals_do_no_harm(stage: Stage) -> None:
    stage.scale_and_make_ready(1)
    for _ in range(30):
        stage.machine.of("chat-v-1").answer = Answer.REFUSED
        stage.run(3.0)
        stage.machine.make_ready()
        stage.run(6.0)
    assert stage.only().restarts == 0
    assert stage.only().phase is Phase.READY


# Shrinking


def test_draining_waits_for_requests_then_ends_the_process(stage: Stage) -> None:
    stage.scale_and_make_ready(1)
    process = stage.machine.of("chat-v-1")
    process.in_flight = 3
    stage.ask(0)
    stage.run(30.0)
    assert stage.only().phase is Phase.DRAINING
    assert "finishes 3 requests" in stage.only().detail
    assert [(each.replica, each.accepting) for each in stage.machine.routed] == [("chat-v-1", False)]
    assert not process.asked_to_end
    process.in_flight = 0
    stage.run(0.5)
    assert process.exit_code == 0
    assert stage.replicas == ()
    assert stage.machine.routed == ()


def test_the_gateway_is_told_a_step_before_its_count_is_believed(stage: Stage) -> None:
    stage.scale_and_make_ready(1)
    stage.ask(0)
    stage.step()
    assert stage.accepting() == []
    assert stage.machine.of("chat-v-1").alive
    stage.step()
    assert stage.machine.living() == []


@pytest.mark.parametrize("gateway_knows", [True, False])
def test_draining_ends_with_the_grace_period(stage: Stage, *, gateway_knows: bool) -> None:
    stage.machine.gateway_knows = gateway_knows
    stage.scale_and_make_ready(1)
    process = stage.machine.of("chat-v-1")
    process.in_flight = 1
    stage.ask(0)
    stage.run(59.5)
    assert not process.asked_to_end
    stage.run(1.0)
    assert process.asked_to_end


def test_a_process_that_does_not_end_when_asked_is_killed(stage: Stage) -> None:
    stage.scale_and_make_ready(1)
    process = stage.machine.of("chat-v-1")
    process.obeys = False
    stage.ask(0)
    stage.run(59.0)
    assert process.asked_to_end
    assert process.alive
    stage.run(3.0)
    assert process.exit_code == -9
    assert stage.replicas == ()


def test_one_that_was_never_ready_has_no_requests_to_wait_for(stage: Stage) -> None:
    stage.machine.gateway_knows = False
    stage.ask(1)
    stage.step()
    stage.ask(0)
    stage.run(0.5)
    assert stage.replicas == ()
    assert stage.machine.living() == []


def test_failed_then_latest_started_then_idlest_are_given_up_first(stage: Stage) -> None:
    stage.scale_and_make_ready(3)
    for name, count in (("chat-v-1", 2), ("chat-v-2", 5), ("chat-v-3", 2)):
        stage.machine.of(name).in_flight = count
    stage.ask(4)
    stage.step()
    stage.machine.of("chat-v-4").end(1)
    stage.now_s += 0.1
    stage.step()
    stage.ask(5)
    stage.step()
    stage.now_s += 0.1
    stage.ask(6)
    stage.step()
    order: list[str] = []
    for replicas in (5, 4, 3, 2, 1, 0):
        before = {replica.name for replica in stage.replicas if replica.phase is not Phase.DRAINING}
        stage.ask(replicas)
        stage.step()
        after = {replica.name for replica in stage.replicas if replica.phase is not Phase.DRAINING}
        order.extend(before - after)
    assert order == ["chat-v-4", "chat-v-6", "chat-v-5", "chat-v-1", "chat-v-3", "chat-v-2"]


def test_growing_does_not_revive_a_draining_replica(stage: Stage) -> None:
    stage.scale_and_make_ready(1)
    stage.machine.of("chat-v-1").in_flight = 1
    stage.ask(0)
    stage.step()
    stage.ask(1)
    stage.run(1.0)
    assert [(replica.name, replica.phase) for replica in stage.replicas] == [
        ("chat-v-1", Phase.DRAINING),
        ("chat-v-2", Phase.STARTING),
    ]


# Devices


def test_a_replica_sees_its_own_devices_only(tmp_path: Path) -> None:
    stage = Stage(
        directory=tmp_path,
        templates=[template(devices=DeviceRequest(kind="gpu", count=2)), template(CODE)],
        devices=[Device(id=str(index)) for index in range(4)],
    )
    stage.ask(2)
    stage.ask(1, CODE)
    stage.step()
    assert sorted(process.devices for process in stage.machine.living()) == [(), ("0", "1"), ("2", "3")]
    without = dict(stage.machine.of("code-v-1").launch.env)
    assert "CUDA_VISIBLE_DEVICES" not in without


def test_the_next_service_gets_a_device_when_the_drained_one_is_gone(tmp_path: Path) -> None:
    templates = [template(devices=GPU), template(CODE, devices=GPU)]
    stage = Stage(directory=tmp_path, templates=templates, devices=[Device(id="0")])
    stage.scale_and_make_ready(1)
    leaving = stage.machine.of("chat-v-1")
    leaving.in_flight = 1
    stage.ask(0)
    stage.ask(1, CODE)
    stage.run(20.0)
    waiting = stage.replicas[1]
    assert waiting.phase is Phase.STARTING
    assert waiting.detail == "waits for 1 free gpu"
    assert waiting.devices == ()
    leaving.in_flight, leaving.workers = 0, True
    stage.step()
    assert not leaving.alive
    assert stage.machine.living() == []  # its workers still hold the device
    stage.run(1.0)
    assert stage.only().devices == ("0",)
    assert stage.only().created_s > waiting.created_s
    assert stage.machine.of("code-v-1").devices == ("0",)


def test_a_replica_that_waits_to_start_again_holds_no_device(tmp_path: Path) -> None:
    templates = [template(devices=GPU), template(CODE, devices=GPU)]
    stage = Stage(directory=tmp_path, templates=templates, devices=[Device(id="0")])
    stage.ask(1)
    stage.step()
    for _ in range(4):
        stage.machine.of("chat-v-1").end(1)
        stage.run(8.0)
    stage.machine.of("chat-v-1").end(1)
    stage.step()
    stage.ask(1, CODE)
    stage.step()
    assert stage.machine.of("code-v-1").devices == ("0",)
    stage.run(60.0)
    assert stage.replicas[0].detail == "waits for 1 free gpu"


def test_unhealthy_devices_are_not_given_away(tmp_path: Path) -> None:
    devices = [Device(id="0", healthy=False), Device(id="MIG-1", kind="mig-1g.10gb"), Device(id="1")]
    stage = Stage(directory=tmp_path, templates=[template(devices=GPU)], devices=devices)
    stage.ask(2)
    stage.step()
    assert [process.devices for process in stage.machine.living()] == [("1",)]


# Configuration and the end


def test_a_service_that_is_no_longer_configured_drains_and_others_go_on(tmp_path: Path) -> None:
    stage = Stage(directory=tmp_path, templates=[template(), template(CODE)])
    stage.scale_and_make_ready(1)
    stage.scale_and_make_ready(1, CODE)
    stage.supervisor.configure([template(CODE)], [], now_s=stage.now_s)
    stage.run(1.0)
    assert [replica.name for replica in stage.replicas] == ["code-v-1"]
    assert stage.targets() == {("code", "v"): 1}


def test_stopping_drains_everything_and_keeps_the_targets(stage: Stage) -> None:
    stage.scale_and_make_ready(2)
    stage.machine.of("chat-v-2").in_flight = 1
    stage.supervisor.stop_all()
    with pytest.raises(RefusedError, match="being stopped"):
        stage.ask(3)
    stage.run(10.0)
    assert stage.supervisor.alive() == ("chat-v-2",)
    stage.run(60.0)
    assert stage.supervisor.alive() == ()
    stage.open()
    assert stage.targets() == {("chat", "v"): 2}


# The next controller


def test_the_next_controller_adopts_every_phase_and_neither_orphans_nor_doubles(stage: Stage) -> None:
    stage.scale_and_make_ready(3)
    for name, count in (("chat-v-1", 2), ("chat-v-2", 2), ("chat-v-3", 1)):
        stage.machine.of(name).in_flight = count
    stage.ask(2)
    stage.step()
    stage.ask(4)
    stage.step()
    stage.machine.of("chat-v-5").end(1)
    stage.step()
    phases = {replica.name: replica.phase for replica in stage.replicas}
    assert set(phases.values()) == set(Phase)
    stage.open()
    assert {replica.name: replica.phase for replica in stage.replicas} == phases
    stage.step()
    assert stage.accepting() == ["chat-v-1", "chat-v-2"]  # at once, no probe needed
    stage.machine.of("chat-v-3").in_flight = 0
    stage.run(1.0)
    stage.machine.make_ready()
    stage.run(1.0)
    assert stage.count(Phase.READY) == 4
    assert len(stage.machine.living()) == 4


def test_dead_replicas_are_started_again_by_the_next_controller(stage: Stage) -> None:
    stage.scale_and_make_ready(2)
    stage.machine.of("chat-v-1").end(-9)
    stage.open()
    dead, alive = stage.replicas
    assert (dead.phase, alive.phase) == (Phase.FAILED, Phase.READY)
    assert dead.detail == "ended while no controller watched"
    stage.step()
    assert sorted(process.launch.name for process in stage.machine.living()) == ["chat-v-1", "chat-v-2"]


@pytest.mark.parametrize("loss", ["gone", "corrupt"])
def test_a_lost_state_file_shrinks_nothing(stage: Stage, loss: str) -> None:
    stage.scale_and_make_ready(3)
    stage.database.close()
    for path in stage.directory.glob("state.sqlite*"):
        path.unlink() if loss == "gone" else path.write_bytes(b"not a database, but long enough to be one" * 9)
    stage.open()
    assert stage.targets() == {("chat", "v"): 3}
    assert any("found running without a record" in note for note in stage.notes)
    stage.run(5.0)
    assert len(stage.machine.living()) == 3
    assert stage.count(Phase.READY) == 3
    stage.ask(4)
    stage.step()
    assert "chat-v-4" in {replica.name for replica in stage.replicas}


@pytest.mark.parametrize("text", ["", "{}", "other"])
def test_a_process_of_ours_that_can_not_be_understood_is_ended_and_said(stage: Stage, text: str) -> None:
    stage.scale_and_make_ready(2)
    other, odd = stage.machine.of("chat-v-1"), stage.machine.of("chat-v-2")
    odd.launch = replace(odd.launch, record=other.launch.record if text == "other" else text)
    stage.database.write([("DELETE FROM replicas", ())])
    stage.open()
    assert any("replica chat-v-2 is ended" in note for note in stage.notes)
    assert not odd.alive
    stage.run(1.0)
    assert other.alive
    assert len(stage.machine.living()) == 2


def test_a_record_that_can_not_be_read_is_made_good_by_its_process(stage: Stage) -> None:
    stage.scale_and_make_ready(2)
    stage.database.write([("UPDATE replicas SET body = ? WHERE name = 'chat-v-1'", (b"{}",))])
    stage.open()
    assert "chat-v-1 in the state file can't be read" in stage.database.notices[0]
    stage.run(1.0)
    assert stage.count(Phase.READY) == 2
    assert len(stage.machine.processes) == 2


def test_workers_whose_server_and_record_are_lost_are_ended_before_the_replica_starts_again(tmp_path: Path) -> None:
    stage = Stage(directory=tmp_path, templates=[template(devices=GPU)], devices=[Device(id="0")])
    stage.scale_and_make_ready(1)
    process = stage.machine.of("chat-v-1")
    process.workers = True
    process.end(-9)
    stage.database.write([("DELETE FROM replicas", ())])
    stage.open()
    assert stage.only().phase is Phase.FAILED
    stage.run(1.0)
    assert not process.occupies
    assert stage.machine.of("chat-v-1").devices == ("0",)


def test_a_replica_that_survives_its_killing_is_killed_again(stage: Stage) -> None:
    stage.ask(1)
    stage.run(599.0, every_s=10.0)
    process = stage.machine.of("chat-v-1")
    process.unkillable = True
    stage.run(60.0, every_s=1.0)
    assert stage.only().phase is Phase.FAILED
    assert len(stage.machine.processes) == 1  # not started beside itself
    process.unkillable = False
    stage.run(1.0)
    assert stage.only().phase is Phase.STARTING
    assert not process.alive


def test_a_state_file_that_breaks_meanwhile_is_written_anew_from_memory(stage: Stage) -> None:
    stage.scale_and_make_ready(2)
    stage.database.read("PRAGMA wal_checkpoint(TRUNCATE)")
    (stage.directory / "state.sqlite").write_bytes(b"\xff" * 30_000)
    stage.database.read("PRAGMA shrink_memory")
    stage.ask(3)
    stage.step()
    assert stage.rows() == {"chat-v-1": "Ready", "chat-v-2": "Ready", "chat-v-3": "Starting"}
    stage.open()
    assert stage.targets() == {("chat", "v"): 3}
    assert stage.database.read("SELECT count(*) FROM starts") == [(2,)]


def test_a_start_whose_end_nobody_saw_is_no_measurement(stage: Stage) -> None:
    stage.ask(1)
    stage.step()
    stage.machine.make_ready()
    stage.now_s += 3600.0
    stage.open()
    stage.run(1.0)
    assert stage.only().phase is Phase.READY
    assert stage.only().ready_s is None
    assert stage.database.read("SELECT * FROM starts") == []


def test_a_start_that_is_seen_to_go_on_is_measured(stage: Stage) -> None:
    stage.ask(1)
    stage.step()
    stage.now_s += 30.0
    stage.open()
    stage.run(1.0)
    stage.machine.make_ready()
    stage.run(1.0)
    assert stage.only().ready_s is not None
    assert [took_s for (took_s,) in stage.database.read("SELECT took_s FROM starts")] == [pytest.approx(31, abs=1)]


def test_times_from_the_future_count_from_now(stage: Stage) -> None:
    stage.scale_and_make_ready(1)
    stage.machine.of("chat-v-1").in_flight = 1
    stage.ask(0)
    stage.step()
    stage.now_s -= 86_400.0  # the clock was a day ahead
    stage.open()
    assert stage.only().created_s == stage.now_s
    stage.run(61.0)
    assert stage.replicas == ()


def test_replicas_of_a_service_that_is_no_longer_configured_are_drained_by_the_next_controller(stage: Stage) -> None:
    stage.scale_and_make_ready(2)
    stage.templates = [template(CODE)]
    stage.open()
    stage.run(1.0)
    assert stage.machine.living() == []
    assert stage.replicas == ()


# A full or unwritable disk


def forbid_writing(stage: Stage) -> None:
    """The file may not grow: what a full disk does to SQLite."""
    stage.database.write([("CREATE TABLE filler (body BLOB)", ())])
    pages = stage.database.read("PRAGMA page_count")[0][0]
    stage.database.read(f"PRAGMA max_page_count = {pages}")
    with suppress(RefusedError):
        for _ in range(1000):
            stage.database.write([("INSERT INTO filler VALUES (zeroblob(500))", ())])


def allow_writing(stage: Stage) -> None:
    stage.database.read("PRAGMA max_page_count = 1000000")


def test_what_can_not_be_kept_is_refused_and_nothing_happens(tmp_path: Path) -> None:
    services = [ServiceId(f"service-{number:03}") for number in range(200)]
    stage = Stage(directory=tmp_path, templates=[template(service) for service in services])
    forbid_writing(stage)
    asked = 0
    with pytest.raises(RefusedError, match="full"):  # noqa: PT012 - how many fit is SQLite's affair
        for service in services:
            stage.ask(1_000_000_000, service)
            asked += 1
    assert list(stage.targets().values()).count(1_000_000_000) == asked
    assert len(stage.targets()) == len(services)
    allow_writing(stage)
    for service in services:
        stage.ask(0, service)
    assert set(stage.targets().values()) == {0}


def test_replicas_are_looked_after_while_the_disk_is_full(stage: Stage) -> None:
    stage.scale_and_make_ready(20)
    forbid_writing(stage)
    for process in stage.machine.living():
        process.end(1)
    stage.run(2.0)
    stage.machine.make_ready()
    stage.run(1.0)
    assert stage.count(Phase.READY) == 20
    stage.open()  # the file still speaks of the first processes
    stage.run(1.0)
    assert len(stage.machine.living()) == 20
    assert stage.count(Phase.READY) == 20


def test_a_machine_without_ports_holds_back_and_tries_again(tmp_path: Path) -> None:
    class NoPorts(Machine):
        def find_port(self, taken: object) -> int:
            raise OSError(24, "Too many open files")

    stage = Stage(directory=tmp_path, templates=[template()], machine=NoPorts())
    stage.ask(1)
    stage.run(3.0)
    assert stage.only().phase is Phase.FAILED
    assert "no port to be had" in stage.only().detail
    assert stage.only().restarts >= 2
