"""Persistence: the demand to come is the present demand, give or take what that has missed by so far."""

from __future__ import annotations

from autoscaler.domain.reading import Unknown
from predictors.conformal import ConformalForecaster
from predictors.levels import LEVEL_WINDOWS_S, levels_rps, to_log, too_short
from predictors.timeline import Timeline

LAST_VALUE_S = 60.0  # a shorter "last value" is mostly the luck of few requests


class LastValue(ConformalForecaster):
    """The rate of the last minute."""

    model = "last-value"

    def log_base(self, timeline: Timeline, horizon: int) -> float:
        """Log rate of the last minute, whatever the horizon."""
        return float(to_log(levels_rps([timeline]))[0, LEVEL_WINDOWS_S.index(LAST_VALUE_S)])

    def warming_up(self, timeline: Timeline) -> Unknown:
        """How much of a minute is missing."""
        return too_short(timeline, LAST_VALUE_S)
