"""llm-d WVA's second analyzer (V2): tokens in use and queued against what a replica holds.

Sources: llm-d/llm-d-workload-variant-autoscaler, ``internal/engines/analyzers/saturation_v2/analyzer.go``
(``computeReplicaCapacity``, ``computeK2``, ``estimateCapacityFromParams``, ``Analyze``,
``estimateSchedulerQueueDemand``) and ``internal/engines/pipeline/cost_aware_optimizer.go``; defaults: KV threshold
0.80, queue threshold 5, scale-up threshold 0.85, scale-down boundary 0.70, a mean of the last 10 observed compute
bounds for each class of output length (below 100, below 500, longer).

The knob is the scale-up threshold; the scale-down boundary keeps its default ratio to it.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from statistics import median

from autoscaler.domain.reading import Unknown
from loadtests.rivals.seen import Bounds, Contender, Facts, Knob, PerReplica, Rival, Seen
from loadtests.rivals.wva import SOURCE, Followed

_GAUGE_WINDOW_S = 60.0
_LENGTH_WINDOW_S = 300.0
_SCALE_UP, _SCALE_DOWN = 0.85, 0.70
_REMEMBERED = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSettings:
    """Shares of the KV cache and of the fleet's tokens; ``queue_threshold`` in requests."""

    kv_threshold: float = 0.80
    queue_threshold: float = 5.0
    scale_up: float = _SCALE_UP
    scale_down: float = _SCALE_DOWN


def derived_capacity(prompt: float, output: float, *, batched_tokens: int, max_seqs: int) -> float:
    """Tokens a replica keeps in use in steady state, from its engine's flags."""
    if output <= 0:
        return 0.0
    steady = min(batched_tokens * output / (prompt + output), max_seqs)
    return steady * (prompt + output / 2)


def fleet_target(*, demand: float, per_replica: float, ready: int, pending: int, settings: TokenSettings) -> int:
    """Replicas for ``demand`` tokens when each holds ``per_replica``; pending ones count as supply on the way up."""
    current = ready + pending
    required = demand / settings.scale_up - current * per_replica
    if required > 0:
        return current + math.ceil(required / per_replica)
    spare = ready * per_replica - demand / settings.scale_down
    return max(1, current - math.floor(spare / per_replica)) if spare > 0 else current


class TokenAnalyzer:
    """V2 for one variant. Compute bounds that were seen with a full queue are remembered by length of outputs."""

    def __init__(self, settings: TokenSettings, facts: Facts) -> None:
        self._settings = settings
        self._facts = facts
        self._observed: dict[int, deque[float]] = {}

    def decide(self, seen: Seen, last: int) -> int:
        """Replicas wanted; ``last`` when metrics are missing."""
        kv_tokens = self._facts.kv_capacity_tokens
        prompt, output = seen.prompt_tokens(_LENGTH_WINDOW_S), seen.output_tokens(_LENGTH_WINDOW_S)
        held = seen.held()
        if isinstance(kv_tokens, Unknown) or isinstance(prompt, Unknown) or isinstance(output, Unknown):
            return last
        capacities, demand = self._replicas(seen.per_replica(_GAUGE_WINDOW_S), kv_tokens, prompt, output)
        if not capacities:
            return last
        demand += 0.0 if isinstance(held, Unknown) else held * (prompt + output)
        return fleet_target(
            demand=demand,
            per_replica=median(capacities),
            ready=seen.ready,
            pending=seen.starting,
            settings=self._settings,
        )

    def _replicas(self, each: PerReplica, kv_tokens: float, prompt: float, output: float) -> tuple[list[float], float]:
        capacities, demand = [], 0.0
        memory_bound = kv_tokens * self._settings.kv_threshold
        for used, waiting in zip(each.kv_fraction.tolist(), each.waiting.tolist(), strict=True):
            if math.isnan(used + waiting):
                continue
            in_use = used * kv_tokens
            compute_bound = self._compute_bound(waiting, in_use, prompt, output, memory_bound)
            capacities.append(min(memory_bound, compute_bound))
            demand += in_use + waiting * prompt
        return capacities, demand

    def _compute_bound(self, waiting: float, in_use: float, prompt: float, output: float, memory_bound: float) -> float:
        kind = (output >= 100) + (output >= 500)
        if waiting >= self._settings.queue_threshold and in_use > 0:
            self._observed.setdefault(kind, deque(maxlen=_REMEMBERED)).append(in_use)
            return in_use
        if kind in self._observed:
            return sum(self._observed[kind]) / len(self._observed[kind])
        derived = derived_capacity(
            prompt, output, batched_tokens=self._facts.max_batched_tokens, max_seqs=self._facts.max_num_seqs
        )
        return derived if derived > 0 else memory_bound


def _make(scale_up: float, bounds: Bounds, facts: Facts) -> Rival:
    settings = TokenSettings(scale_up=scale_up, scale_down=scale_up * _SCALE_DOWN / _SCALE_UP)
    return Followed(TokenAnalyzer(settings, facts).decide, bounds)


WVA_V2 = Contender(
    name="llm-d WVA V2",
    how="tokens in use and queued by 80 % of the KV cache or the compute bound observed; HPA of its chart",
    sources=(
        SOURCE + "engines/analyzers/saturation_v2/analyzer.go",
        SOURCE + "engines/pipeline/cost_aware_optimizer.go",
    ),
    interval_s=15.0,
    lag_s=None,
    knob=Knob(
        name="scale-up threshold",
        default=_SCALE_UP,
        values=(1.4, 1.3, 1.2, 1.1, 1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6, 0.55, 0.5, 0.4, 0.3, 0.2),
    ),
    make=_make,
)
