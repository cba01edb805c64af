"""Kinds of replica, and the record of one from its order to its end."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from adapters.simulation.delays import Delay, Fixed
from autoscaler.domain.cluster import Phase, Replica
from autoscaler.domain.service import ServiceId

_AT_ONCE = Fixed(0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaKind:
    """One variant's replicas.

    ``startup``: from its place to being ready; ``scheduling``: from the order to the place, where one is free;
    ``repartition``: added where the place had another shape. ``cost``: per replica-hour. ``add``: puts one into the
    fleet, where it is not the fleet's own ``add``.
    """

    variant: str = "default"
    startup: Delay
    scheduling: Delay = _AT_ONCE
    repartition: Delay = _AT_ONCE
    cost: float = 1.0
    add: Callable[[], int] | None = None


@dataclass(slots=True, kw_only=True)
class Record:
    """One replica.

    ``index``: in the fleet, None before it was ready. ``ready_at_s``: when it will be, as drawn. ``paid_since_s``: None
    without a place. ``turn``: grows with every change, so that what was planned before it is void.
    """

    name: str
    service: ServiceId
    kind: ReplicaKind
    created_s: float
    phase: Phase = Phase.STARTING
    index: int | None = None
    ready_at_s: float = math.inf
    ready_s: float | None = None
    started_s: float = 0.0
    paid_since_s: float | None = None
    unschedulable_since_s: float | None = None
    restarts: int = 0
    detail: str = ""
    turn: int = 0
    view: Replica | None = field(default=None)

    def change(self, phase: Phase, detail: str = "") -> int:
        """Enter a phase; the number of its turn."""
        self.phase, self.detail, self.view = phase, detail, None
        self.turn += 1
        return self.turn

    def replica(self) -> Replica:
        """As a snapshot shows it; the same object until something changes."""
        if self.view is None:
            self.view = Replica(
                name=self.name,
                service=self.service,
                variant=self.kind.variant,
                phase=self.phase,
                created_s=self.created_s,
                ready_s=self.ready_s,
                metrics_url=None if self.index is None else f"http://{self.name}/metrics",
                restarts=self.restarts,
                detail=self.detail,
                unschedulable_since_s=self.unschedulable_since_s,
            )
        return self.view


def loss(record: Record, in_flight: int) -> tuple[int, float, str]:
    """How much is lost with it, for choosing who goes: failed ones first, then the one that would be ready last, then
    the ready one with the fewest requests.
    """
    if record.phase is Phase.FAILED:
        return 0, 0.0, record.name
    if record.phase is Phase.STARTING:
        return 1, -record.ready_at_s, record.name
    return 2, float(in_flight), record.name
