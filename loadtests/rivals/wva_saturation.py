"""llm-d WVA's first analyzer (V1): one replica more or less, by how much of the KV cache and the queue is spare.

Source: llm-d/llm-d-workload-variant-autoscaler, ``internal/saturation/analyzer.go`` (``analyzeVariant``,
``shouldScaleUp``, ``isScaleDownSafe``, ``CalculateSaturationTargets``); defaults: KV threshold 0.80, queue threshold
5, spare triggers 0.10 and 3; per pod the largest value of the last minute
(``internal/collector/registration/saturation.go``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from loadtests.rivals.seen import Bounds, Contender, Facts, Knob, Rival, Seen
from loadtests.rivals.wva import SOURCE, Followed

_WINDOW_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SaturationSettings:
    """A replica is saturated at either threshold; below a spare trigger the fleet grows."""

    kv_threshold: float = 0.80
    queue_threshold: float = 5.0
    kv_spare_trigger: float = 0.10
    queue_spare_trigger: float = 3.0


def saturation_target(
    kv: list[float], queues: list[float], *, current: int, last: int, settings: SaturationSettings
) -> int:
    """Replicas wanted. ``kv``, ``queues``: of each replica with metrics. ``current``: replicas there are, ready or not.

    While the replicas with metrics aren't those there are, or those aren't the ``last`` wanted, nothing is decided.
    """
    if last != current:
        return last
    if len(kv) != current:
        return current
    spare = [
        (settings.kv_threshold - used, settings.queue_threshold - waiting)
        for used, waiting in zip(kv, queues, strict=True)
        if used < settings.kv_threshold and waiting < settings.queue_threshold
    ]
    # Only replicas that aren't saturated count; when all are, nothing is spare.
    count = len(spare)
    kv_spare = sum(one for one, _ in spare) / count if count else 0.0
    queue_spare = sum(one for _, one in spare) / count if count else 0.0
    if kv_spare < settings.kv_spare_trigger or queue_spare < settings.queue_spare_trigger:
        return current + 1
    if count >= 2 and current > 1:
        load = count / (count - 1)
        kv_left = settings.kv_threshold - (settings.kv_threshold - kv_spare) * load
        queue_left = settings.queue_threshold - (settings.queue_threshold - queue_spare) * load
        if kv_left >= settings.kv_spare_trigger and queue_left >= settings.queue_spare_trigger:
            return current - 1
    return current


def _make(kv_spare: float, bounds: Bounds, facts: Facts) -> Rival:
    del facts
    settings = SaturationSettings(kv_spare_trigger=kv_spare)

    def decide(seen: Seen, last: int) -> int:
        each = seen.per_replica(_WINDOW_S)
        metrics = zip(each.kv_fraction.tolist(), each.waiting.tolist(), strict=True)
        known = [(used, waiting) for used, waiting in metrics if not math.isnan(used + waiting)]
        if not known:
            return last
        kv, queues = [used for used, _ in known], [waiting for _, waiting in known]
        return saturation_target(kv, queues, current=seen.ready + seen.starting, last=last, settings=settings)

    return Followed(decide, bounds)


WVA_V1 = Contender(
    name="llm-d WVA V1",
    how="one replica up or down by spare KV cache and queue, held while a replica starts; HPA of its chart",
    sources=(SOURCE + "saturation/analyzer.go", SOURCE + "collector/registration/saturation.go"),
    interval_s=15.0,
    lag_s=None,
    knob=Knob(
        name="spare KV trigger",
        default=0.10,
        values=(-0.2, -0.1, 0.0, 0.02, 0.05, 0.10, 0.15, 0.20, 0.25, 0.30, 0.35, 0.40, 0.45, 0.5, 0.6, 0.7),
    ),
    make=_make,
)
