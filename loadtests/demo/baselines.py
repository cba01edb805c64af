"""The other fleets that the demo's scorecard shows beside the run."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from autoscaler.domain.plan import ServiceDecision
from loadtests.arrivals import Arrivals
from loadtests.baselines import Baseline, FleetFacts, reactive, static_peak
from loadtests.demo.engines import DemoEngine
from loadtests.emulator import virtual
from loadtests.emulator.virtual import EngineModel, replay, share_within
from loadtests.lengths import LengthQuantiles
from loadtests.records import LoadResult, Outcome

_SHARE = 0.99


def computed_capacity_rps(engine: DemoEngine, model: EngineModel, arrivals: Arrivals) -> float:
    """What one replica serves with 99 % of requests as long as those of ``arrivals`` in SLO, by the engine's model."""
    return virtual.capacity_rps(
        model,
        fleet=max(1, engine.max_replicas // 2),
        prompts=LengthQuantiles.of_sample(arrivals.prompt_tokens),
        outputs=LengthQuantiles.of_sample(arrivals.output_tokens),
        dispersion=1.0,
        ttft_s=engine.ttft_s,
        itl_s=_itl_s(engine),
        share=_SHARE,
    )


def baselines(
    engine: DemoEngine,
    arrivals: Arrivals,
    result: LoadResult,
    decisions: Sequence[ServiceDecision],
    *,
    capacity_rps: float,
) -> tuple[Baseline, tuple[Baseline, ...]]:
    """The static peak, and the others. Boot time as the controller measured it, drains as long as a mean request."""
    lead_s = decisions[-1].lead_s - engine.interval_s if decisions else engine.startup_s
    spans = [record.e2e_s for record in result.records if record.outcome is Outcome.FINISHED]
    facts = FleetFacts(
        capacity_rps=capacity_rps,
        startup_s=max(0.0, lead_s),
        drain_s=float(np.mean(spans)) if spans else 0.0,
        min_replicas=engine.min_replicas,
        max_replicas=engine.max_replicas,
        max_wait_s=engine.ttft_s,
    )
    others = [reactive(arrivals, facts=facts, policy=engine.reactive)]
    if engine.model is not None:
        others.append(best_static(arrivals, engine=engine, model=engine.model))
    return static_peak(arrivals, facts=facts, busiest_s=engine.busiest_s), tuple(others)


def best_static(arrivals: Arrivals, *, engine: DemoEngine, model: EngineModel) -> Baseline:
    """The smallest constant fleet that serves this very load, found by trying each in virtual time."""
    for replicas in range(max(1, engine.min_replicas), engine.max_replicas + 1):
        courses = replay(arrivals, replicas=replicas, model=model)
        share = share_within(courses, ttft_s=engine.ttft_s, itl_s=_itl_s(engine))
        if share >= _SHARE:
            break
    return Baseline(
        name="static, in hindsight",
        how="computed on the engines' own model: the smallest constant fleet that has 99 % of these very requests in "
        "SLO, which nobody knows beforehand",
        peak_replicas=replicas,
        replica_seconds=replicas * arrivals.duration_s,
        share_served=share,
    )


def _itl_s(engine: DemoEngine) -> float:
    return math.inf if engine.itl_s is None else engine.itl_s
