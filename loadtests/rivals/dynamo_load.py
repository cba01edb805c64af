"""NVIDIA Dynamo's planner, load mode: one replica more or less by the engines' present load.

Sources: ai-dynamo/dynamo, ``components/src/dynamo/planner/core/load_scaling.py`` (``_agg_easy_decision`` and its
thresholds, ``_scaling_in_progress``, ``_scale_decision``) and ``config/defaults.py`` (interval 5 s, target
"throughput", at least one replica). It gets the engines' figures at each step, so what it sees is fresh.

This is the default target, for engines that both prefill and decode: KV cache asked for (running and queued) above
its capacity in any engine adds one, below 60 % in every engine takes one away; nothing while a replica starts. The
knob is the upper threshold; the lower one keeps its default ratio to it.
"""

from __future__ import annotations

import math

from autoscaler.domain.reading import Unknown
from loadtests.rivals.seen import Bounds, Contender, Facts, Knob, Rival, Seen

INTERVAL_S = 5.0
_UP, _DOWN = 1.0, 0.6


def load_target(asked: list[float], *, replicas: int, up: float, down: float) -> int:
    """Replicas wanted. ``asked``: of each engine, KV cache running and queued requests ask for, 1 = all of it."""
    if not asked:
        return replicas
    if max(asked) > up:
        return replicas + 1
    if replicas > 1 and max(asked) < down:
        return replicas - 1
    return replicas


class DynamoLoad:
    """One planner."""

    def __init__(self, up: float, bounds: Bounds, facts: Facts) -> None:
        self._up, self._down = up, up * _DOWN / _UP
        self._bounds = bounds
        self._kv_tokens = facts.kv_capacity_tokens

    def desired(self, seen: Seen) -> int:
        """One interval. While replicas start or leave, and without figures, nothing changes."""
        prompt = seen.prompt_tokens(INTERVAL_S * 60)
        in_progress = seen.starting > 0 or seen.ready != seen.desired
        if in_progress or isinstance(prompt, Unknown) or isinstance(self._kv_tokens, Unknown):
            return self._bounds.within(seen.desired)
        each = seen.per_replica(0.0)
        asked = (each.kv_fraction + each.waiting * prompt / self._kv_tokens).tolist()
        known = [share for share in asked if not math.isnan(share)]
        wanted = load_target(known, replicas=seen.ready, up=self._up, down=self._down)
        return self._bounds.within(max(1, wanted))


def _make(up: float, bounds: Bounds, facts: Facts) -> Rival:
    return DynamoLoad(up, bounds, facts)


DYNAMO_LOAD = Contender(
    name="Dynamo, load",
    how="one replica up or down by the KV cache that running and queued requests ask for, every 5 s",
    sources=("ai-dynamo/dynamo components/src/dynamo/planner/core/load_scaling.py",),
    interval_s=INTERVAL_S,
    lag_s=0.0,
    knob=Knob(
        name="KV cache asked for",
        default=_UP,
        values=(1.5, 1.2, 1.1, 1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6, 0.55, 0.5, 0.45, 0.4, 0.3, 0.2),
    ),
    make=_make,
)
