"""Histograms: the readers are built once per page layout and then read value lists of such pages."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from adapters.engines.exposition import Series
from adapters.engines.selection import Labels, Selection, contradicting, without
from adapters.engines.signals import MAX_COUNT, Kind, Signal, sample_names
from autoscaler.domain.reading import Histogram, MaybeHistogram, Unknown, UnknownReason


@dataclass(frozen=True, slots=True)
class HistogramPart:
    """One histogram among those of a family: its cumulative counts, ascending, are ``values[start:count + 1]``.

    ``infinity``: where its +Inf bucket is, None without. ``group``: parts with the same one repeat one another.
    ``bounds`` are in seconds (or tokens); the sum is divided by ``per_s``.
    """

    bounds: tuple[float, ...]
    start: int
    infinity: int | None
    count: int
    total: int
    group: Labels
    per_s: float

    def read(self, values: list[float], family: str) -> MaybeHistogram:
        """The histogram, or what is wrong with it."""
        cumulative = values[self.start : self.count + 1]
        count, total = cumulative[-1], values[self.total]
        # A sum is NaN or infinite if any part is: it fails one comparison for all of them.
        finite = sum(cumulative) + total < math.inf
        if not (finite and cumulative[0] >= 0.0 and total >= 0.0 and max(count, total) <= MAX_COUNT):
            if any(math.isnan(value) for value in (*cumulative, total)):
                return Unknown(UnknownReason.NOT_A_NUMBER, f"{family} holds NaN")
            return Unknown(UnknownReason.OUT_OF_RANGE, f"{family} holds a negative or impossibly large number")
        if cumulative != sorted(cumulative):
            return Unknown(UnknownReason.CONTRADICTION, f"buckets of {family} do not ascend to its count")
        if self.infinity is not None and values[self.infinity] != count:
            return Unknown(UnknownReason.CONTRADICTION, f"{family} counts {count:g}, its +Inf bucket does not")
        return Histogram(self.bounds, tuple(cumulative[: len(self.bounds)]), count, total / self.per_s)


@dataclass(frozen=True, slots=True)
class HistogramReader:
    """A histogram: one part per engine, model and so on."""

    family: str
    series: tuple[Series, ...]
    start: int
    parts: tuple[HistogramPart, ...]
    same: tuple[tuple[int, int], ...]

    def read(self, values: list[float]) -> MaybeHistogram:
        """All parts added up. Unknown where any is unknown."""
        if self.same:
            contradiction = contradicting(self.same, values, self.series, self.start)
            if contradiction is not None:
                return contradiction
        if len(self.parts) == 1:
            return self.parts[0].read(values, self.family)
        largest: dict[Labels, Histogram] = {}
        for part in self.parts:
            histogram = part.read(values, self.family)
            if isinstance(histogram, Unknown):
                return histogram
            rival = largest.get(part.group)
            if rival is None or histogram.count > rival.count:
                largest[part.group] = histogram
        merged = list(largest.values())  # of the same bounds, or there would be no reader
        return Histogram(
            merged[0].bounds,
            tuple([sum(counts) for counts in zip(*[one.counts for one in merged], strict=True)]),
            sum([one.count for one in merged]),
            sum([one.total for one in merged]),
        )


def gather_histogram(selection: Selection, signal: Signal) -> HistogramReader | Unknown:
    """A reader of a histogram."""
    found = selection.find(signal)
    if isinstance(found, Unknown):
        return found
    family, samples = found
    drafts: dict[Labels, _Draft] = {}
    for kind, name in zip(("bucket", "count", "sum"), sample_names(Kind.HISTOGRAM, family), strict=True):
        for index in samples[name]:
            one = selection.page.series[index]
            draft = drafts.setdefault(without(one.labels, ("le",)), _Draft())
            if kind != "bucket":
                (draft.count if kind == "count" else draft.total).append(index)
                continue
            bound = _bound(dict(one.labels).get("le"))
            if bound is None:
                return Unknown(UnknownReason.MALFORMED_PAGE, f"no bucket bound: {one.brief()}")
            draft.buckets.setdefault(bound, []).append(index)
    start = len(selection.chosen)
    parts = []
    same: list[tuple[int, int]] = []
    for labels, draft in drafts.items():
        if not draft.count or not draft.total:
            lacking = "_sum" if draft.count else "_count"
            return Unknown(UnknownReason.MISSING_SERIES, f"{family} has no {lacking}")
        group = without(labels, selection.table.repeat_labels)
        parts.append(_part(selection, draft, group=group, per_s=signal.per_s, same=same))
    if len({part.bounds for part in parts}) > 1:
        return Unknown(UnknownReason.CONTRADICTION, f"{family}: bucket bounds differ between its series")
    series = tuple([selection.page.series[index] for index in selection.chosen[start:]])
    return HistogramReader(family=family, series=series, start=start, parts=tuple(parts), same=tuple(same))


@dataclass(slots=True)
class _Draft:
    """Indexes of the series of one histogram; more than one in a list are the same series printed again."""

    buckets: dict[float, list[int]] = field(default_factory=dict)
    count: list[int] = field(default_factory=list)
    total: list[int] = field(default_factory=list)


def _part(
    selection: Selection, draft: _Draft, *, group: Labels, per_s: float, same: list[tuple[int, int]]
) -> HistogramPart:
    bounds = sorted(draft.buckets)
    finite = tuple([bound / per_s for bound in bounds if bound != math.inf])
    ascending = [draft.buckets[bound] for bound in bounds]
    start = selection.choose([indexes[0] for indexes in (*ascending, draft.count, draft.total)])
    for offset, (_, *again) in enumerate((*ascending, draft.count, draft.total)):
        same.extend([(start + offset, selection.choose([index])) for index in again])
    count = start + len(bounds)
    infinity = count - 1 if len(finite) < len(bounds) else None
    return HistogramPart(finite, start, infinity, count, count + 1, group, per_s)


def _bound(text: str | None) -> float | None:
    try:
        bound = float(text) if text is not None else math.nan
    except ValueError:
        return None
    return None if math.isnan(bound) or bound == -math.inf else bound
