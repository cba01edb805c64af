"""What came out of a run, by accounting that is the same for everybody."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from adapters.simulation.ledger import paid_hours
from loadtests.simulation.scoring import Score
from loadtests.simulation.world import Part, World

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The run in steps. ``at_s``: end of each, seconds since the begin; the counts are of that moment (before what is
    decided then), ``demand_rps`` and ``missed`` (requests that came in the step and were not in SLO) of the step.
    """

    at_s: Floats
    demand_rps: Floats
    missed: Floats
    ready: Floats
    starting: Floats
    draining: Floats
    failed: Floats
    desired: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """``gpu_hours``: of all replicas from order to end, weighted by cost. ``changes``: of the number asked for.
    All are of the time after the warm-up. ``faults``: how often ports failed, by kind.
    """

    decider: str
    seed: int
    score: Score
    gpu_hours: float
    changes: int
    scored_s: float
    timeline: Timeline
    faults: Counter[str] = field(default_factory=Counter)

    @property
    def share_in_slo(self) -> float:
        """Of the requests that arrived after the warm-up."""
        return self.score.share_in_slo

    @property
    def changes_per_hour(self) -> float:
        """Of the number asked for."""
        return self.changes / (self.scored_s / 3600.0)


def result_of(world: World, part: Part, *, decider: str, seed: int, faults: Counter[str] | None = None) -> RunResult:
    """The accounts of one service of a finished run."""
    setup, begin_s = part.setup, world.clock.begin_s
    since_s, until_s = begin_s + setup.warmup_s, begin_s + setup.duration_s
    return RunResult(
        decider=decider,
        seed=seed,
        score=part.judge.score(setup.warmup_s, setup.duration_s),
        gpu_hours=paid_hours(world.cluster.stays(part.service), since_s=since_s, until_s=until_s),
        changes=sum(at_s >= since_s and owner == part.service for at_s, owner, _ in world.cluster.changes),
        scored_s=until_s - since_s,
        timeline=_timeline(part),
        faults=Counter() if faults is None else faults,
    )


def _timeline(part: Part) -> Timeline:
    looks = part.looks
    at_s = np.array([look.at_s for look in looks])
    arrived, missed = part.judge.cumulated(at_s)
    spans_s = np.diff(at_s, prepend=0.0)
    demand = np.diff(arrived, prepend=0.0)
    return Timeline(
        at_s=at_s,
        demand_rps=np.divide(demand, spans_s, out=np.zeros_like(demand), where=spans_s > 0),
        missed=np.diff(missed, prepend=0.0),
        ready=np.array([float(look.ready) for look in looks]),
        starting=np.array([float(look.starting) for look in looks]),
        draining=np.array([float(look.draining) for look in looks]),
        failed=np.array([float(look.failed) for look in looks]),
        desired=np.array([float(look.desired) for look in looks]),
    )
