"""Small worlds with a clock to move: a cluster over a fluid fleet, and what is seen of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adapters.simulation.clock import VirtualClock
from adapters.simulation.cluster import Served, SimulatedCluster
from adapters.simulation.delays import Fixed
from adapters.simulation.fluid_fleet import FluidFleet, FluidModel
from adapters.simulation.places import Places
from adapters.simulation.replicas import ReplicaKind
from autoscaler.domain.cluster import Phase
from autoscaler.domain.plan import VariantTarget
from autoscaler.domain.service import ServiceId

CHAT = ServiceId("chat")
KINDS = (ReplicaKind(startup=Fixed(60.0), scheduling=Fixed(5.0)),)


@dataclass
class SmallWorld:
    """One service. ``at`` moves time."""

    clock: VirtualClock
    fleet: FluidFleet
    cluster: SimulatedCluster

    def at(self, elapsed_s: float) -> None:
        self.clock.wait_until(self.clock.begin_s + elapsed_s)

    def ask(self, replicas: int, variant: str = "default") -> None:
        self.cluster.scale(CHAT, [VariantTarget(variant=variant, replicas=replicas)])

    def phases(self) -> dict[str, Phase]:
        return {each.name.rsplit("-", 1)[1]: each.phase for each in self.cluster.snapshot().replicas}

    def count(self, phase: Phase) -> int:
        return self.cluster.counts()[CHAT][phase]


def small_world(
    *,
    arrivals: NDArray[np.int64] | None = None,
    model: FluidModel | None = None,
    kinds: tuple[ReplicaKind, ...] = KINDS,
    places: int | None = None,
    drain_limit_s: float = 60.0,
    ready: int = 0,
) -> SmallWorld:
    """10 requests/s for an hour unless told otherwise, on replicas that serve 10 requests/s."""
    clock = VirtualClock()
    fleet = FluidFleet(np.full(3600, 10) if arrivals is None else arrivals, model or FluidModel(capacity_rps=10.0))
    served = Served(service=CHAT, fleet=fleet, kinds=kinds, drain_limit_s=drain_limit_s)
    cluster = SimulatedCluster(clock=clock, services=[served], seed=1, places=Places(places))
    cluster.begin_with(CHAT, kinds[0].variant, ready)
    return SmallWorld(clock, fleet, cluster)
