"""A machine in memory for the supervisor: processes that do what a test says, at times that a test chooses."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from adapters.local.database import FILE_NAME, Database
from adapters.local.fleet_store import FleetStore
from adapters.local.lifecycle import Pace
from adapters.local.probes import Answer, Probed
from adapters.local.process import Launch, Liveness, Marked, ProcessId, SpawnError, Status
from adapters.local.record import ReplicaRecord
from adapters.local.routes import Endpoint
from adapters.local.supervisor import Supervisor
from adapters.local.template import ReplicaTemplate
from autoscaler.codec import decode
from autoscaler.domain.cluster import Device, Phase, Replica
from autoscaler.domain.plan import VariantTarget
from autoscaler.domain.service import DeviceRequest, ServiceId, Variant

CHAT = ServiceId("chat")
CODE = ServiceId("code")
GPU = DeviceRequest(kind="gpu", count=1)


def template(
    service: ServiceId = CHAT,
    *,
    variant: str = "v",
    devices: DeviceRequest | None = None,
    grace_period_s: float = 60.0,
    start_deadline_s: float = 600.0,
) -> ReplicaTemplate:
    return ReplicaTemplate(
        service=service,
        variant=Variant(name=variant, devices=devices),
        command=("serve", "--port", "{port}"),
        grace_period_s=grace_period_s,
        start_deadline_s=start_deadline_s,
    )


@dataclass
class Process:
    """One process. ``workers``: what it started outlives it. ``obeys``: it ends when asked to.

    ``unkillable``: in the kernel's hands, as with a device that does not answer.
    """

    launch: Launch
    alive: bool = True
    exit_code: int | None = None
    answer: Answer = Answer.REFUSED
    workers: bool = False
    workers_alive: bool = False
    obeys: bool = True
    unkillable: bool = False
    asked_to_end: bool = False
    in_flight: int = 0
    record: ReplicaRecord = field(init=False)

    def __post_init__(self) -> None:
        self.record = decode(ReplicaRecord, self.launch.record.encode())

    @property
    def occupies(self) -> bool:
        """Whether anything of it lives."""
        return self.alive or self.workers_alive

    @property
    def devices(self) -> tuple[str, ...]:
        visible = dict(self.launch.env).get("CUDA_VISIBLE_DEVICES", "")
        return tuple(visible.split(",")) if visible else ()

    def end(self, exit_code: int | None) -> None:
        if self.alive:
            self.alive, self.exit_code, self.workers_alive = False, exit_code, self.workers


class Killed(BaseException):
    """The controller ends at this very point."""


@dataclass
class Machine:
    """Process table, readiness, gateway and ports in one; it goes on when a controller ends.

    ``deadly``: the next call of this method, before or after it has done its work, is the controller's last.
    """

    processes: dict[ProcessId, Process] = field(default_factory=dict)
    refuse_to_spawn: str = ""
    gateway_knows: bool = True
    routed: tuple[Endpoint, ...] = ()
    asked: list[str] = field(default_factory=list)
    deadly: tuple[str, str] | None = None
    last_port: int = 20_000

    # ProcessTable

    def spawn(self, launch: Launch) -> ProcessId:
        if self.refuse_to_spawn:
            raise SpawnError(self.refuse_to_spawn)
        self._may_be_the_last("before", "spawn")
        process = ProcessId(pid=1000 + len(self.processes), birth=str(len(self.processes)))
        self.processes[process] = Process(launch=launch)
        self._may_be_the_last("after", "spawn")
        return process

    def status(self, process: ProcessId, name: str) -> Status:
        found = self.processes.get(process)
        if found is None:
            return Status(liveness=Liveness.GONE)
        if found.alive:
            return Status(liveness=Liveness.RUNNING)
        left = Liveness.LEFTOVERS if found.workers_alive else Liveness.GONE
        return Status(liveness=left, exit_code=found.exit_code)

    def terminate(self, process: ProcessId) -> None:
        self._may_be_the_last("before", "terminate")
        found = self.processes[process]
        found.asked_to_end = True
        if found.obeys:
            found.end(0)
        self._may_be_the_last("after", "terminate")

    def kill(self, process: ProcessId, name: str) -> None:
        self._may_be_the_last("before", "kill")
        for each, found in self.processes.items():
            if (each == process or found.launch.name == name) and not found.unkillable:
                found.end(-9)
                found.workers_alive = False
        self._may_be_the_last("after", "kill")

    def marked(self) -> Sequence[Marked]:
        return [
            Marked(name=found.launch.name, process=process, record=found.launch.record, whole=found.alive)
            for process, found in self.processes.items()
            if found.occupies
        ]

    def release(self) -> None:
        """Nobody is looked after."""

    # Probes

    def ask(self, url: str, *, patience_s: float) -> None:
        self.asked.append(url)

    def take(self) -> Mapping[str, Probed]:
        answers = {}
        for url in self.asked:
            listening = [found for found in self.living() if url.startswith(f"{found.record.url}/")]
            answer = listening[0].answer if listening else Answer.REFUSED
            answers[url] = Probed(answer=answer, detail=str(answer))
        self.asked.clear()
        return answers

    def close(self) -> None:
        """Nothing is open."""

    # RouteTable

    def set_routes(self, endpoints: Sequence[Endpoint]) -> None:
        self.routed = tuple(endpoints)

    def in_flight(self) -> Mapping[str, int]:
        if not self.gateway_knows:
            return {}
        return {found.launch.name: found.in_flight for found in self.living()}

    # For tests

    def _may_be_the_last(self, when: str, method: str) -> None:
        if self.deadly == (when, method):
            self.deadly = None
            raise Killed

    def find_port(self, taken: Collection[int]) -> int:
        self.last_port += 1
        assert self.last_port not in taken
        return self.last_port

    def living(self) -> list[Process]:
        return [found for found in self.processes.values() if found.alive]

    def of(self, name: str) -> Process:
        """The living process of a replica."""
        (found,) = [found for found in self.living() if found.launch.name == name]
        return found

    def make_ready(self) -> None:
        for found in self.living():
            found.answer = Answer.READY


@dataclass
class Stage:
    """A controller's supervisor on a machine, with a clock that tests move."""

    directory: Path
    templates: Sequence[ReplicaTemplate]
    devices: Sequence[Device] = ()
    machine: Machine = field(default_factory=Machine)
    pace: Pace = field(default_factory=Pace)
    now_s: float = 1_000_000.0
    database: Database = field(init=False)

    def __post_init__(self) -> None:
        self.open()

    def open(self) -> None:
        """A new controller; an earlier one need not have ended in good order."""
        with suppress(AttributeError):
            self.database.close()
        self.database = Database(self.directory / FILE_NAME, now_s=lambda: self.now_s)
        self.supervisor = Supervisor(
            store=FleetStore(self.database),
            processes=self.machine,
            probes=self.machine,
            routes=self.machine,
            logs=self.directory / "logs",
            pace=self.pace,
            find_port=self.machine.find_port,
        )
        self.notes = self.supervisor.adopt(self.templates, self.devices, now_s=self.now_s)

    def ask(self, replicas: int, service: ServiceId = CHAT, variant: str = "v") -> None:
        self.supervisor.ask(service, [VariantTarget(variant=variant, replicas=replicas)])

    def step(self) -> None:
        self.supervisor.step(self.now_s)

    def run(self, span_s: float, *, every_s: float = 0.25) -> None:
        """Steps every ``every_s`` until ``span_s`` have passed."""
        end_s = self.now_s + span_s
        self.step()
        while self.now_s < end_s:
            self.now_s = min(end_s, self.now_s + every_s)
            self.step()

    def scale_and_make_ready(self, replicas: int, service: ServiceId = CHAT) -> None:
        self.ask(replicas, service)
        self.step()
        self.machine.make_ready()
        self.run(1.0)

    @property
    def replicas(self) -> tuple[Replica, ...]:
        return self.supervisor.view().replicas

    def only(self) -> Replica:
        (replica,) = self.replicas
        return replica

    def count(self, phase: Phase) -> int:
        return sum(replica.phase is phase for replica in self.replicas)

    def accepting(self) -> list[str]:
        return [endpoint.replica for endpoint in self.machine.routed if endpoint.accepting]

    def rows(self) -> dict[str, str]:
        """Phases of the replicas as kept in the state file."""
        rows = self.database.read("SELECT name, body FROM replicas")
        return {name: json.loads(body)["phase"] for name, body in rows}

    def targets(self) -> dict[tuple[str, str], int]:
        return {(target.service, target.variant): target.replicas for target in self.supervisor.view().targets}
