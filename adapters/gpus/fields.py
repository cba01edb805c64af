"""What an exporter's series mean: their names, their range and their unit; and a device put together from its rows.

Rows say one device's value once, or once for each pod that shares the device. A value counts only where all its rows
agree: two different ones are two pods' parts, or two moments, and nobody knows the device's own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from autoscaler.domain.gpu_reading import PodName
from autoscaler.domain.reading import Measured, Unknown, UnknownReason, is_known

LARGEST_EXACT = 2.0**53 - 1
_ROUNDED = 1e-6  # what printing may add to a full fraction
# DCGM's blanks for FP64 (dcgm_fields: blank, not found, not supported, no permission); within the range of counters.
_FP64_BLANKS = frozenset(140737488355328.0 + more for more in range(4))


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One number that a device has.

    ``series``: by which names, in lower case, the first that is there counts. ``highest``: as printed, above it is
    no such number; the lowest is 0. ``scale`` over ``per``: from the printed unit to ours. ``whole``: counts things.
    """

    name: str
    series: tuple[str, ...]
    highest: float = LARGEST_EXACT
    scale: float = 1.0
    per: float = 1.0
    whole: bool = False

    def read(self, printed: float) -> Measured:
        """The number in our unit, or why it is none; never clamped."""
        if not math.isfinite(printed):
            return Unknown(UnknownReason.NOT_A_NUMBER, f"{self.name}: {printed}")
        slack = self.highest * _ROUNDED if self.highest in (1.0, 100.0) else 0.0
        if printed < 0 or printed > self.highest + slack or printed in _FP64_BLANKS:
            return Unknown(UnknownReason.OUT_OF_RANGE, f"{self.name}: {printed:g} is not in 0 to {self.highest:g}")
        if self.whole and not printed.is_integer():
            return Unknown(UnknownReason.OUT_OF_RANGE, f"{self.name}: {printed:g} is no whole number")
        return min(printed, self.highest) * self.scale / self.per


@dataclass(slots=True)
class Rows:
    """All that one source says of one device: printed values by series and pod, and what its labels say."""

    uuid: str
    index: str
    gi: str | None
    node: str
    profiles: set[str] = field(default_factory=set)
    pods: set[PodName] = field(default_factory=set)
    values: dict[str, dict[PodName | None, set[float]]] = field(default_factory=dict)
    xids: set[int] = field(default_factory=set)

    def add(self, series: str, pod: PodName | None, value: float) -> None:
        """One row."""
        self.values.setdefault(series, {}).setdefault(pod, set()).add(value)
        if pod is not None:
            self.pods.add(pod)

    @property
    def holder(self) -> PodName | Unknown:
        """The one pod named on its rows."""
        if len(self.pods) > 1:
            names = ", ".join(map(str, sorted(self.pods)))
            return Unknown(UnknownReason.SHARED, f"{len(self.pods)} pods have it: {names}")
        for pod in self.pods:
            return pod
        return Unknown(UnknownReason.NOT_EXPORTED, "no pod is named: it is free, or the exporter does not know")

    @property
    def profile(self) -> str | None:
        """The profile, where all rows name the same."""
        return next(iter(self.profiles)) if len(self.profiles) == 1 else None

    def read(self, fields: Sequence[Field]) -> dict[str, Measured]:
        """Every field by name."""
        return {each.name: self._read(each) for each in fields}

    def _read(self, one: Field) -> Measured:
        for series in one.series:
            by_pod = self.values.get(series)
            if by_pod is not None:
                return self._agreed(one, by_pod)
        return Unknown(UnknownReason.MISSING_SERIES, f"no {one.series[0]}")

    def _agreed(self, one: Field, by_pod: Mapping[PodName | None, set[float]]) -> Measured:
        printed = set().union(*by_pod.values())
        if len(printed) == 1:
            return one.read(printed.pop())
        told = ", ".join(f"{value:g}" for value in sorted(printed))
        named = [pod for pod in by_pod if pod is not None]
        if len(named) > 1:
            return Unknown(UnknownReason.SHARED, f"{one.name}: told for each of {len(named)} pods: {told}")
        return Unknown(UnknownReason.CONTRADICTION, f"{one.name}: told more than once: {told}")


def added(first: Measured, *others: Measured) -> Measured:
    """The sum, or why one of them is unknown."""
    total = 0.0
    for each in (first, *others):
        if not is_known(each):
            return each
        total += each
    return total


def used_within(used: Measured, total: Measured) -> Measured:
    """``used``, unless there is not so much."""
    if is_known(used) and is_known(total) and used > total:
        return Unknown(UnknownReason.CONTRADICTION, f"fb_used_mib: {used:g} of {total:g}")
    return used
