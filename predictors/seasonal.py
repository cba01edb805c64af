"""What the same time of the day, and of the week, was like."""

from __future__ import annotations

import math

import numpy as np

from autoscaler.domain.reading import Unknown, UnknownReason
from predictors.conformal import ConformalForecaster
from predictors.levels import FLOOR_RPS
from predictors.timeline import BIN_S, TARGET_BINS, Timeline

FIVE_S = 300.0
DAY_S = 86400.0
PERIODS_S = (DAY_S, 7 * DAY_S)


def past_log(timeline: Timeline, center_s: float) -> float:
    """Log of the five-minute mean rate around a moment of the past week, linear between grid points; NaN if unknown."""
    last_center_s = timeline.end_s // FIVE_S * FIVE_S - FIVE_S / 2
    newest = len(timeline.fives) - 1
    position = newest + (center_s - last_center_s) / FIVE_S
    if not 0 <= position <= newest:
        return math.nan
    below = min(int(position), newest - 1)
    part = position - below
    rate_rps = (1.0 - part) * float(timeline.fives[below]) + part * float(timeline.fives[below + 1])
    return math.log(rate_rps + FLOOR_RPS)


def target_center_s(timeline: Timeline, horizon: int) -> float:
    """The middle of the span that is forecast."""
    return timeline.end_s + (horizon + TARGET_BINS / 2) * BIN_S


def seasonal_logs(timeline: Timeline, level_log: float, horizon: int) -> list[float]:
    """The present five-minute level moved as it moved one day, and one week, ago.

    Only the change is taken from the past: a plain copy of yesterday misses by the whole drift of the level.
    """
    now_s, target_s = timeline.end_s - FIVE_S / 2, target_center_s(timeline, horizon)
    return [
        level_log + past_log(timeline, target_s - period_s) - past_log(timeline, now_s - period_s)
        for period_s in PERIODS_S
    ]


class SeasonalNaive(ConformalForecaster):
    """The rate of the same time yesterday."""

    model = "seasonal-naive"

    def log_base(self, timeline: Timeline, horizon: int) -> float:
        """Log rate one day before the span that is forecast."""
        return past_log(timeline, target_center_s(timeline, horizon) - DAY_S)

    def warming_up(self, timeline: Timeline) -> Unknown:
        """How much of a day is missing, if it is the first."""
        oldest = int(np.argmax(~np.isnan(timeline.fives)))
        measured_s = (len(timeline.fives) - oldest) * FIVE_S if not math.isnan(timeline.fives[oldest]) else 0.0
        if measured_s > DAY_S:
            return Unknown(UnknownReason.WARMING_UP, "the same time yesterday was not measured")
        return Unknown(UnknownReason.WARMING_UP, f"needs {DAY_S - measured_s:.0f} s more")
