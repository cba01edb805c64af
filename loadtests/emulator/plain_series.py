"""Series by hand, for pages that ``prometheus_client`` does not print as their engines do: counters without
``_total``, and series that appear with their first use.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

Labels = Mapping[str, str]


class PlainSeries:
    """Families in order of declaration; a series is there from the first time it is set, added to or observed."""

    def __init__(self) -> None:
        self._families: dict[str, str] = {}
        self._values: dict[str, dict[str, float]] = {}
        self._bounds: dict[str, tuple[float, ...]] = {}
        self._observed: dict[str, dict[str, _Observed]] = {}

    def declare(self, kind: str, *names: str, bounds: Sequence[float] = ()) -> None:
        """Families of one kind: gauge, counter or histogram, the latter with its upper ``bounds``."""
        for name in names:
            self._families[name] = kind
            self._values[name] = {}
            self._observed[name] = {}
            self._bounds[name] = tuple(bounds)

    def set(self, name: str, value: float, labels: Labels | None = None) -> None:
        """Set a gauge, or a counter's start."""
        self._values[name][_spelled(labels)] = value

    def add(self, name: str, by: float = 1, labels: Labels | None = None) -> None:
        """Raise a counter or gauge."""
        key = _spelled(labels)
        self._values[name][key] = self._values[name].get(key, 0) + by

    def observe(self, name: str, value: float, labels: Labels | None = None) -> None:
        """Add an observation to a histogram."""
        bounds = self._bounds[name]
        observed = self._observed[name].setdefault(_spelled(labels), _Observed(len(bounds)))
        observed.take(bisect_left(bounds, value), value)

    def render(self) -> bytes:
        """All families that have a series, with their types."""
        lines: list[str] = []
        for name, kind in self._families.items():
            if not self._values[name] and not self._observed[name]:
                continue
            lines.append(f"# TYPE {name} {kind}")
            for labels, value in self._values[name].items():
                lines.append(f"{name}{f'{{{labels}}}' if labels else ''} {value:.17g}")
            for labels, observed in self._observed[name].items():
                lines.extend(observed.lines(name, labels, self._bounds[name]))
        return "".join([f"{line}\n" for line in lines]).encode()


class _Observed:
    def __init__(self, bounds: int) -> None:
        self.counts = [0] * (bounds + 1)
        self.total = 0.0

    def take(self, bucket: int, value: float) -> None:
        self.counts[bucket] += 1
        self.total += value

    def lines(self, name: str, labels: str, bounds: Sequence[float]) -> list[str]:
        comma = "," if labels else ""
        texts = [*[f"{bound:.12g}" for bound in bounds], "+Inf"]
        cumulative = [sum(self.counts[: index + 1]) for index in range(len(texts))]
        plain = f"{{{labels}}}" if labels else ""
        return [
            *[f'{name}_bucket{{{labels}{comma}le="{b}"}} {n}' for b, n in zip(texts, cumulative, strict=True)],
            f"{name}_sum{plain} {self.total:.17g}",
            f"{name}_count{plain} {cumulative[-1]}",
        ]


def _spelled(labels: Labels | None) -> str:
    return ",".join([f'{name}="{value}"' for name, value in sorted((labels or {}).items())])
