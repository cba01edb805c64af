"""The simulated world of one run, its faults included, behind the controller's ports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from adapters.simulation.batch_fleet import BatchFleet
from adapters.simulation.clock import Order, VirtualClock
from adapters.simulation.cluster import Served, SimulatedCluster
from adapters.simulation.engine_fleet import EngineFleet
from adapters.simulation.fault_schedule import schedule
from adapters.simulation.faulty_ports import FaultyActuator, FaultyInventory, FaultySource
from adapters.simulation.fluid_fleet import FluidFleet
from adapters.simulation.places import Places
from adapters.simulation.replicas import ReplicaKind
from adapters.simulation.source import Scraping, SimulatedSource
from autoscaler.domain.cluster import Phase
from autoscaler.domain.service import ServiceId, Slo
from autoscaler.ports import Inventory, MetricsSource, ReplicaActuator
from loadtests.simulation.doorbell import Doorbell
from loadtests.simulation.scoring import FluidJudge, Judge, RequestJudge
from loadtests.simulation.setup import BatchServing, EngineServing, Serving, Setup


@dataclass(frozen=True, slots=True)
class Look:
    """The fleet at one moment of the timeline."""

    at_s: float
    ready: int
    starting: int
    draining: int
    failed: int
    desired: int


@dataclass(frozen=True, slots=True)
class Part:
    """One service of a world: what it was set up as, who knows what became of its requests, and its timeline."""

    service: ServiceId
    setup: Setup
    judge: Judge
    looks: list[Look]


class World:
    """Clock, cluster and what is seen of it. Equal setups and seeds make equal worlds."""

    def __init__(self, setups: Mapping[ServiceId, Setup], seed: int) -> None:
        """Services that live together: their setups agree in what the world is (see ``Setup.of_the_world``), which
        ValueError says where they don't. Faults of single replicas befall the first.
        """
        first, self.setup = next(iter(setups.items()))
        for service, each in setups.items():
            if each.of_the_world != self.setup.of_the_world:
                raise ValueError(f"{service} and {first} can't live in one world: their setups of it differ")
        cluster_seed, source_seed = np.random.SeedSequence(seed).generate_state(2).tolist()
        self.clock = VirtualClock()
        self.parts: list[Part] = []
        served = []
        for service, each in setups.items():
            judge, kinds = _fleet(each.serving, each.kinds, each.slo)
            self.parts.append(Part(service, each, judge, []))
            served.append(Served(service=service, fleet=judge.fleet, kinds=kinds, drain_limit_s=each.drain_limit_s))
        self.cluster = SimulatedCluster(
            clock=self.clock, services=served, seed=cluster_seed, places=Places(self.setup.places)
        )
        for part in self.parts:
            self.cluster.begin_with(part.service, part.setup.kinds[0].variant, part.setup.initial)
        faults = self.setup.faults
        schedule(faults, clock=self.clock, cluster=self.cluster, service=first)
        self._source_seed = source_seed
        self.inventory: Inventory = FaultyInventory(self.cluster, clock=self.clock, faults=faults)
        self.actuator: ReplicaActuator = FaultyActuator(self.cluster, clock=self.clock, faults=faults)
        self.clock.every(self.setup.record_s, self._look, Order.RECORD)

    def source(self, scraping: Scraping) -> MetricsSource:
        """The metrics, collected in this way, with the faults of the run."""
        source = SimulatedSource(
            clock=self.clock,
            cluster=self.cluster,
            scraping=scraping,
            seed=self._source_seed,
            gateways=tuple(part.service for part in self.parts) if self.setup.gateway else (),
        )
        return FaultySource(source, clock=self.clock, faults=self.setup.faults)

    def hang_doorbells(self) -> None:
        """From now on the gateway, where there is one, wakes who waits on the clock when requests begin to be held."""
        if self.setup.gateway:
            for part in self.parts:
                Doorbell(self.clock, self.cluster, part.service, part.setup.serving)

    def finish(self) -> None:
        """Let the rest of the run happen."""
        self.clock.let_pass(self.clock.begin_s + self.setup.duration_s)
        for part in self.parts:
            self.cluster.fleet(part.service)

    def _look(self) -> None:
        counts = self.cluster.counts()
        for part in self.parts:
            count = counts[part.service]
            part.looks.append(
                Look(
                    at_s=self.clock.elapsed_s,
                    ready=count[Phase.READY],
                    starting=count[Phase.STARTING],
                    draining=count[Phase.DRAINING],
                    failed=count[Phase.FAILED],
                    desired=self.cluster.asked(part.service),
                )
            )


def _fleet(serving: Serving, kinds: tuple[ReplicaKind, ...], slo: Slo) -> tuple[Judge, tuple[ReplicaKind, ...]]:
    """What serves, and the kinds of replica with the way in which each is added to it."""
    if isinstance(serving, EngineServing):
        engines = EngineFleet(
            serving.requests,
            times=serving.times,
            shape=serving.shape,
            slo=slo,
            router=serving.router,
            held_limit=serving.held_limit,
            held_s=serving.held_s,
        )
        return RequestJudge(engines, serving.requests, slo), kinds
    if isinstance(serving, BatchServing):
        servers = BatchFleet(
            serving.requests,
            server=serving.server,
            slo=slo,
            router=serving.router,
            held_limit=serving.held_limit,
            held_s=serving.held_s,
        )
        return RequestJudge(servers, serving.requests, slo), kinds
    fluid = FluidFleet(serving.arrivals.arrivals, serving.model)
    weighted = tuple(_with_add(kind, fluid, serving.weights.get(kind.variant, 1.0)) for kind in kinds)
    return FluidJudge(fluid), weighted


def _with_add(kind: ReplicaKind, fleet: FluidFleet, weight: float) -> ReplicaKind:
    return ReplicaKind(
        variant=kind.variant,
        startup=kind.startup,
        scheduling=kind.scheduling,
        repartition=kind.repartition,
        cost=kind.cost,
        add=partial(fleet.add, weight=weight),
    )
