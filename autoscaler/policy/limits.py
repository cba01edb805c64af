"""Stage 6: the hard limits of the user. After it only the devices may lower the number; nothing raises it."""

from __future__ import annotations

from autoscaler.domain.plan import Reason, Stage, StageResult
from autoscaler.domain.service import Bounds


def limit(wanted: int, bounds: Bounds) -> StageResult:
    """``wanted`` within [min, max]."""
    if wanted > bounds.max_replicas:
        return StageResult(
            stage=Stage.LIMIT,
            replicas=bounds.max_replicas,
            reason=Reason.MAX_REPLICAS,
            detail=f"{wanted} wanted, maxReplicas is {bounds.max_replicas}",
        )
    if wanted < bounds.min_replicas:
        return StageResult(
            stage=Stage.LIMIT,
            replicas=bounds.min_replicas,
            reason=Reason.MIN_REPLICAS,
            detail=f"{wanted} would do, minReplicas is {bounds.min_replicas}",
        )
    return StageResult(stage=Stage.LIMIT, replicas=wanted, reason=Reason.WITHIN_BOUNDS)
