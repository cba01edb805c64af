"""What is simulated, apart from who decides."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from adapters.simulation.batch_fleet import BatchServer
from adapters.simulation.faults import Fault
from adapters.simulation.fluid_fleet import FluidModel
from adapters.simulation.replicas import ReplicaKind
from adapters.simulation.requests import Requests
from adapters.simulation.serving import Router
from adapters.simulation.source import Scraping
from adapters.simulation.step_times import EngineShape, StepTimes
from autoscaler.domain.service import Bounds, ServiceId, Slo
from loadtests.workloads.workload import SecondCounts

_FETCHED = Scraping()

SERVICE = ServiceId("service")


@dataclass(frozen=True, slots=True, kw_only=True)
class FluidServing:
    """A fluid fleet on counts per second. ``weights``: a variant's capacity in parts of the model's, 1 by default."""

    arrivals: SecondCounts
    model: FluidModel
    weights: Mapping[str, float] = field(default_factory=dict)

    @property
    def duration_s(self) -> float:
        """Of the workload."""
        return float(self.arrivals.duration_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineServing:
    """Continuously batching engines on single requests. ``held_limit``, ``held_s``: while no replica is ready."""

    requests: Requests
    times: StepTimes
    shape: EngineShape
    router: Router = Router.LEAST_IN_FLIGHT
    held_limit: int = 1000
    held_s: float = 900.0

    @property
    def duration_s(self) -> float:
        """Of the workload."""
        return self.requests.duration_s


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchServing:
    """Batch servers on single requests, whose lengths count for nothing. The rest as of ``EngineServing``."""

    requests: Requests
    server: BatchServer
    router: Router = Router.LEAST_IN_FLIGHT
    held_limit: int = 1000
    held_s: float = 900.0

    @property
    def duration_s(self) -> float:
        """Of the workload."""
        return self.requests.duration_s


Serving = FluidServing | EngineServing | BatchServing


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """One service in one world.

    ``kinds``: of replica, the first of them is the one that the run begins with. ``initial``: replicas that are ready
    at the begin. ``warmup_s``: this much at the begin is served but not scored. ``gateway``: the project's gateway is
    in front, and its counts are read. ``places``: for replicas, None for as many as wanted. ``record_s``: between two
    entries of the timeline.
    """

    serving: Serving
    slo: Slo
    bounds: Bounds
    kinds: tuple[ReplicaKind, ...]
    initial: int
    scraping: Scraping = _FETCHED
    faults: tuple[Fault, ...] = ()
    warmup_s: float = 0.0
    drain_limit_s: float = 60.0
    gateway: bool = False
    places: int | None = None
    record_s: float = 15.0

    def __post_init__(self) -> None:
        if not self.kinds:
            raise ValueError("a run needs at least one kind of replica")
        if not (math.isfinite(self.warmup_s) and 0 <= self.warmup_s < self.duration_s):
            raise ValueError(f"warmup_s must lie in [0, {self.duration_s:g}), got {self.warmup_s}")
        if not 0 <= self.initial <= self.bounds.max_replicas:
            raise ValueError(f"initial must lie in [0, {self.bounds.max_replicas}], got {self.initial}")

    @property
    def duration_s(self) -> float:
        """Of the run."""
        return self.serving.duration_s

    @property
    def of_the_world(self) -> tuple[object, ...]:
        """What services that live in one world have in common."""
        return self.duration_s, self.scraping, self.faults, self.gateway, self.places, self.record_s
