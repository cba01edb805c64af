"""Whatever happens to processes, controllers and counts: the promises of the supervisor hold at every step."""

from __future__ import annotations

import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from adapters.local.probes import Answer
from autoscaler.domain.cluster import Device, Phase
from autoscaler.domain.service import DeviceRequest, ServiceId
from tests.local.rehearsal import CHAT, CODE, GPU, Killed, Stage, template

TEXT = ServiceId("text")
SERVICES = {
    CHAT: template(devices=GPU, grace_period_s=5.0, start_deadline_s=120.0),
    CODE: template(CODE, devices=DeviceRequest(kind="gpu", count=2), grace_period_s=5.0, start_deadline_s=120.0),
    TEXT: template(TEXT, grace_period_s=5.0, start_deadline_s=120.0),
}
WITHIN_FOUR_GPUS = st.tuples(st.integers(0, 4), st.integers(0, 2), st.integers(0, 3)).filter(
    lambda counts: counts[0] + 2 * counts[1] <= 4
)


class Supervision(RuleBasedStateMachine):
    """Rules are what users, replicas and the machine do; invariants are what must never be seen."""

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.stage = Stage(
            directory=Path(self.folder.name),
            templates=list(SERVICES.values()),
            devices=[Device(id=str(index)) for index in range(4)],
        )
        self.machine = self.stage.machine

    @rule(counts=WITHIN_FOUR_GPUS)
    def ask(self, counts: tuple[int, int, int]) -> None:
        for service, count in zip(SERVICES, counts, strict=True):
            self.stage.ask(count, service)
        self.stage.step()
        self.exactly_the_ready_get_requests()

    @rule(service=st.sampled_from(list(SERVICES)), count=st.integers(0, 6))
    def ask_for_more_than_there_is(self, service: ServiceId, count: int) -> None:
        self.stage.ask(count, service)
        self.stage.step()

    @rule(span_s=st.sampled_from([0.0, 0.3, 1.5, 7.0, 40.0, 400.0]))
    def time_passes(self, span_s: float) -> None:
        self.stage.run(span_s, every_s=max(0.3, span_s / 20))
        self.exactly_the_ready_get_requests()

    @rule(data=st.data(), answer=st.sampled_from(list(Answer)))
    def readiness_changes(self, data: st.DataObject, answer: Answer) -> None:
        if living := self.machine.living():
            data.draw(st.sampled_from(living)).answer = answer

    @rule(data=st.data(), code=st.sampled_from([0, 1, -9]), workers=st.booleans())
    def a_process_ends(self, *, data: st.DataObject, code: int, workers: bool) -> None:
        if living := self.machine.living():
            process = data.draw(st.sampled_from(living))
            process.workers = workers
            process.end(code)

    @rule(data=st.data(), obeys=st.booleans(), in_flight=st.integers(0, 2))
    def requests_and_obedience_change(self, *, data: st.DataObject, obeys: bool, in_flight: int) -> None:
        if living := self.machine.living():
            process = data.draw(st.sampled_from(living))
            process.obeys, process.in_flight = obeys, in_flight

    @rule(refuses=st.booleans(), knows=st.booleans())
    def the_machine_changes(self, *, refuses: bool, knows: bool) -> None:
        self.machine.refuse_to_spawn = "no memory" if refuses else ""
        self.machine.gateway_knows = knows

    @rule(outage_s=st.sampled_from([0.0, 10.0, 5000.0]))
    def the_controller_is_killed_and_another_begins(self, outage_s: float) -> None:
        self.stage.now_s += outage_s
        self.stage.open()

    @rule(
        counts=WITHIN_FOUR_GPUS,
        when=st.sampled_from(["before", "after"]),
        method=st.sampled_from(["spawn", "terminate", "kill"]),
    )
    def the_controller_is_killed_in_the_middle_of_a_step(
        self, counts: tuple[int, int, int], when: str, method: str
    ) -> None:
        self.machine.deadly = (when, method)
        with suppress(Killed):
            self.ask(counts)
            self.time_passes(7.0)
        self.machine.deadly = None
        self.stage.open()

    @rule()
    def the_state_file_is_lost_with_the_controller(self) -> None:
        self.stage.database.close()
        for path in self.stage.directory.glob("state.sqlite*"):
            path.unlink()
        live = Counter(found.record.service for found in self.machine.processes.values() if found.occupies)
        self.stage.open()
        for (service, _), count in self.stage.targets().items():
            assert count == live[ServiceId(service)]

    @invariant()
    def no_device_has_two_owners(self) -> None:
        in_use = Counter(
            device for process in self.machine.processes.values() if process.occupies for device in process.devices
        )
        assert all(count == 1 for count in in_use.values()), in_use

    @invariant()
    def no_replica_is_doubled_and_none_orphaned(self) -> None:
        living = [process.launch.name for process in self.machine.living()]
        assert len(living) == len(set(living))
        assert set(living) <= {replica.name for replica in self.stage.replicas}

    def exactly_the_ready_get_requests(self) -> None:
        ready = [replica.name for replica in self.stage.replicas if replica.phase is Phase.READY]
        assert self.stage.accepting() == ready

    @rule(counts=WITHIN_FOUR_GPUS)
    def counts_converge_once_nothing_goes_wrong(self, counts: tuple[int, int, int]) -> None:
        self.machine.refuse_to_spawn = ""
        for process in self.machine.living():
            process.obeys, process.in_flight = True, 0
        for service, count in zip(SERVICES, counts, strict=True):
            self.stage.ask(count, service)
        for _ in range(8):  # back-off, drain and start follow one another
            self.stage.run(310.0, every_s=20.0)
            self.machine.make_ready()
        self.stage.run(10.0, every_s=1.0)
        found = Counter(replica.service for replica in self.stage.replicas if replica.phase is Phase.READY)
        assert [found[service] for service in SERVICES] == list(counts)
        assert len(self.stage.replicas) == sum(counts)
        assert len(self.machine.living()) == sum(counts)
        assert len(self.stage.accepting()) == sum(counts)

    def teardown(self) -> None:
        if hasattr(self, "stage"):
            self.stage.database.close()
            self.folder.cleanup()


@pytest.mark.timeout(300)
def test_promises_hold_whatever_happens() -> None:
    run_state_machine_as_test(
        Supervision,
        settings=settings(
            max_examples=30,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )
