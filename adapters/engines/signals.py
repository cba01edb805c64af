"""What an engine's table says: a canonical signal, the families that may carry it, and how their series combine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from autoscaler.domain.reading import MaybeHistogram, Measured
from autoscaler.domain.service import Engine

MAX_COUNT = 2.0**53  # above it a float no longer counts by ones
MAX_FRACTION = 1.0 + 1e-6  # engines divide floats: a full cache may read a little above 1


class Kind(StrEnum):
    """How a family behaves."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


# Declared types that contradict what is expected. A counter may be declared a gauge: Ray's exporter does so.
CONTRADICTING_TYPES: Mapping[Kind, frozenset[str]] = {
    Kind.GAUGE: frozenset({"counter", "histogram", "summary"}),
    Kind.COUNTER: frozenset({"histogram", "summary"}),
    Kind.HISTOGRAM: frozenset({"counter", "gauge", "summary"}),
}


class Across(StrEnum):
    """How the series of one family combine over engines, data-parallel ranks, models and other labels."""

    SUM = "sum"
    MAX = "max"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alias:
    """One name of a family.

    ``renamed_to``: what newer versions call it. ``prefixed``: the engine's prefix stands before it.
    """

    name: str
    renamed_to: str | None = None
    prefixed: bool = True

    def family(self, prefix: str) -> str:
        """The name as pages print it."""
        return prefix + self.name if self.prefixed else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """A canonical signal of a page.

    ``aliases``: the first with a sample on the page is read, alone. ``upper``: the largest value that makes sense; the
    least is 0. ``only``: labels that a series must carry to count.
    """

    name: str
    kind: Kind
    aliases: tuple[Alias, ...]
    across: Across = Across.SUM
    upper: float = MAX_COUNT
    only: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelSignal:
    """A canonical signal that a family carries in its labels; ``of_labels`` reads one series. Series add up."""

    name: str
    alias: Alias
    of_labels: Callable[[Mapping[str, str]], Measured]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineTable:
    """All that is known of one engine's pages.

    ``prefixes``: what its families start with, by deployment; the first that the page uses holds. ``required``:
    signals without which a page is no page of this engine. ``model_labels``: labels that may name the model.
    ``repeat_labels``: labels over which series repeat the same thing, so that the largest counts, not the sum.
    ``arrivals``: the ``arrivals_stock`` from the other signals; ``arrivals_formula`` says how.
    """

    engine: Engine
    title: str
    prefixes: tuple[str, ...]
    required: tuple[str, ...]
    signals: tuple[Signal, ...]
    label_signals: tuple[LabelSignal, ...]
    model_labels: tuple[str, ...]
    repeat_labels: tuple[str, ...]
    arrivals: Callable[[Mapping[str, Measured], Mapping[str, MaybeHistogram]], Measured]
    arrivals_formula: str
    arrivals_of: tuple[str, ...]

    def sample_names(self) -> Iterator[str]:
        """Every sample name that a page of this engine may carry a signal in."""
        for prefix in self.prefixes:
            for label_signal in self.label_signals:
                yield label_signal.alias.family(prefix)
            for signal in self.signals:
                for alias in signal.aliases:
                    yield from sample_names(signal.kind, alias.family(prefix))

    def prefix_on(self, names: frozenset[str]) -> str | None:
        """The prefix under which a page with these sample names speaks of this engine, or None."""
        required = [signal for signal in self.signals if signal.name in self.required]
        for prefix in self.prefixes:
            if any(alias.family(prefix) in names for signal in required for alias in signal.aliases):
                return prefix
        for prefix in self.prefixes:
            if any(name.startswith(prefix) for name in names):
                return prefix
        return None


def sample_names(kind: Kind, family: str) -> tuple[str, ...]:
    """The names of the samples of a family."""
    if kind is Kind.HISTOGRAM:
        return (f"{family}_bucket", f"{family}_count", f"{family}_sum")
    return (family,)
