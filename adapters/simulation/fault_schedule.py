"""Faults of the cluster's replicas, put on the clock's queue."""

from __future__ import annotations

from collections.abc import Sequence

from adapters.simulation.clock import VirtualClock
from adapters.simulation.cluster import SimulatedCluster
from adapters.simulation.faults import Fault, FaultKind
from autoscaler.domain.cluster import Phase
from autoscaler.domain.plan import VariantTarget
from autoscaler.domain.service import ServiceId


def schedule(faults: Sequence[Fault], *, clock: VirtualClock, cluster: SimulatedCluster, service: ServiceId) -> None:
    """Let each of them begin and end in time. Those of ports and of the controller are no business of this."""
    for fault in faults:
        _Timed(fault, cluster, service).put_on(clock)


class _Timed:
    def __init__(self, fault: Fault, cluster: SimulatedCluster, service: ServiceId) -> None:
        self._fault = fault
        self._cluster = cluster
        self._service = service

    def put_on(self, clock: VirtualClock) -> None:
        clock.at(clock.begin_s + self._fault.from_s, self._begin)
        clock.at(clock.begin_s + self._fault.until_s, self._end)

    def _begin(self) -> None:
        match self._fault.kind:
            case FaultKind.SLOW_START:
                self._cluster.slowness = self._fault.size
            case FaultKind.CRASH_LOOP:
                self._cluster.crash_looping = True
            case FaultKind.UNSCHEDULABLE:
                self._cluster.unschedulable = True
            case FaultKind.CRASH:
                self._crash()
            case FaultKind.MANUAL_EDIT:
                self._edit()
            case _:
                pass

    def _end(self) -> None:
        match self._fault.kind:
            case FaultKind.SLOW_START:
                self._cluster.slowness = 1.0
            case FaultKind.CRASH_LOOP:
                self._cluster.crash_looping = False
            case FaultKind.UNSCHEDULABLE:
                self._cluster.set_schedulable()
            case _:
                pass

    def _crash(self) -> None:
        replicas = self._cluster.snapshot().replicas
        ready = [each.name for each in replicas if each.service == self._service and each.phase is Phase.READY]
        for name in ready[: round(self._fault.size * len(ready))]:
            self._cluster.crash(name)

    def _edit(self) -> None:
        """By hand, on the variant that has most replicas."""
        targets = [each for each in self._cluster.snapshot().targets if each.service == self._service]
        largest = max(targets, key=lambda each: (each.replicas, each.variant))
        count = max(0, largest.replicas + round(self._fault.size))
        self._cluster.scale(self._service, [VariantTarget(variant=largest.variant, replicas=count)])
