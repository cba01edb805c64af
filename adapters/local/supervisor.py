"""Brings the replicas of this machine to the counts that were asked for, one step at a time. No thread, no clock."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from adapters.local.adoption import adopt
from adapters.local.command import drop_old_logs, free_port, launch_of, log_path, port_was_taken
from adapters.local.fleet_store import Fleet, FleetStore, VariantKey
from adapters.local.lifecycle import Action, Pace, Sighting, advance, failed, retire, start_deadline_s, victims
from adapters.local.placing import asked_for, placed
from adapters.local.probes import Probed, Probes
from adapters.local.process import Liveness, ProcessTable, SpawnError
from adapters.local.record import ReplicaRecord
from adapters.local.routes import Endpoint, RouteTable
from adapters.local.template import ReplicaTemplate
from autoscaler.domain.cluster import Device, Phase, Replica, Target
from autoscaler.domain.plan import VariantTarget
from autoscaler.domain.service import ServiceId
from autoscaler.ports import PortError, RefusedError

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetView:
    """The fleet between two steps, sorted by name."""

    devices: tuple[Device, ...]
    replicas: tuple[Replica, ...]
    targets: tuple[Target, ...]


class Supervisor:
    """Adopts, starts, watches, drains and ends replicas. To be used by one thread at a time.

    What was asked for is kept before it is acted upon, and so is every start before its process is spawned. Where the
    record of a step can't be written (a full disk), the step is made all the same and written later: processes carry
    their record with them.
    """

    def __init__(
        self,
        *,
        store: FleetStore,
        processes: ProcessTable,
        probes: Probes,
        routes: RouteTable,
        logs: Path,
        pace: Pace,
        find_port: Callable[[Collection[int]], int] = free_port,
    ) -> None:
        self._store = store
        self._processes = processes
        self._probes = probes
        self._routes = routes
        self._logs = logs
        self._pace = pace
        self._find_port = find_port
        self._templates: dict[VariantKey, ReplicaTemplate] = {}
        self._devices: tuple[Device, ...] = ()
        self._fleet = Fleet()
        self._records: dict[str, ReplicaRecord] = {}
        self._probe_at_s: dict[str, float] = {}
        self._routed: tuple[Endpoint, ...] | None = None
        self._stopping = False
        self._unwritten = ""

    def adopt(
        self, templates: Sequence[ReplicaTemplate], devices: Sequence[Device], *, now_s: float
    ) -> tuple[str, ...]:
        """Take over what an earlier controller left; notes for people. Raises PortError where nothing can be kept."""
        self._set_templates(templates, devices)
        kept = self._store.load()
        running = [
            name
            for name, record in kept.replicas.items()
            if record.process is not None and self._processes.status(record.process, name).liveness is Liveness.RUNNING
        ]
        adopted = adopt(
            kept, running=running, marked=self._processes.marked(), variants=self._templates.keys(), now_s=now_s
        )
        self._fleet = adopted.fleet
        self._records = dict(adopted.fleet.replicas)
        for each in adopted.doomed:
            self._processes.kill(each.process, each.name)
        self._store.keep(self._fleet)
        return adopted.notes

    def configure(self, templates: Sequence[ReplicaTemplate], devices: Sequence[Device], *, now_s: float) -> None:
        """Another configuration: replicas of variants that are gone drain, others go on as they were started."""
        self._set_templates(templates, devices)
        targets = {key: self._fleet.targets.get(key, 0) for key in sorted(self._templates)}
        self._fleet = replace(self._fleet, targets=targets)
        for record in list(self._records.values()):
            if (record.service, record.variant) not in self._templates and record.phase is not Phase.DRAINING:
                self._retire(record, why="no longer configured", now_s=now_s)
        self._keep()

    def ask(self, service: ServiceId, targets: Sequence[VariantTarget]) -> None:
        """Keep these counts; the next steps bring them about. Raises PortError; then the old counts stand."""
        if self._stopping:
            raise RefusedError("the replicas of this machine are being stopped")
        changed = dict(self._fleet.targets)
        for target in targets:
            if (service, target.variant) not in self._templates:
                known = ", ".join(f"{name}/{variant}" for name, variant in sorted(self._templates)) or "none"
                raise RefusedError(
                    f"no variant {target.variant!r} of service {service!r} is configured; known: {known}"
                )
            if target.replicas < 0:
                raise RefusedError(f"{service}: a replica count must be >= 0, got {target.replicas}")
            changed[service, target.variant] = target.replicas
        if changed != self._fleet.targets:
            fleet = replace(self._fleet, targets=changed)
            self._store.keep(fleet)
            self._fleet = fleet

    def view(self) -> FleetView:
        """The fleet as it is now."""
        return FleetView(
            devices=self._devices,
            replicas=tuple(record.replica() for _, record in sorted(self._records.items())),
            targets=tuple(
                Target(service=service, variant=variant, replicas=count)
                for (service, variant), count in sorted(self._fleet.targets.items())
            ),
        )

    def step(self, now_s: float) -> None:
        """Look at every replica, act on what was seen, then bring the numbers to the targets."""
        in_flight = self._routes.in_flight() if self._ends_any() else {}
        answers = self._probes.take()
        for record in sorted(self._records.values(), key=lambda record: record.name):
            if record.process is not None:
                self._watch(record, answers=answers, in_flight=in_flight, now_s=now_s)
        self._balance(in_flight=in_flight, now_s=now_s)
        self._start_due(now_s)
        self._keep()
        self._probe(now_s)
        self._route()

    def stop_all(self) -> None:
        """From the next step on, drain everything; the targets stay kept for the next controller."""
        self._stopping = True

    def kill_all(self) -> None:
        """End everything at once."""
        self._stopping = True
        for name, record in sorted(self._records.items()):
            if record.process is not None:
                self._processes.kill(record.process, name)

    def alive(self) -> tuple[str, ...]:
        """Names of replicas with a process, or with remains of one."""
        return tuple(sorted(name for name, record in self._records.items() if record.process is not None))

    def longest_end_s(self) -> float:
        """How long draining and ending everything may take: the longest grace period, before TERM and after it."""
        return 2 * max((record.grace_period_s for record in self._records.values()), default=0.0)

    def release(self) -> None:
        """Leave everything running for the next controller."""
        self._processes.release()

    def _set_templates(self, templates: Sequence[ReplicaTemplate], devices: Sequence[Device]) -> None:
        self._templates = {(template.service, template.variant.name): template for template in templates}
        self._devices = tuple(devices)

    def _watch(
        self, record: ReplicaRecord, *, answers: Mapping[str, Probed], in_flight: Mapping[str, int], now_s: float
    ) -> None:
        assert record.process is not None
        status = self._processes.status(record.process, record.name)
        probed = answers.get(f"{record.url}{record.ready_path}")
        sighting = Sighting(status=status, probed=probed, in_flight=in_flight.get(record.name))
        following, action = advance(record, sighting, now_s=now_s, deadline_s=self._deadline_s(record), pace=self._pace)
        if following.phase is not record.phase:
            following = self._entered(record, following, now_s=now_s)
        if action is Action.FORGET:
            _log.info("replica %s ended", record.name)
            del self._records[record.name]
            return
        if action is Action.TERMINATE:
            self._processes.terminate(record.process)
        elif action is Action.KILL:
            self._processes.kill(record.process, record.name)
        self._records[record.name] = following

    def _entered(self, before: ReplicaRecord, after: ReplicaRecord, *, now_s: float) -> ReplicaRecord:
        _log.info("replica %s: %s -> %s %s", after.name, before.phase, after.phase, after.detail)
        if after.phase is Phase.READY and after.ready_s is not None:
            key = (after.service, after.variant)
            starts_s = (*self._fleet.starts_s.get(key, ()), after.ready_s - after.created_s)
            self._fleet = replace(self._fleet, starts_s={**self._fleet.starts_s, key: starts_s[-20:]})
        first_failure = after.phase is Phase.FAILED and after.failures == 1
        if first_failure and before.phase is Phase.STARTING and port_was_taken(log_path(after, logs=self._logs)):
            # Somebody was faster on that port. Not the command's fault, so no waiting; only once, in case it is.
            return replace(after, retry_at_s=now_s, detail=f"port {before.port} was taken")
        return after

    def _ends_any(self) -> bool:
        """Whether it matters now who has requests in flight."""
        if any(record.phase is Phase.DRAINING for record in self._records.values()):
            return True
        return any(len(self._live(key)) > self._wanted(key) for key in self._templates)

    def _wanted(self, key: VariantKey) -> int:
        return 0 if self._stopping else self._fleet.targets.get(key, 0)

    def _live(self, key: VariantKey) -> list[ReplicaRecord]:
        return [
            record
            for record in self._records.values()
            if (record.service, record.variant) == key and record.phase is not Phase.DRAINING
        ]

    def _deadline_s(self, record: ReplicaRecord) -> float:
        key = (record.service, record.variant)
        template = self._templates.get(key)
        configured_s = template.start_deadline_s if template is not None else 0.0
        return start_deadline_s(configured_s, self._fleet.starts_s.get(key, ()), self._pace)

    def _balance(self, *, in_flight: Mapping[str, int], now_s: float) -> None:
        for key in sorted(self._templates):
            wanted, live = self._wanted(key), self._live(key)
            for record in victims(live, count=max(0, len(live) - wanted), in_flight=in_flight):
                self._retire(record, why="stopping" if self._stopping else "no longer asked for", now_s=now_s)
            for _ in range(wanted - len(live)):
                self._create(self._templates[key], now_s=now_s)

    def _retire(self, record: ReplicaRecord, *, why: str, now_s: float) -> None:
        if record.process is None:
            del self._records[record.name]
        else:
            self._records[record.name] = replace(retire(record, now_s=now_s), detail=why)

    def _create(self, template: ReplicaTemplate, *, now_s: float) -> None:
        key = (template.service, template.variant.name)
        number = self._fleet.last_numbers.get(key, 0) + 1
        # Services may be called so that two variants give the same name.
        while (name := f"{template.service}-{template.variant.name}-{number}") in self._records:
            number += 1
        self._fleet = replace(self._fleet, last_numbers={**self._fleet.last_numbers, key: number})
        self._records[name] = asked_for(template, name=name, now_s=now_s)

    def _start_due(self, now_s: float) -> None:
        """Give devices and ports, keep the intent, then spawn: a process without a record is found by its mark."""
        waiting = [
            record
            for record in self._records.values()
            if record.process is None and (record.phase is not Phase.FAILED or (record.retry_at_s or 0.0) <= now_s)
        ]
        started = []
        for record in sorted(waiting, key=lambda record: (record.created_s, record.name)):
            template = self._templates.get((record.service, record.variant))
            if template is None or record.phase is Phase.DRAINING:
                del self._records[record.name]
                continue
            began = placed(
                record,
                template,
                devices=self._devices,
                others=self._records.values(),
                find_port=self._find_port,
                now_s=now_s,
                pace=self._pace,
            )
            self._records[record.name] = began
            if began.port is not None:
                started.append((began, template))
        if not started:
            return
        self._keep()
        for record, template in started:
            self._spawn(record, template, now_s=now_s)

    def _spawn(self, record: ReplicaRecord, template: ReplicaTemplate, *, now_s: float) -> None:
        launch = launch_of(template, record, logs=self._logs)
        drop_old_logs(launch.log.parent, keep={log_path(other, logs=self._logs) for other in self._records.values()})
        try:
            process = self._processes.spawn(launch)
        except SpawnError as error:
            _log.warning("replica %s can't be started: %s", record.name, error)
            record = failed(record, why=str(error), now_s=now_s, pace=self._pace)
            self._records[record.name] = replace(record, port=None, devices=())
            return
        _log.info("replica %s started as process %d on port %s", record.name, process.pid, record.port)
        self._records[record.name] = replace(record, process=process)

    def _route(self) -> None:
        endpoints = tuple(
            Endpoint(service=record.service, replica=name, url=record.url, accepting=record.phase is Phase.READY)
            for name, record in sorted(self._records.items())
            if record.url is not None and record.phase in (Phase.READY, Phase.DRAINING)
        )
        if endpoints != self._routed:
            self._routes.set_routes(endpoints)
            self._routed = endpoints

    def _probe(self, now_s: float) -> None:
        pace = self._pace
        due = self._probe_at_s
        self._probe_at_s = {}
        for name, record in self._records.items():
            if record.process is None or record.phase not in (Phase.STARTING, Phase.READY):
                continue
            starting = record.phase is Phase.STARTING
            if now_s >= due.get(name, 0.0):
                patience_s = pace.patience_starting_s if starting else pace.patience_ready_s
                self._probes.ask(f"{record.url}{record.ready_path}", patience_s=patience_s)
                every_s = pace.probe_ready_s if record.unready_since_s is None else pace.probe_unready_s
                due[name] = now_s + (0.0 if starting else every_s)
            self._probe_at_s[name] = due[name]

    def _keep(self) -> None:
        """Write what changed. Not being able to is said once, and tried again at the next step."""
        self._fleet = replace(self._fleet, replicas=dict(self._records))
        try:
            self._store.keep(self._fleet)
        except PortError as error:
            if str(error) != self._unwritten:
                _log.error("the fleet's state can't be written, going on without: %s", error)
            self._unwritten = str(error)
        else:
            self._unwritten = ""
