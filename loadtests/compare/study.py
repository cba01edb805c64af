"""What a comparison runs: cases, policies and seeds."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

from adapters.simulation.step_times import EngineShape, StepTimes
from autoscaler.domain.service import Bounds, Slo
from loadtests.bounds.slo import MissCurve
from loadtests.workloads.choosing import AnyWorkload

OURS = "ours"
FLUID_TTFT_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EngineModel:
    """A simulated engine, what was measured of a fleet of them, and how long a request is served there. ``drain_s``:
    how long a replica that is given up may go on with what it has; then it is lost.
    """

    times: StepTimes
    shape: EngineShape
    curve: MissCurve
    service_s: float
    drain_s: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Case:
    """One traffic on one kind of replica, the same for every policy.

    ``capacity_rps``: requests/s that a replica serves within the SLO. ``boot_s``: from the order of a replica to its
    being ready. ``metric_lag_s``: age of what policies see that read a metrics server; others fetch fresh pages.
    ``warmup_s``: whole seconds at the begin that are served and not scored. ``engine``: None for the fluid model. Two
    cases are equal when all runs of them would be.
    """

    workload: AnyWorkload
    boot_s: float
    capacity_rps: float
    slo: Slo
    bounds: Bounds
    metric_lag_s: float = 15.0
    warmup_s: int = 0
    engine: EngineModel | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Case) and (self.name, self.fingerprint) == (other.name, other.fingerprint)

    def __hash__(self) -> int:
        return hash((self.name, self.fingerprint))

    @property
    def name(self) -> str:
        """For headings."""
        return f"{self.workload.name}, boot {self.boot_s:g} s"

    @property
    def bound_name(self) -> str:
        """Of the bound that ratios are quoted to."""
        return "B60" if self.engine is None else "B_slo"

    @property
    def patience_s(self) -> int:
        """Whole seconds in which a request must be served, of the fluid model."""
        return max(1, math.floor(self.slo.ttft_s if self.slo.ttft_s is not None else FLUID_TTFT_S))

    @property
    def fingerprint(self) -> str:
        """A text that differs wherever a run of this case would."""
        engine = self.engine
        told = (
            "fluid"
            if engine is None
            else repr((engine.times, engine.shape, round(engine.service_s, 6), engine.drain_s))
        )
        parts = (
            self.workload.fingerprint,
            self.boot_s,
            round(self.capacity_rps, 9),
            self.slo,
            self.bounds,
            self.metric_lag_s,
            self.warmup_s,
            told,
        )
        return hashlib.sha256(repr(parts).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class OurPolicy:
    """The controller with the configuration ``text``. ``label``: ``ours``, or with what was changed.

    ``capacity_error``: what it is told of a replica's capacity, over the truth (of a fluid fleet).
    """

    label: str
    text: str
    capacity_error: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RivalPolicy:
    """A rival of the roster with a setting of its knob."""

    label: str
    knob: float


Policy = OurPolicy | RivalPolicy


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Run:
    """One run of a study."""

    case: Case
    policy: Policy
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Study:
    """All that a comparison is about.

    ``ours``: the configuration as it is, then the changed ones. ``rivals``: names. ``baseline``: what the user runs
    now. ``knob_values``: how many settings of each rival's knob are tried, its default included. ``refinements``: how
    often the neighbourhood of its best is halved.
    """

    cases: tuple[Case, ...]
    ours: tuple[OurPolicy, ...]
    rivals: tuple[str, ...]
    seeds: tuple[int, ...]
    baseline: RivalPolicy
    knob_values: int
    refinements: int

    @property
    def target(self) -> float:
        """The share of requests that must be in SLO."""
        return self.cases[0].slo.share
