"""AIBrix' two autoscalers of its own: APA and its variant of Knative's KPA.

Sources: vllm-project/aibrix, ``pkg/controller/podautoscaler/algorithm/apa.go`` and ``algorithm/kpa.go`` (formulas),
``autoscaler.go`` (``applyPendingReplicaGuard``), ``context/context.go`` (defaults: rates 2 up and down, tolerances
0.1, panic threshold 2.0, cooldown 0 s up and 300 s down, windows 180 s and 60 s), ``podautoscaler_controller.go``
(resync 10 s, ``stabilizeRecommendation``). It scrapes the pods itself, so it sees the present.

Read in its favour: the metric is requests in flight by a share of those at a replica's true capacity, held ones
included; the guard for pending replicas, which older releases lack, is on (without it replicas that still load are
ordered again and again); the 300 s cooldown holds the largest recent recommendation, as documented, although the code
takes the smallest, which is no cooldown at all (``cooldown_keeps_largest=False``). The KPA is the documented one;
``as_released`` has its two faults: the mean over pods taken for their total, and no memory of the panic's height.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from autoscaler.domain.reading import Measured, Unknown
from loadtests.rivals.hpa import UTILISATION
from loadtests.rivals.knative import Kpa, KpaSettings
from loadtests.rivals.seen import Bounds, Contender, Facts, Rival, Seen

RESYNC_S = 10.0
STABLE_WINDOW_S = 180.0
PANIC_WINDOW_S = 60.0
_SOURCE = "vllm-project/aibrix pkg/controller/podautoscaler/"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApaSettings:
    """``target``: metric a pod. Rates: largest factor in one decision. Tolerances: shares of the target.

    ``window_s``: of the metric; 0: its present value, which APA uses directly.
    """

    target: float
    window_s: float = 0.0
    up_tolerance: float = 0.1
    down_tolerance: float = 0.1
    max_up_rate: float = 2.0
    max_down_rate: float = 2.0
    cooldown_down_s: float = 300.0
    cooldown_keeps_largest: bool = True


def apa_replicas(current: int, per_pod: float, settings: ApaSettings) -> int:
    """``computeTargetReplicas``: ``current`` pods that each use ``per_pod``."""
    ratio = per_pod / settings.target
    wanted = math.ceil(current * ratio)
    if ratio > 1 + settings.up_tolerance:
        return min(wanted, math.ceil(settings.max_up_rate * current))
    if ratio < 1 - settings.down_tolerance:
        return max(wanted, math.floor(current / settings.max_down_rate))
    return current


def with_pending(wanted: int, per_pod: float, *, current: int, ready: int, target: float) -> int:
    """``applyPendingReplicaGuard``: pending pods count as idle on the way up, as on target on the way down."""
    pending = current - min(ready, current)
    if pending <= 0 or wanted == current:
        return wanted
    used = per_pod * (current - pending)
    if wanted > current:
        return min(wanted, max(current, math.ceil(used / target)))
    return max(wanted, min(current, math.ceil((used + target * pending) / target)))


class Apa:
    """One PodAutoscaler of strategy APA."""

    def __init__(self, settings: ApaSettings, bounds: Bounds) -> None:
        self._settings = settings
        self._bounds = bounds
        self._recent: deque[tuple[float, int]] = deque()

    def desired(self, seen: Seen) -> int:
        """One resync. Without a metric nothing changes."""
        settings, current = self._settings, seen.desired
        total = seen.in_flight(settings.window_s)
        if isinstance(total, Unknown) or not seen.ready:
            return self._bounds.within(current)
        per_pod = total / seen.ready
        wanted = self._bounds.within(apa_replicas(current, per_pod, settings))
        wanted = with_pending(wanted, per_pod, current=current, ready=seen.ready, target=settings.target)
        return self._bounds.within(self._cooled(seen.now_s, current, wanted))

    def _cooled(self, now_s: float, current: int, wanted: int) -> int:
        self._recent.append((now_s, wanted))
        while self._recent[0][0] <= now_s - self._settings.cooldown_down_s:
            self._recent.popleft()
        if wanted >= current:
            return wanted
        recent = [replicas for _, replicas in self._recent]
        return min(current, max(recent) if self._settings.cooldown_keeps_largest else min(recent))


def _mean_over_pods(seen: Seen, window_s: float) -> Measured:
    total = seen.in_flight(window_s)
    return total if isinstance(total, Unknown) else total / max(1, seen.ready)


def aibrix_kpa(target: float, bounds: Bounds, *, as_released: bool = False) -> Rival:
    """One PodAutoscaler of strategy KPA with ``target`` requests in flight a pod."""
    settings = KpaSettings(
        target=target,
        stable_window_s=STABLE_WINDOW_S,
        panic_window_s=PANIC_WINDOW_S,
        max_up_rate=2.0,
        scale_down_delay_s=300.0,
        ratchet=not as_released,
    )
    return Kpa(settings, bounds, _mean_over_pods) if as_released else Kpa(settings, bounds)


def _apa(share: float, bounds: Bounds, facts: Facts) -> Rival:
    return Apa(ApaSettings(target=share * facts.concurrency), bounds)


def _kpa(share: float, bounds: Bounds, facts: Facts) -> Rival:
    return aibrix_kpa(share * facts.concurrency, bounds)


AIBRIX_APA = Contender(
    name="AIBrix APA",
    how="mean requests in flight a pod by a share of those at a replica's capacity, at most doubled or halved",
    sources=(_SOURCE + "algorithm/apa.go", _SOURCE + "autoscaler.go", _SOURCE + "context/context.go"),
    interval_s=RESYNC_S,
    lag_s=0.0,
    knob=UTILISATION,
    make=_apa,
)
AIBRIX_KPA = Contender(
    name="AIBrix KPA",
    how="Knative's formula over 180 s and 60 s, as documented rather than as released",
    sources=(_SOURCE + "algorithm/kpa.go", _SOURCE + "context/context.go"),
    interval_s=RESYNC_S,
    lag_s=0.0,
    knob=UTILISATION,
    make=_kpa,
)
