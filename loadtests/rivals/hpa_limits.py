"""How Kubernetes' HorizontalPodAutoscaler tames a recommendation: stabilization windows and rate policies.

Source: kubernetes/kubernetes, ``pkg/controller/podautoscaler/horizontal.go`` (``stabilizeRecommendation``,
``stabilizeRecommendationWithBehaviors``, ``convertDesiredReplicasWithRules``,
``calculateScaleUpLimitWithScalingRules``, ``calculateScaleDownLimitWithBehaviors``, ``getReplicasChangePerPeriod``).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from loadtests.rivals.seen import Bounds


class PolicyKind(StrEnum):
    """What ``ScalingPolicy.value`` counts."""

    PODS = "Pods"
    PERCENT = "Percent"


class Select(StrEnum):
    """Which of several policies binds: the one that allows the most, the least, or no change at all."""

    MAX = "Max"
    MIN = "Min"
    DISABLED = "Disabled"


@dataclass(frozen=True, slots=True)
class ScalingPolicy:
    """At most ``value`` pods, or percent of the pods at the period's begin, may change in ``period_s``."""

    kind: PolicyKind
    value: int
    period_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingRules:
    """One direction of ``spec.behavior``. ``window_s``: stabilization window. ``tolerance``: share of the target."""

    window_s: float
    policies: tuple[ScalingPolicy, ...]
    select: Select = Select.MAX
    tolerance: float = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Behavior:
    """``spec.behavior``; what a block leaves out has these values (autoscaling/v2 defaults)."""

    up: ScalingRules = ScalingRules(
        window_s=0,
        policies=(ScalingPolicy(PolicyKind.PERCENT, 100, 15), ScalingPolicy(PolicyKind.PODS, 4, 15)),
    )
    down: ScalingRules = ScalingRules(window_s=300, policies=(ScalingPolicy(PolicyKind.PERCENT, 100, 15),))


# --horizontal-pod-autoscaler-downscale-stabilization and -tolerance of kube-controller-manager.
DOWNSCALE_STABILIZATION_S = 300.0
TOLERANCE = 0.1


class HpaLimits:
    """The memory between two syncs: recent recommendations, and recent changes by direction.

    ``behavior`` None: an HPA without ``spec.behavior``: up to twice the replicas or 4 each sync, down to the largest
    recommendation of ``DOWNSCALE_STABILIZATION_S``.
    """

    def __init__(self, behavior: Behavior | None, bounds: Bounds) -> None:
        self._behavior = behavior
        self._bounds = bounds
        self._recommended: deque[tuple[float, int]] = deque()
        self._added: list[tuple[float, int]] = []
        self._removed: list[tuple[float, int]] = []

    @property
    def tolerances(self) -> tuple[float, float]:
        """Shares of the target below and above it within which nothing changes."""
        if self._behavior is None:
            return TOLERANCE, TOLERANCE
        return self._behavior.down.tolerance, self._behavior.up.tolerance

    def limited(self, now_s: float, current: int, recommended: int) -> int:
        """``recommended``, as far as the windows and policies let it be reached from ``current``, within the bounds."""
        if not self._recommended:
            # The first sync records the present replicas, so that a fresh HPA doesn't shrink for one window.
            self._recommended.append((now_s, current))
        if self._behavior is None:
            return self._plain(now_s, current, recommended)
        return self._by_rules(self._behavior, now_s, current, recommended)

    def _plain(self, now_s: float, current: int, recommended: int) -> int:
        self._recommended.append((now_s, recommended))
        self._forget(now_s - DOWNSCALE_STABILIZATION_S)
        stable = max(replicas for _, replicas in self._recommended)
        return self._bounds.within(min(stable, max(2 * current, 4)))

    def _by_rules(self, behavior: Behavior, now_s: float, current: int, recommended: int) -> int:
        up_since, down_since = now_s - behavior.up.window_s, now_s - behavior.down.window_s
        floor = min([n for at, n in self._recommended if at > up_since], default=recommended)
        ceiling = max([n for at, n in self._recommended if at > down_since], default=recommended)
        stable = min(max(current, min(floor, recommended)), max(ceiling, recommended))
        self._recommended.append((now_s, recommended))
        self._forget(now_s - max(behavior.up.window_s, behavior.down.window_s))
        wanted = self._bounds.within(self._rate_limited(behavior, now_s, current, stable))
        if wanted > current:
            self._added.append((now_s, wanted - current))
        elif wanted < current:
            self._removed.append((now_s, current - wanted))
        return wanted

    def _rate_limited(self, behavior: Behavior, now_s: float, current: int, wanted: int) -> int:
        longest = max([policy.period_s for policy in (*behavior.up.policies, *behavior.down.policies)], default=0.0)
        self._added = [event for event in self._added if event[0] > now_s - longest]
        self._removed = [event for event in self._removed if event[0] > now_s - longest]
        if wanted > current:
            return min(wanted, max(current, self._limit(behavior.up, now_s, current, direction=1)))
        if wanted < current:
            return max(wanted, min(current, self._limit(behavior.down, now_s, current, direction=-1)))
        return wanted

    def _limit(self, rules: ScalingRules, now_s: float, current: int, *, direction: int) -> int:
        if rules.select is Select.DISABLED:
            return current
        proposals = []
        for policy in rules.policies:
            since = now_s - policy.period_s
            start = current - _changed(self._added, since) + _changed(self._removed, since)
            if policy.kind is PolicyKind.PODS:
                proposals.append(start + direction * policy.value)
            elif direction > 0:
                # Rounded up, since else one pod could never become two.
                proposals.append(math.ceil(start * (1 + policy.value / 100)))
            else:
                proposals.append(math.floor(start * (1 - policy.value / 100)))
        # "Max" is the most change: the highest limit on the way up, the lowest on the way down.
        most: Callable[[Sequence[int]], int] = max if direction > 0 else min
        least: Callable[[Sequence[int]], int] = min if direction > 0 else max
        return most(proposals) if rules.select is Select.MAX else least(proposals)

    def _forget(self, cutoff_s: float) -> None:
        while self._recommended and self._recommended[0][0] < cutoff_s:
            self._recommended.popleft()


def _changed(events: Sequence[tuple[float, int]], since_s: float) -> int:
    return sum(replicas for at, replicas in events if at > since_s)
