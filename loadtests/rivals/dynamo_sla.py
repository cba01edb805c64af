"""NVIDIA Dynamo's planner, load mode with latency targets: one replica more or less by estimated TTFT and ITL.

Sources: ai-dynamo/dynamo, ``components/src/dynamo/planner/core/load_scaling.py`` (``_advance_load_agg``,
``_agg_prefill_scaling``, ``_agg_decode_scaling``, ``_scale_decision``), ``core/perf_model/agg.py`` (step time
regressed on prefill and decode tokens) and ``config/defaults.py`` (interval 5 s, at least 5 observations, at most 64
in 16 buckets, sensitivity 80 %).

It adds one when every engine's estimate of TTFT, or of ITL, exceeds its target, and takes one away when with one less
both would keep 80 % of theirs in every engine and the KV cache would hold. For engines that tell their time between
tokens; on a fluid fleet, which has no tokens, it never has enough observations. Read in its favour: the targets are
those that are scored (its own defaults are 500 ms and 50 ms), times the knob; a step's time is the mean time between
tokens.
"""

from __future__ import annotations

import math
from collections import deque

import numpy as np

from autoscaler.domain.reading import Unknown
from loadtests.rivals.dynamo_load import INTERVAL_S
from loadtests.rivals.seen import Bounds, Contender, Facts, Knob, Rival, Seen

_SENSITIVITY = 0.8
_LEAST_OBSERVATIONS = 5
_BUCKETS, _IN_A_BUCKET = 16, 4
_LENGTH_WINDOW_S = 300.0


class StepTimes:
    """Step time as a linear function of the tokens prefilled in a step and of the decode tokens held in KV cache."""

    def __init__(self, kv_tokens: float) -> None:
        self._kv_tokens = kv_tokens
        self._kept: dict[int, deque[tuple[float, float, float]]] = {}
        self._fitted = np.zeros(3)

    def learn(self, prefill: float, held: float, step_s: float) -> None:
        """One observation; each part of the KV cache's range keeps its newest."""
        bucket = min(_BUCKETS - 1, int(_BUCKETS * held / self._kv_tokens))
        self._kept.setdefault(bucket, deque(maxlen=_IN_A_BUCKET)).append((prefill, held, step_s))
        rows = np.array([row for kept in self._kept.values() for row in kept])
        terms = np.column_stack([np.ones(len(rows)), rows[:, :2]])
        self._fitted = np.linalg.lstsq(terms, rows[:, 2], rcond=None)[0]

    @property
    def ready(self) -> bool:
        """Whether enough has been observed."""
        return sum(map(len, self._kept.values())) >= _LEAST_OBSERVATIONS

    def step_s(self, prefill: float, held: float) -> float:
        """Time of a step."""
        return max(1e-6, float(self._fitted @ (1.0, prefill, held)))

    def ttft_s(self, queued: float, prompt: float, held: float, *, batched_tokens: int) -> float:
        """Until a new prompt's first token, behind ``queued`` tokens, in chunks of at most ``batched_tokens``."""
        whole, rest = divmod(queued + prompt, batched_tokens)
        last = self.step_s(rest, held) if rest > 0 else 0.0
        return whole * self.step_s(float(batched_tokens), held) + last


class DynamoSla:
    """One planner with targets for TTFT and ITL, in seconds."""

    def __init__(self, share: float, bounds: Bounds, facts: Facts) -> None:
        self._ttft_s = share * facts.ttft_slo_s
        self._itl_s = math.inf if isinstance(facts.itl_slo_s, Unknown) else share * facts.itl_slo_s
        kv_tokens = facts.kv_capacity_tokens
        self._kv_tokens = 0.0 if isinstance(kv_tokens, Unknown) else kv_tokens
        self._batched_tokens = facts.max_batched_tokens
        self._bounds = bounds
        self._times = StepTimes(self._kv_tokens)
        self._prefill = 0.0

    def desired(self, seen: Seen) -> int:
        """One interval. While replicas start or leave it only observes."""
        prompt = seen.prompt_tokens(_LENGTH_WINDOW_S)
        engines = self._engines(seen)
        if isinstance(prompt, Unknown) or not engines:
            return self._bounds.within(seen.desired)
        self._observe(seen, engines, prompt)
        if not self._times.ready or seen.starting > 0 or seen.ready != seen.desired:
            return self._bounds.within(seen.desired)
        replicas = seen.ready
        if self._late(engines, prompt):
            return self._bounds.within(replicas + 1)
        if replicas > 1 and all(self._spare(held, queued, prompt, replicas) for held, queued in engines):
            return self._bounds.within(replicas - 1)
        return self._bounds.within(replicas)

    def _engines(self, seen: Seen) -> list[tuple[float, float]]:
        """Of each engine with metrics, tokens held in KV cache and requests queued."""
        each = seen.per_replica(0.0)
        pairs = zip((each.kv_fraction * self._kv_tokens).tolist(), each.waiting.tolist(), strict=True)
        return [pair for pair in pairs if self._kv_tokens > 0 and not math.isnan(sum(pair))]

    def _observe(self, seen: Seen, engines: list[tuple[float, float]], prompt: float) -> None:
        itl, rate = seen.itl_s(INTERVAL_S), seen.rate_rps(INTERVAL_S)
        if isinstance(itl, Unknown) or isinstance(rate, Unknown):
            return
        # Tokens prefilled in a step, were all engines alike.
        self._prefill = min(float(self._batched_tokens), rate / len(engines) * prompt * itl)
        self._times.learn(self._prefill, sum(held for held, _ in engines) / len(engines), itl)

    def _late(self, engines: list[tuple[float, float]], prompt: float) -> bool:
        waits = [self._wait_s(queued * prompt, prompt, held) for held, queued in engines]
        gaps = [self._times.step_s(self._prefill, held) for held, _ in engines]
        return min(waits) > self._ttft_s or min(gaps) > self._itl_s

    def _spare(self, held: float, queued: float, prompt: float, replicas: int) -> bool:
        """Whether this engine could take its part of another's load."""
        grown = replicas / (replicas - 1)
        held, waiting = held * grown, queued * prompt * grown
        if held + waiting >= self._kv_tokens:
            return False
        own_s = self._wait_s(0.0, prompt, held)
        budget_s = (self._ttft_s - own_s) * _SENSITIVITY
        queue_s = self._wait_s(waiting, prompt, held) - own_s
        gap_s = self._times.step_s(self._prefill, held + waiting)
        return budget_s > 0 and queue_s < budget_s and gap_s < self._itl_s * _SENSITIVITY

    def _wait_s(self, queued: float, prompt: float, held: float) -> float:
        return self._times.ttft_s(queued, prompt, held, batched_tokens=self._batched_tokens)


def _make(share: float, bounds: Bounds, facts: Facts) -> Rival:
    return DynamoSla(share, bounds, facts)


DYNAMO_SLA = Contender(
    name="Dynamo, load by latency",
    how="one replica up or down by TTFT and ITL estimated from regressed step times, every 5 s",
    sources=(
        "ai-dynamo/dynamo components/src/dynamo/planner/core/load_scaling.py",
        "ai-dynamo/dynamo components/src/dynamo/planner/core/perf_model/agg.py",
    ),
    interval_s=INTERVAL_S,
    lag_s=0.0,
    knob=Knob(
        name="latency targets, share of the SLO",
        default=1.0,
        values=(1.5, 1.2, 1.1, 1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6, 0.55, 0.5, 0.4, 0.3),
    ),
    make=_make,
)
