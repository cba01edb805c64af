"""Gauges and counters: the readers are built once per page layout and then read value lists of such pages."""

from __future__ import annotations

import math
from dataclasses import dataclass

from adapters.engines.exposition import Series
from adapters.engines.selection import Labels, Selection, contradicting, without
from adapters.engines.signals import Across, LabelSignal, Signal
from autoscaler.domain.reading import Measured, Unknown, UnknownReason, is_known


@dataclass(frozen=True, slots=True)
class ScalarReader:
    """A number. ``groups``: series that repeat one another; None where each series stands for itself.

    ``same``: pairs of values of one series printed twice, which must agree.
    """

    family: str
    series: tuple[Series, ...]
    start: int
    stop: int
    across: Across
    upper: float
    same: tuple[tuple[int, int], ...]
    groups: tuple[tuple[int, ...], ...] | None

    def read(self, values: list[float]) -> Measured:
        """The signal's value. Unknown where any of its series is out of range: a part is not the whole."""
        for index in range(self.start, self.stop):
            if not 0.0 <= values[index] <= self.upper:
                return _out_of_range(self.series[index - self.start], values[index], self.upper)
        if self.same:
            contradiction = contradicting(self.same, values, self.series, self.start)
            if contradiction is not None:
                return contradiction
        parts = values[self.start : self.stop]
        if self.groups is not None:
            parts = [max([values[index] for index in group]) for group in self.groups]
        if self.across is Across.SUM:
            total = sum(parts)
        elif self.across is Across.MAX:
            total = max(parts)
        else:
            total = min([part for part in parts if part > 0], default=0.0)
        if total > self.upper:
            return Unknown(UnknownReason.OUT_OF_RANGE, f"{self.family} adds up to {total:g}")
        return total


def gather_scalar(selection: Selection, signal: Signal) -> ScalarReader | Unknown:
    """A reader of a gauge or counter."""
    found = selection.find(signal)
    if isinstance(found, Unknown):
        return found
    family, samples = found
    indexes = [index for part in samples.values() for index in part]
    start = selection.choose(indexes)
    positions = range(start, start + len(indexes))
    first: dict[Labels, int] = {}
    same = []
    groups: dict[Labels, list[int]] = {}
    for position in positions:
        labels = selection.series(position).labels
        twin = first.setdefault(labels, position)
        if twin != position:
            same.append((twin, position))
        else:
            groups.setdefault(without(labels, selection.table.repeat_labels), []).append(position)
    return ScalarReader(
        family=family,
        series=tuple([selection.series(position) for position in positions]),
        start=start,
        stop=positions.stop,
        across=signal.across,
        upper=signal.upper,
        same=tuple(same),
        groups=None if len(groups) == len(indexes) else tuple([tuple(group) for group in groups.values()]),
    )


def gather_labels(selection: Selection, signal: LabelSignal) -> tuple[Measured, tuple[Series, ...]]:
    """The value that labels carry, and the series they are on."""
    family = signal.alias.family(selection.prefix)
    found = {selection.page.series[index] for index in selection.by_name.get(family, ())}
    if not found:
        return Unknown(UnknownReason.MISSING_SERIES, f"no {family} on the page"), ()
    series = tuple(sorted(found, key=str))
    by_group: dict[Labels, float] = {}
    for one in series:
        value = signal.of_labels(dict(one.labels))
        if not is_known(value):
            return value, series
        group = without(one.labels, selection.table.repeat_labels)
        by_group[group] = max(value, by_group.get(group, 0.0))
    values = list(by_group.values())
    return max(values) if signal.across is Across.MAX else sum(values), series


def _out_of_range(series: Series, value: float, upper: float) -> Unknown:
    """What is wrong with a value outside [0, upper]."""
    if math.isnan(value):
        return Unknown(UnknownReason.NOT_A_NUMBER, f"{series.brief()} is NaN")
    return Unknown(UnknownReason.OUT_OF_RANGE, f"{series.brief()} is {value:g}, not within 0 and {upper:.6g}")
