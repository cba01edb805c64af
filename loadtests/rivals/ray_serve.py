"""Ray Serve's default autoscaling policy on ongoing requests.

Sources: ray-project/ray, ``python/ray/serve/autoscaling_policy.py`` (``_core_replica_queue_length_policy``,
``_apply_scaling_factors``, ``_apply_delay_logic``, cold start) and ``python/ray/serve/config.py`` (defaults: upscale
delay 30 s, downscale delay 600 s, factors 1.0, look-back 30 s, metrics pushed every 10 s).

Read in its favour: ``target_ongoing_requests`` is a share of the true concurrency at a replica's capacity (the
shipped 2 is far too low for a batching engine), and it decides right after each push, so what it sees is fresh. Its
loop of 0.1 s sees no news between two pushes; the delays are counted in seconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from autoscaler.domain.reading import Unknown
from loadtests.rivals.hpa import UTILISATION
from loadtests.rivals.seen import Bounds, Contender, Facts, Rival, Seen

PUSH_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RaySettings:
    """``target_ongoing``: requests a replica. ``downscale_to_zero_delay_s`` None: as ``downscale_delay_s``."""

    target_ongoing: float
    upscale_delay_s: float = 30.0
    downscale_delay_s: float = 600.0
    downscale_to_zero_delay_s: float | None = None
    upscaling_factor: float = 1.0
    downscaling_factor: float = 1.0
    look_back_s: float = 30.0


def scaled(wanted: float, current: int, settings: RaySettings) -> int:
    """``_apply_scaling_factors``: the step from ``current`` to ``wanted``, stretched by its direction's factor."""
    delta = wanted - current
    factor = settings.upscaling_factor if delta > 0 else settings.downscaling_factor
    replicas = math.ceil(current + factor * delta - 1e-9)
    stuck = math.ceil(wanted) < current and replicas == current
    return replicas - 1 if stuck else replicas


class RayServe:
    """One deployment's policy. A direction must be wanted for its delay, without a break, before it is taken."""

    def __init__(self, settings: RaySettings, bounds: Bounds) -> None:
        self._settings = settings
        self._bounds = bounds
        self._direction = 0
        self._since_s = 0.0

    def desired(self, seen: Seen) -> int:
        """One decision."""
        total = seen.in_flight(self._settings.look_back_s)
        target = seen.desired
        if isinstance(total, Unknown):
            return self._bounds.within(target)
        if seen.ready == 0:
            # Cold start: without delay.
            awake = max(math.ceil(self._settings.upscaling_factor), target)
            return self._bounds.within(awake if total > 0 else target)
        wanted = scaled(total / self._settings.target_ongoing, seen.ready, self._settings)
        return self._delayed(seen.now_s, target, self._bounds.within(wanted))

    def _delayed(self, now_s: float, target: int, wanted: int) -> int:
        direction = (wanted > target) - (wanted < target)
        if direction != self._direction:
            self._direction, self._since_s = direction, now_s
        if direction == 0 or now_s - self._since_s < self._delay_s(target, direction):
            return self._bounds.within(target)
        self._direction = 0
        # Zero is reached from one replica only.
        return wanted if direction > 0 or target == 1 else max(1, wanted)

    def _delay_s(self, target: int, direction: int) -> float:
        settings = self._settings
        if direction > 0:
            return settings.upscale_delay_s
        if target == 1 and settings.downscale_to_zero_delay_s is not None:
            return settings.downscale_to_zero_delay_s
        return settings.downscale_delay_s


def _make(share: float, bounds: Bounds, facts: Facts) -> Rival:
    return RayServe(RaySettings(target_ongoing=share * facts.concurrency), bounds)


RAY_SERVE = Contender(
    name="Ray Serve",
    how="ongoing requests by a share of those at a replica's capacity, after 30 s up and 600 s down",
    sources=("ray-project/ray python/ray/serve/autoscaling_policy.py", "ray-project/ray python/ray/serve/config.py"),
    interval_s=PUSH_S,
    lag_s=0.0,
    knob=UTILISATION,
    make=_make,
)
