"""The stages that yield no replica number, in words: measured, foreseen, assumed."""

from __future__ import annotations

from collections.abc import Sequence

from autoscaler.domain.capacity import ReplicaCapacity
from autoscaler.domain.cluster import ClusterSnapshot
from autoscaler.domain.demand import Demand, Forecast
from autoscaler.domain.plan import Reason, Stage, StageResult
from autoscaler.domain.reading import Measured, Unknown
from autoscaler.policy.measuring import Measurement

_COUNTING = (Stage.SIZE, Stage.STABILIZE, Stage.LIMIT, Stage.PACK)


def measured(demand: Demand) -> StageResult:
    """What was measured, and what could not be."""
    if isinstance(demand.short_rps, Unknown):
        reason, detail = Reason.UNKNOWN_DEMAND, f"arrivals {demand.short_rps}"
    elif demand.stuck:
        reason, detail = Reason.STUCK_REPLICAS, f"no progress in spite of work: {', '.join(demand.stuck)}"
    elif demand.unobserved:
        reason, detail = Reason.PARTIAL_COVERAGE, f"not observed: {'; '.join(demand.unobserved)}"
    elif not demand.window_full:
        reason, detail = Reason.WARMING_UP, "the measuring window is not full yet"
    elif isinstance(demand.idle_s, float) and demand.idle_s > 0:
        reason, detail = Reason.IDLE, f"no request for {demand.idle_s:.0f} s"
    else:
        reason, detail = Reason.MEASURED, f"{demand.short_rps:.3g} req/s by {demand.source.lower()}"
    figures: tuple[tuple[str, Measured], ...] = (
        ("short_rps", demand.short_rps),
        ("burst_rps", demand.burst_rps),
        ("stable_rps", demand.stable_rps),
        ("high_rps", demand.high_rps),
        ("backlog", demand.backlog),
        ("in_flight", demand.in_flight),
        ("attained", demand.attained),
        ("coverage", demand.coverage),
    )
    inputs = tuple((name, str(value) if isinstance(value, Unknown) else value) for name, value in figures)
    return StageResult(stage=Stage.MEASURE, replicas=None, reason=reason, detail=detail, inputs=inputs)


def foreseen(forecast: Forecast | Unknown) -> StageResult:
    """What was foreseen, by whom."""
    if isinstance(forecast, Unknown):
        return StageResult(
            stage=Stage.FORECAST, replicas=None, reason=Reason.NO_FORECAST, detail=f"forecast {forecast}"
        )
    return StageResult(
        stage=Stage.FORECAST,
        replicas=None,
        reason=Reason.PERSISTENCE if forecast.by == "persistence" else Reason.FORECAST,
        detail=f"{forecast.rps:.3g} req/s in {forecast.lead_s:.0f} s, quantile {forecast.quantile:.3f}, "
        f"by {forecast.by}",
        inputs=(
            ("rps", forecast.rps),
            ("median_rps", forecast.median_rps),
            ("quantile", forecast.quantile),
            ("lead_s", forecast.lead_s),
            ("skill", "not yet scored" if forecast.skill is None else forecast.skill),
        ),
    )


def able(capacity: ReplicaCapacity | Unknown) -> StageResult:
    """What one replica can do."""
    if isinstance(capacity, Unknown):
        return StageResult(
            stage=Stage.CAPACITY,
            replicas=None,
            reason=Reason.CAPACITY_UNKNOWN,
            detail=f"capacity of a replica {capacity}",
        )
    return StageResult(
        stage=Stage.CAPACITY,
        replicas=None,
        reason=Reason.CAPACITY_KNOWN,
        detail=f"{capacity.rps:.3g} req/s a replica, {capacity.limit} limit, {capacity.source}"
        + (f": {capacity.detail}" if capacity.detail else ""),
        inputs=(("replica_rps", capacity.rps),),
    )


def binding(stages: Sequence[StageResult]) -> Reason:
    """The reason of the last stage that changed the number; of the sizing where none did."""
    counting = [stage for stage in stages if stage.stage in _COUNTING]
    reason, number = counting[0].reason, counting[0].replicas
    for stage in counting[1:]:
        if stage.replicas != number:
            reason, number = stage.reason, stage.replicas
    return reason


def ages(now_s: float, snapshot: ClusterSnapshot, measurement: Measurement) -> tuple[tuple[str, float], ...]:
    """Age in seconds of each input, by name."""
    inputs = [("snapshot", now_s - snapshot.at_s)]
    if measurement.gateway is not None:
        inputs.append(("gateway", now_s - measurement.gateway.at_s))
    inputs.extend((name, now_s - track.reading.at_s) for name, track in sorted(measurement.tracks.items()))
    return tuple(inputs)
