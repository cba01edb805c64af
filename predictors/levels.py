"""Levels: mean rates over windows that end now, and the largest one-minute rates of longer windows."""

from __future__ import annotations

import math

import numpy as np

from autoscaler.domain.reading import Unknown, UnknownReason
from predictors.timeline import BIN_S, FULL_SHARE, TARGET_BINS, Floats, Timeline

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
_PEAK_MINUTES = tuple(int(window_s / 60.0) for window_s in PEAK_WINDOWS_S)


def to_log(rate_rps: Floats) -> Floats:
    """The scale on which all forecasters work: log(rate + floor), finite at zero and a ratio well above it."""
    return np.log(rate_rps + FLOOR_RPS)


def from_log(log_rate: float) -> float:
    """The rate again; zero where less than half a request is left in the span that is forecast."""
    rate_rps = math.exp(log_rate) - FLOOR_RPS
    return 0.0 if rate_rps < FLOOR_RPS else rate_rps


def levels_rps(timeline: Timeline) -> Floats:
    """Mean rate over the known part of each of ``LEVEL_WINDOWS_S`` up to ``end_s``; NaN where a window is not full.

    A window is full when four fifths of it are known: one lost scrape must not silence the long windows for half an
    hour. The shortest have too few bins to be forgiven any.
    """
    requests, bins = _window_sums(timeline)
    return np.where(bins >= _FULL_BINS, np.maximum(requests, 0.0) / np.maximum(bins, _FULL_BINS), np.nan)


def too_short(timeline: Timeline, window_s: float) -> Unknown:
    """Why the level of one of ``LEVEL_WINDOWS_S`` is NaN: how much of it is still to be measured."""
    window = LEVEL_WINDOWS_S.index(window_s)
    missing_s = FULL_SHARE * window_s - BIN_S * float(_window_sums(timeline)[1][window])
    return Unknown(UnknownReason.WARMING_UP, f"needs {max(1, math.ceil(missing_s))} s more")


def peaks_rps(timeline: Timeline) -> Floats:
    """The largest one-minute rate of each of ``PEAK_WINDOWS_S``; NaN where less than four fifths of one are known."""
    unknown = np.isnan(timeline.minutes)
    return np.array(
        [
            np.fmax.reduce(timeline.minutes[-minutes:])
            if minutes - np.count_nonzero(unknown[-minutes:]) >= FULL_SHARE * minutes
            else np.nan
            for minutes in _PEAK_MINUTES
        ]
    )


def largest_rps(timeline: Timeline) -> float:
    """The largest rate of the minutes of the last day and the five minutes of the last week; zero if none is known."""
    return float(np.fmax(np.fmax(np.fmax.reduce(timeline.minutes), np.fmax.reduce(timeline.fives)), 0.0))


def ceiling_log(past_rps: float, present_rps: float) -> float:
    """The log rate that no forecast exceeds: twice the larger of both, ``present_rps`` counting only where known."""
    return math.log(LARGEST_GROWTH * float(np.fmax(past_rps, present_rps)) + FLOOR_RPS)


def _window_sums(timeline: Timeline) -> tuple[Floats, Floats]:
    """Requests (in units of a rate over one bin) and known bins in each of ``LEVEL_WINDOWS_S`` up to ``end_s``."""
    rates = timeline.bins[::-1]
    passed = timeline.open_s / BIN_S
    known, known_oldest = _LEVEL_BINS, _ALL_KNOWN
    total = rates.cumsum()
    if math.isnan(total[-1]):
        are_known = ~np.isnan(rates)
        rates = np.where(are_known, rates, 0.0)
        total = rates.cumsum()
        known, known_oldest = are_known.cumsum().take(_OLDEST), are_known.take(_OLDEST)
    # A window that ends inside the open bin takes the measured part of it and gives up as much of its oldest bin.
    requests = timeline.open_requests / BIN_S + total.take(_OLDEST) - passed * rates.take(_OLDEST)
    bins = timeline.open_known_s / BIN_S + known - passed * known_oldest
    return requests, bins
