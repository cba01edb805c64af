"""Irregular measurements put on a fixed grid: rates of 15-second bins, of minutes and of five minutes.

All forecasters learn at bin boundaries, so a control interval of 1 s or 60 s teaches them the same. Time that nobody
measured is NaN on every grid: it is unknown, and never counts as load of zero.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autoscaler.domain.reading import Unknown, UnknownReason

Floats = NDArray[np.float64]
Floats32 = NDArray[np.float32]

BIN_S = 15.0
BINS = 120  # half an hour, the longest level window
MINUTES = 1440  # a day, the longest window of peaks
FIVES = 2020  # a week, and the few beyond it that interpolation needs
TARGET_BINS = 2  # a forecast is about the mean rate over this many bins, 30 s
FULL_SHARE = 0.8
LONGEST_SPAN_S = 300.0
LONGEST_LEAD_S = 3600.0
LONGEST_SILENCE_S = 120.0
LARGEST_RATE_RPS = 1e9
_LEAST_RATE_RPS = 1e-9  # a request in thirty years

_BINS_PER_MINUTE = 4
_BINS_PER_FIVE = 20
_LEAST_KNOWN_S = 0.99 * BIN_S  # a sum of clock differences may lack its last digits


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Rates in requests per second, newest last, NaN where unknown; no array is ever changed in place.

    ``end_s``: until when measurements reach, NaN before the first. ``open_requests``, ``open_known_s``: requests and
    measured seconds of the bin that holds ``end_s``. ``bins[-1]`` ends at the last multiple of 15 s, ``minutes[-1]``
    at that of 60 s and ``fives[-1]`` at that of 300 s.
    """

    end_s: float
    open_requests: float
    open_known_s: float
    bins: Floats
    minutes: Floats32
    fives: Floats32

    @classmethod
    def empty(cls) -> Timeline:
        """Nothing measured yet."""
        return cls(
            end_s=math.nan,
            open_requests=0.0,
            open_known_s=0.0,
            bins=np.full(BINS, np.nan),
            minutes=np.full(MINUTES, np.nan, dtype=np.float32),
            fives=np.full(FIVES, np.nan, dtype=np.float32),
        )

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Timeline:
        """What ``to_arrays`` packed. Raises KeyError where an array is missing."""
        end_s, open_requests, open_known_s = arrays["present"].tolist()
        return cls(
            end_s=end_s,
            open_requests=open_requests,
            open_known_s=open_known_s,
            bins=arrays["bins"],
            minutes=arrays["minutes"],
            fives=arrays["fives"],
        )

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """As named arrays."""
        present = np.array([self.end_s, self.open_requests, self.open_known_s])
        return {"present": present, "bins": self.bins, "minutes": self.minutes, "fives": self.fives}

    @property
    def closed(self) -> int:
        """How many bins, counted from the epoch, have ended by ``end_s``."""
        return int(self.end_s // BIN_S)

    @property
    def open_s(self) -> float:
        """Seconds of the open bin that have passed, measured or not."""
        return self.end_s % BIN_S

    def silence(self, now_s: float) -> Unknown | None:
        """Why nothing can be said at ``now_s``: nothing was measured yet, or not for two minutes; None otherwise."""
        if math.isnan(self.end_s):
            return Unknown(UnknownReason.WARMING_UP, "nothing measured yet")
        age_s = now_s - self.end_s
        if abs(age_s) > LONGEST_SILENCE_S:
            return Unknown(UnknownReason.STALE, f"last measured {abs(age_s):.0f} s {'ago' if age_s > 0 else 'ahead'}")
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """``timeline`` after time went on; ``bins`` of it ended just then (only the first of them can be known)."""

    timeline: Timeline
    bins: int


def horizon_bins(lead_s: float) -> int:
    """Whole bins from now to the span that is forecast; a lead time beyond an hour counts as an hour.

    Raises ValueError for a lead time below zero.
    """
    if not (math.isfinite(lead_s) and lead_s >= 0):
        raise ValueError(f"lead_s must be finite and >= 0, got {lead_s}")
    return int(min(lead_s, LONGEST_LEAD_S) / BIN_S + 0.5)


def advance(timeline: Timeline, *, end_s: float, span_s: float, rate_rps: float) -> list[Step]:
    """Take in the mean rate over [end_s - span_s, end_s]: a step for each bin that ends, and a last one to the end.

    Unknown bins in a row pass in one step. What ends at or before the last measured moment teaches nothing (no
    steps); of an overlap the later part counts. But where time ran back by more than two minutes the clock was set:
    the past can't be placed any more, and the timeline begins anew. A span above 300 s says too little about its bins
    and passes as unknown. A negative rate (more waiting clients gave up than came) is summed with the rest of its bin.
    Raises ValueError for a number that is not finite, a span that is not positive and a rate beyond 1e9.
    """
    if not (math.isfinite(end_s) and math.isfinite(span_s) and span_s > 0):
        raise ValueError(f"end_s must be finite and span_s finite and > 0, got {end_s} and {span_s}")
    if not abs(rate_rps) <= LARGEST_RATE_RPS:
        raise ValueError(f"rate_rps must lie within +-{LARGEST_RATE_RPS:g}, got {rate_rps}")
    end_s = round(end_s, 3)  # a clock's last digits must not keep a bin open
    start_s = round(end_s - span_s, 3) if span_s <= LONGEST_SPAN_S else end_s
    steps = []
    if math.isnan(timeline.end_s):
        timeline = replace(timeline, end_s=start_s)
    elif end_s < timeline.end_s - LONGEST_SILENCE_S:
        timeline = replace(Timeline.empty(), end_s=start_s)
        steps.append(Step(timeline=timeline, bins=FIVES))
    elif end_s <= timeline.end_s:
        return []
    gap_bins = int(start_s // BIN_S) - timeline.closed
    if gap_bins > 0:
        timeline = _close(timeline, until_s=start_s // BIN_S * BIN_S, bins=gap_bins)
        steps.append(Step(timeline=timeline, bins=gap_bins))
    if start_s > timeline.end_s:
        timeline = replace(timeline, end_s=start_s)
    while (boundary_s := (timeline.closed + 1) * BIN_S) <= end_s:
        timeline = _close(_measured(timeline, boundary_s, rate_rps), until_s=boundary_s, bins=1)
        steps.append(Step(timeline=timeline, bins=1))
    return [*steps, Step(timeline=_measured(timeline, end_s, rate_rps), bins=0)]


def _measured(timeline: Timeline, until_s: float, rate_rps: float) -> Timeline:
    known_s = until_s - timeline.end_s
    return Timeline(
        end_s=until_s,
        open_requests=timeline.open_requests + rate_rps * known_s,
        open_known_s=timeline.open_known_s + known_s,
        bins=timeline.bins,
        minutes=timeline.minutes,
        fives=timeline.fives,
    )


def _close(timeline: Timeline, *, until_s: float, bins: int) -> Timeline:
    """End the open bin, and ``bins - 1`` unknown ones after it."""
    rates = np.full(min(bins, BINS), np.nan)
    if timeline.open_known_s >= _LEAST_KNOWN_S:
        rate_rps = timeline.open_requests / timeline.open_known_s
        rates[0] = rate_rps if rate_rps > _LEAST_RATE_RPS else 0.0
    all_bins = np.concatenate((timeline.bins, rates))[-BINS:]
    closed = int(until_s // BIN_S)
    return Timeline(
        end_s=until_s,
        open_requests=0.0,
        open_known_s=0.0,
        bins=all_bins,
        minutes=_coarser(timeline.minutes, all_bins, closed, bins, _BINS_PER_MINUTE),
        fives=_coarser(timeline.fives, all_bins, closed, bins, _BINS_PER_FIVE),
    )


def _coarser(coarse: Floats32, bins: Floats, closed: int, passed: int, width: int) -> Floats32:
    """``coarse`` with the rates of those spans of ``width`` bins that ended within the last ``passed`` bins."""
    ended = min(closed // width - (closed - passed) // width, len(coarse))
    if ended == 0:
        return coarse
    rates = np.full(ended, np.nan, dtype=np.float32)
    if passed == 1:
        known = bins[-width:][~np.isnan(bins[-width:])]
        if len(known) >= FULL_SHARE * width:
            rates[0] = known.mean()
    return np.concatenate((coarse, rates))[-len(coarse) :]
