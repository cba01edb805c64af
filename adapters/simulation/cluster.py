"""A cluster in virtual time: Inventory and ReplicaActuator over fleets that serve."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from adapters.simulation.clock import VirtualClock
from adapters.simulation.ledger import Stay
from adapters.simulation.places import Places
from adapters.simulation.replicas import Record, ReplicaKind, loss
from adapters.simulation.serving import ServingFleet
from autoscaler.domain.cluster import ClusterSnapshot, Device, Phase, Replica, Target
from autoscaler.domain.plan import VariantTarget
from autoscaler.domain.service import ServiceId
from autoscaler.ports import RefusedError

# A failed container's restarts are put off by 10 s, doubled each time, up to 5 min (Kubernetes documentation, "Pod
# Lifecycle", container restart policy).
_FIRST_BACKOFF_S, _LONGEST_BACKOFF_S = 10.0, 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A service in the cluster: what serves it and with which kinds of replica; ``drain_limit_s``: its grace period."""

    service: ServiceId
    fleet: ServingFleet
    kinds: tuple[ReplicaKind, ...]
    drain_limit_s: float = 60.0


class SimulatedCluster:
    """Replicas are ordered, get a place, start, serve, drain and end, on the clock's queue.

    What faults do to it is set by ``slowness`` (factor on start-up times), ``crash_looping`` (replicas fail as they
    would become ready) and ``unschedulable`` (no place is given).
    """

    def __init__(
        self,
        *,
        clock: VirtualClock,
        services: Sequence[Served],
        seed: int,
        places: Places | None = None,
        devices: Sequence[Device] = (),
    ) -> None:
        self._clock = clock
        self._served = {each.service: each for each in services}
        self._kinds = {(each.service, kind.variant): kind for each in services for kind in each.kinds}
        seeds = np.random.SeedSequence(seed).spawn(len(services))
        self._random = {each.service: np.random.default_rng(own) for each, own in zip(services, seeds, strict=True)}
        self._places = places or Places()
        self._devices = tuple(devices)
        self._targets = dict.fromkeys(self._kinds, 0)
        self._asked: Counter[ServiceId] = Counter()
        self._records: dict[str, Record] = {}
        self._records_of: dict[ServiceId, dict[str, Record]] = {service: {} for service in self._served}
        self._numbers = dict.fromkeys(self._kinds, 0)
        self._served_until_s = dict.fromkeys(self._served, -1.0)
        self._open: Counter[ServiceId] = Counter()
        self._when_none_is_open: dict[ServiceId, Callable[[], None]] = {}
        self._ended: list[tuple[ServiceId, Stay]] = []
        self._shown: tuple[tuple[Replica, ...], tuple[Target, ...]] | None = None
        self.changes: list[tuple[float, ServiceId, int]] = []
        self.slowness = 1.0
        self.crash_looping = False
        self.unschedulable = False

    def snapshot(self) -> ClusterSnapshot:
        """What exists now."""
        self._end_drained()
        if self._shown is None:
            self._shown = (
                tuple(record.replica() for _, record in sorted(self._records.items())),
                tuple(
                    Target(service=service, variant=variant, replicas=count)
                    for (service, variant), count in sorted(self._targets.items())
                ),
            )
        replicas, targets = self._shown
        return ClusterSnapshot(at_s=self._clock.now_s(), devices=self._devices, replicas=replicas, targets=targets)

    def scale(self, service: ServiceId, targets: Sequence[VariantTarget]) -> None:
        """Order replicas or let some go. Raises RefusedError for a variant that nobody knows, or a negative count."""
        for target in targets:
            if (service, target.variant) not in self._kinds or target.replicas < 0:
                raise RefusedError(f"{service} can't have {target.replicas} replicas of {target.variant!r}")
        before = self.asked(service)
        for target in targets:
            key = (service, target.variant)
            if self._targets[key] != target.replicas:
                self._asked[service] += target.replicas - self._targets[key]
                self._targets[key] = target.replicas
                self._shown = None
            self._balance(key)
        if self.asked(service) != before:
            self.changes.append((self._clock.now_s(), service, self.asked(service)))

    def begin_with(self, service: ServiceId, variant: str, replicas: int) -> None:
        """Replicas that are ready at once, as if they had been there for long."""
        for _ in range(replicas):
            record = self._ordered((service, variant))
            self._placed(record, at_once=True)
        self._targets[service, variant] += replicas
        self._asked[service] += replicas
        self._shown = None

    def asked(self, service: ServiceId) -> int:
        """Replicas last asked for, all variants together."""
        return self._asked[service]

    def counts(self) -> dict[ServiceId, Counter[Phase]]:
        """Replicas of each service by phase."""
        self._end_drained()
        counts: dict[ServiceId, Counter[Phase]] = {service: Counter() for service in self._served}
        for record in self._records.values():
            counts[record.service][record.phase] += 1
        return counts

    def record(self, name: str) -> Record | None:
        """The replica of that name while it exists."""
        return self._records.get(name)

    def fleet(self, service: ServiceId) -> ServingFleet:
        """What serves it, up to now."""
        fleet, now_s = self._served[service].fleet, self._clock.elapsed_s
        if self._served_until_s[service] != now_s:
            fleet.advance(now_s)
            self._served_until_s[service] = now_s
        return fleet

    def open(self, service: ServiceId) -> int:
        """Replicas that take requests."""
        return self._open[service]

    def when_none_is_open(self, service: ServiceId, told: Callable[[], None]) -> None:
        """Call it whenever the last replica that took requests does so no more, and now where there is none."""
        self._when_none_is_open[service] = told
        if not self._open[service]:
            told()

    def crash(self, name: str) -> None:
        """A ready replica's engine ends; requests on it are lost. It is started again after a while."""
        record = self._records[name]
        if record.phase is Phase.READY and record.index is not None:
            self.fleet(record.service).remove(record.index)
            self._failed(record)
            self._takes_no_more(record.service)

    def set_schedulable(self) -> None:
        """Places are given again, first to who waits longest."""
        self.unschedulable = False
        self._give_places()

    def stays(self, service: ServiceId) -> Iterator[Stay]:
        """Paid time of every replica that the service had, and has."""
        self._end_drained()
        yield from (stay for owner, stay in self._ended if owner == service)
        for record in self._records_of[service].values():
            if record.paid_since_s is not None:
                yield Stay(begin_s=record.paid_since_s, end_s=None, cost=record.kind.cost)

    def _balance(self, key: tuple[ServiceId, str]) -> None:
        service, variant = key
        live = [
            each
            for each in self._records_of[service].values()
            if each.kind.variant == variant and each.phase is not Phase.DRAINING
        ]
        surplus = len(live) - self._targets[key]
        if surplus > 0:
            fleet = self.fleet(service)
            live.sort(key=lambda each: loss(each, _in_flight(fleet, each)))
            for record in live[:surplus]:
                self._let_go(record)
        for _ in range(-surplus):
            self._find_place(self._ordered(key))

    def _ordered(self, key: tuple[ServiceId, str]) -> Record:
        service, variant = key
        self._numbers[key] += 1
        name = f"{service}-{variant}-{self._numbers[key]}"
        record = Record(name=name, service=service, kind=self._kinds[key], created_s=self._clock.now_s())
        self._records[name] = self._records_of[service][name] = record
        self._shown = None
        return record

    def _find_place(self, record: Record) -> None:
        reshaped = None if self.unschedulable else self._places.take(record.kind.variant)
        if reshaped is None:
            if record.unschedulable_since_s is None:
                record.unschedulable_since_s = self._clock.now_s()
                record.change(Phase.STARTING, "no place is free")
            return
        random = self._random[record.service]
        delay_s = record.kind.scheduling.draw_s(random)
        if reshaped:
            delay_s += record.kind.repartition.draw_s(random)
        self._placed(record, delay_s=delay_s)

    def _placed(self, record: Record, *, delay_s: float = 0.0, at_once: bool = False) -> None:
        now_s = self._clock.now_s()
        if at_once:
            self._places.take(record.kind.variant)
        record.paid_since_s, record.unschedulable_since_s = now_s, None
        if at_once:
            record.ready_at_s = now_s
            self._ready(record, record.change(Phase.STARTING))
        else:
            self._start(record, delay_s=delay_s)

    def _start(self, record: Record, *, delay_s: float = 0.0) -> None:
        if record.restarts:  # a start of its own, as Kubernetes tells it
            record.created_s = self._clock.now_s()
        turn = record.change(Phase.STARTING)
        span_s = delay_s + record.kind.startup.draw_s(self._random[record.service]) * self.slowness
        record.started_s = self._clock.now_s() + delay_s
        record.ready_at_s = self._clock.now_s() + span_s
        self._shown = None
        self._clock.at(record.ready_at_s, lambda: self._ready(record, turn))

    def _ready(self, record: Record, turn: int) -> None:
        if record.turn != turn:
            return
        if self.crash_looping:
            self._failed(record)
            return
        fleet = self.fleet(record.service)
        record.index = record.kind.add() if record.kind.add is not None else fleet.add()
        fleet.open(record.index)
        self._open[record.service] += 1
        record.ready_s = self._clock.now_s()
        record.change(Phase.READY)
        self._shown = None

    def _failed(self, record: Record) -> None:
        backoff_s = min(_LONGEST_BACKOFF_S, _FIRST_BACKOFF_S * 2.0 ** min(record.restarts, 16))
        record.restarts += 1
        record.index, record.ready_s, record.ready_at_s = None, None, math.inf
        turn = record.change(Phase.FAILED, f"ended; started again in {backoff_s:.0f} s")
        self._shown = None
        self._clock.after(backoff_s, lambda: self._start(record) if record.turn == turn else None)

    def _let_go(self, record: Record) -> None:
        if record.index is None:
            self._gone(record, self._clock.now_s())
            return
        fleet = self.fleet(record.service)
        fleet.close(record.index)
        turn = record.change(Phase.DRAINING, "no longer asked for")
        self._shown = None
        if not self._end_if_drained(record):
            limit_s = self._served[record.service].drain_limit_s
            self._clock.after(limit_s, lambda: self._cut_off(record) if record.turn == turn else None)
        self._takes_no_more(record.service)

    def _takes_no_more(self, service: ServiceId) -> None:
        self._open[service] -= 1
        if not self._open[service] and service in self._when_none_is_open:
            self._when_none_is_open[service]()

    def _cut_off(self, record: Record) -> None:
        if not self._end_if_drained(record) and record.index is not None:
            self.fleet(record.service).remove(record.index)
            self._gone(record, self._clock.now_s())

    def _end_drained(self) -> None:
        for record in [each for each in self._records.values() if each.phase is Phase.DRAINING]:
            self._end_if_drained(record)

    def _end_if_drained(self, record: Record) -> bool:
        assert record.index is not None
        fleet = self.fleet(record.service)
        empty_s = fleet.empty_since_s(record.index)
        if empty_s is None:
            return False
        fleet.remove(record.index)
        self._gone(record, self._clock.begin_s + empty_s)
        return True

    def _gone(self, record: Record, end_s: float) -> None:
        record.turn += 1
        del self._records[record.name], self._records_of[record.service][record.name]
        self._shown = None
        if record.paid_since_s is not None:
            stay = Stay(begin_s=record.paid_since_s, end_s=max(end_s, record.paid_since_s), cost=record.kind.cost)
            self._ended.append((record.service, stay))
            self._places.give_back(record.kind.variant)
            self._give_places()

    def _give_places(self) -> None:
        for record in list(self._records.values()):
            if record.paid_since_s is None and record.phase is Phase.STARTING:
                self._find_place(record)


def _in_flight(fleet: ServingFleet, record: Record) -> int:
    return 0 if record.index is None else fleet.in_flight(record.index)
