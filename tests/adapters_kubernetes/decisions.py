"""Decisions of one service, to be published."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from autoscaler.domain.capacity import CapacityLimit, CapacitySource, ReplicaCapacity
from autoscaler.domain.demand import Demand, DemandSource, Forecast
from autoscaler.domain.plan import Hold, Plan, Reason, ServiceDecision, Stage, StageResult, VariantTarget
from autoscaler.domain.reading import Unknown, UnknownReason
from autoscaler.domain.resource import AutoscalerResource, Mode, TargetRef, VariantSource
from autoscaler.domain.service import Service, ServiceId, Slo, Variant

NOW_S = 1_796_040_000.25

DEMAND = Demand(
    at_s=NOW_S,
    source=DemandSource.ENGINES,
    short_rps=12.5,
    burst_rps=13.0,
    stable_rps=11.0,
    high_rps=12.5,
    tick_rps=12.0,
    tick_span_s=15.0,
    felt_rps=12.0,
    load_rps=12.0,
    backlog=3.0,
    in_flight=40.0,
    shape=Unknown(UnknownReason.NO_OBSERVATIONS),
    coverage=1.0,
    window_full=True,
    attained=0.995,
    arrived=100.0,
    missed=1.0,
    idle_s=0.0,
)


def decided(*counts: int, current: tuple[int, ...] = (3,), **changes: Any) -> ServiceDecision:
    """A plan for so many replicas of "default" (and "slice")."""
    names = ("default", "slice")
    targets = tuple(VariantTarget(variant=name, replicas=count) for name, count in zip(names, counts, strict=False))
    before = tuple(VariantTarget(variant=name, replicas=count) for name, count in zip(names, current, strict=False))
    decision = ServiceDecision(
        service=ServiceId("llm/chat"),
        at_s=NOW_S,
        outcome=Plan(targets=targets),
        stages=(
            StageResult(
                stage=Stage.SIZE, replicas=sum(counts), reason=Reason.MEASURED_LOAD, detail="12.5 req/s need it"
            ),
            StageResult(stage=Stage.LIMIT, replicas=sum(counts), reason=Reason.WITHIN_BOUNDS),
        ),
        binding=Reason.MEASURED_LOAD,
        current=before,
        demand=DEMAND,
        forecast=Forecast(at_s=NOW_S, lead_s=90.0, quantile=0.9, rps=14.0, median_rps=12.0, skill=0.2, by="mixture"),
        capacity=ReplicaCapacity(rps=4.2, limit=CapacityLimit.ITL, source=CapacitySource.PROFILE),
        ready=3,
        starting=1,
        draining=0,
        failed=0,
        lead_s=90.0,
    )
    return replace(decision, **changes)


def holding(reason: Reason, detail: str = "", **changes: Any) -> ServiceDecision:
    """A decision that leaves the service as it is."""
    return decided(3, outcome=Hold(reason=reason, detail=detail), binding=reason, **changes)


def resource(*variants: str) -> AutoscalerResource:
    """What asks for it."""
    names = variants or ("default",)
    return AutoscalerResource(
        namespace="llm",
        name="chat",
        uid="4f1c",
        generation=7,
        created_s=NOW_S - 3600,
        labels=(("app", "chat"),),
        mode=Mode.ADVISE,
        service=Service(
            id=ServiceId("llm/chat"), slo=Slo(ttft_s=2.0), variants=tuple(Variant(name=name) for name in names)
        ),
        sources=tuple(
            VariantSource(variant=name, target=TargetRef(api_version="apps/v1", kind="Deployment", name=f"chat-{name}"))
            for name in names
        ),
    )
