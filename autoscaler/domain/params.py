"""The constants of the policy, in one place, with where they come from."""

from __future__ import annotations

import math
from dataclasses import dataclass

from autoscaler.domain.service import Service


@dataclass(frozen=True, slots=True, kw_only=True)
class Params:
    """Constants of every service's decision (docs/decision.md has the measurements behind the defaults).

    ``interval_s`` between ticks. ``short_window_s``, ``stable_window_s``: of the measured rates.
    ``backlog_drain_s``: time in which waiting requests should be worked off. The requirement's maximum over
    ``down_window_part`` of the lead time, at most ``down_window_s`` (also until a start was measured) and at least
    ``short_window_s``, bounds a shrink; over ``down_window_without_forecast_s`` where there is no forecast.
    ``initial_quantile``, ``min_quantile``, ``max_quantile``, ``tuning_gain``, ``debt_gain``, ``tuning_reserve``: the
    self-tuned forecast quantile; ``kept_headroom``: replicas are kept up to so much more of it (policy/tuning.py).
    ``soft_cap_margin``: forecasts may ask for this times the largest need measured in seven days, no more.
    ``coverage_grace_s``: a replica without a page this long counts as loaded and no longer blocks its peers' shrink.
    ``stuck_after_s``: work but no progress this long means stuck. ``length_half_life_s``: of request lengths.
    ``turn_s``: how long a service may wait for devices held by one of equal priority.
    """

    interval_s: float = 15.0
    forecasting: bool = True
    short_window_s: float = 15.0
    stable_window_s: float = 60.0
    backlog_drain_s: float = 60.0
    down_window_part: float = 0.2
    down_window_s: float = 60.0
    down_window_without_forecast_s: float = 300.0
    initial_quantile: float = 0.92
    min_quantile: float = 0.3
    max_quantile: float = 0.998
    tuning_gain: float = 0.7
    debt_gain: float = 0.4
    tuning_reserve: float = 0.08
    kept_headroom: float = 1.5
    soft_cap_margin: float = 1.5
    coverage_grace_s: float = 300.0
    stuck_after_s: float = 60.0
    length_half_life_s: float = 600.0
    turn_s: float = 120.0
    kept_starts: int = 32

    def __post_init__(self) -> None:
        if not (math.isfinite(self.interval_s) and self.interval_s > 0):
            raise ValueError(f"the interval must be positive, got {self.interval_s}")

    @property
    def stale_after_s(self) -> float:
        """A reading older than this is no longer fresh."""
        return max(3 * self.interval_s, 10.0)

    @property
    def frozen_after_s(self) -> float:
        """A page whose heartbeat stands still for so long is an old one, served again and again.

        CPU time is told in hundredths of a second, and an idle engine spends a fifth to a half of one on each page: it
        moves within a few of them, and within a dozen for sure.
        """
        return max(12 * self.interval_s, 60.0)

    @property
    def min_theta(self) -> float:
        """Lower end of the tuned headroom."""
        return -math.log(1 - self.min_quantile)

    @property
    def max_theta(self) -> float:
        """Upper end of the tuned headroom."""
        return -math.log(1 - self.max_quantile)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plans:
    """What the loop works on; exchanged as a whole when the configuration changes."""

    services: tuple[Service, ...]
    params: Params
