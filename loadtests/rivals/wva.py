"""How llm-d's Workload Variant Autoscaler (WVA) is run: its own decision every 60 s, followed by an HPA.

Source: llm-d/llm-d-workload-variant-autoscaler, ``internal/engines/saturation/engine.go`` (interval
``GLOBAL_OPT_INTERVAL`` 60 s; without metrics the replicas stay) and its chart's HPA (external metric
``wva_desired_replicas``, AverageValue 1, stabilization 240 s both ways, 10 pods in 150 s).

Read in its favour: the HPA's tolerance is zero. With the usual 0.1 an HPA that follows "desired replicas" ignores a
step of one from ten replicas on.
"""

from __future__ import annotations

from collections.abc import Callable

from loadtests.rivals.hpa_limits import Behavior, HpaLimits, PolicyKind, ScalingPolicy, ScalingRules
from loadtests.rivals.seen import Bounds, Seen

INTERVAL_S = 60.0
SOURCE = "llm-d/llm-d-workload-variant-autoscaler internal/"
_RULES = ScalingRules(window_s=240, policies=(ScalingPolicy(PolicyKind.PODS, 10, 150),), tolerance=0.0)
CHART = Behavior(up=_RULES, down=_RULES)


class Followed:
    """``decide`` every ``INTERVAL_S``, the HPA at each call. ``decide`` gets what is seen and its own last answer."""

    def __init__(self, decide: Callable[[Seen, int], int], bounds: Bounds, behavior: Behavior = CHART) -> None:
        self._decide = decide
        self._bounds = bounds
        self._limits = HpaLimits(behavior, bounds)
        self._wanted: int | None = None
        self._decided_at_s = 0.0

    def desired(self, seen: Seen) -> int:
        """One sync of the HPA."""
        if self._wanted is None or seen.now_s - self._decided_at_s >= INTERVAL_S:
            last = seen.desired if self._wanted is None else self._wanted
            self._wanted, self._decided_at_s = self._bounds.within(self._decide(seen, last)), seen.now_s
        return self._limits.limited(seen.now_s, seen.desired, self._wanted)
