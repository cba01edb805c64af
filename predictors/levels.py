"""Levels: mean rates over windows that end now, and the largest one-minute rates of longer windows."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from autoscaler.domain.reading import Unknown, UnknownReason
from predictors.stacking import stacked
from predictors.timeline import BIN_S, FULL_SHARE, MINUTES, TARGET_BINS, Floats, Timeline

LEVEL_WINDOWS_S = (15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)
PEAK_WINDOWS_S = (600.0, 1800.0, 7200.0, 21600.0, 86400.0)

# Half a request in the span that is forecast: below it a logarithm of the rate tells only the luck of the draw.
FLOOR_RPS = 0.5 / (TARGET_BINS * BIN_S)

# No forecast exceeds this many times the largest rate known: quantiles of ratios explode where bursts rise from next
# to nothing (to thousands of times the traffic on the code trace of Azure 2023).
LARGEST_GROWTH = 2.0

_LEVEL_BINS = (np.array(LEVEL_WINDOWS_S) / BIN_S).astype(int)
_FULL_BINS = FULL_SHARE * _LEVEL_BINS
_OLDEST = _LEVEL_BINS - 1
_ALL_KNOWN = np.ones(len(LEVEL_WINDOWS_S))
_PEAK_MINUTES = np.array(PEAK_WINDOWS_S) / 60.0
_PEAK_STARTS = (MINUTES - _PEAK_MINUTES[::-1]).astype(int)


def to_log(rate_rps: Floats) -> Floats:
    """The scale on which all forecasters work: log(rate + floor), finite at zero and a ratio well above it."""
    return np.log(rate_rps + FLOOR_RPS)


def from_log(log_rate: float) -> float:
    """The rate again; zero where less than half a request is left in the span that is forecast."""
    rate_rps = math.exp(log_rate) - FLOOR_RPS
    return 0.0 if rate_rps < FLOOR_RPS else rate_rps


def levels_rps(timelines: Sequence[Timeline]) -> Floats:
    """Mean rate over the known part of each of ``LEVEL_WINDOWS_S`` up to ``end_s``; NaN where a window is not full.

    A row for each timeline. A window is full when four fifths of it are known: one lost scrape must not silence the
    long windows for half an hour. The shortest have too few bins to be forgiven any.
    """
    requests, bins = _window_sums(timelines)
    return np.where(bins >= _FULL_BINS, np.maximum(requests, 0.0) / np.maximum(bins, _FULL_BINS), np.nan)


def too_short(timeline: Timeline, window_s: float) -> Unknown:
    """Why the level of one of ``LEVEL_WINDOWS_S`` is NaN: how much of it is still to be measured."""
    window = LEVEL_WINDOWS_S.index(window_s)
    missing_s = FULL_SHARE * window_s - BIN_S * float(_window_sums([timeline])[1][0, window])
    return Unknown(UnknownReason.WARMING_UP, f"needs {max(1, math.ceil(missing_s))} s more")


def peaks_rps(timelines: Sequence[Timeline]) -> Floats:
    """The largest one-minute rate of each of ``PEAK_WINDOWS_S``; NaN where less than four fifths of one are known.

    A row for each timeline.
    """
    minutes = stacked([timeline.minutes for timeline in timelines])
    # From the newest minutes to the oldest: each longer window is the one before it and what lies further back.
    known = np.add.reduceat(~np.isnan(minutes), _PEAK_STARTS, axis=1, dtype=np.int64)[:, ::-1].cumsum(axis=1)
    largest = np.fmax.accumulate(np.fmax.reduceat(minutes, _PEAK_STARTS, axis=1)[:, ::-1], axis=1)
    return np.where(known >= FULL_SHARE * _PEAK_MINUTES, largest.astype(np.float64), np.nan)


def largest_rps(timelines: Sequence[Timeline]) -> Floats:
    """The largest rate of the minutes of the last day and the five minutes of the last week; zero if none is known."""
    of_day = np.fmax.reduce(stacked([timeline.minutes for timeline in timelines]), axis=1)
    of_week = np.fmax.reduce(stacked([timeline.fives for timeline in timelines]), axis=1)
    return np.asarray(np.fmax(np.fmax(of_day, of_week), 0.0), dtype=np.float64)


def ceiling_log(past_rps: Floats, present_rps: Floats) -> Floats:
    """The log rate that no forecast exceeds: twice the larger of both, ``present_rps`` counting only where known."""
    return np.log(LARGEST_GROWTH * np.fmax(past_rps, present_rps) + FLOOR_RPS)


def _window_sums(timelines: Sequence[Timeline]) -> tuple[Floats, Floats]:
    """Requests (in units of a rate over one bin) and known bins in each of ``LEVEL_WINDOWS_S`` up to ``end_s``."""
    rates = stacked([timeline.bins for timeline in timelines])[:, ::-1]
    begun = np.array([(each.open_s, each.open_requests, each.open_known_s) for each in timelines]) / BIN_S
    passed, open_requests, open_known = begun[:, :1], begun[:, 1:2], begun[:, 2:]
    known, known_oldest = _LEVEL_BINS, _ALL_KNOWN
    total = rates.cumsum(axis=1)
    if math.isnan(np.add.reduce(total[:, -1])):
        are_known = ~np.isnan(rates)
        rates = np.where(are_known, rates, 0.0)
        total = rates.cumsum(axis=1)
        known, known_oldest = are_known.cumsum(axis=1).take(_OLDEST, axis=1), are_known.take(_OLDEST, axis=1)
    # A window that ends inside the open bin takes the measured part of it and gives up as much of its oldest bin.
    requests = open_requests + total.take(_OLDEST, axis=1) - passed * rates.take(_OLDEST, axis=1)
    bins = open_known + known - passed * known_oldest
    return requests, bins
