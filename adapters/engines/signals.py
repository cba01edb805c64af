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
    """How the series of one family combine over engines, data-parallel ranks, models and other labels.

    LEAST: the smallest that isn't zero, zero where all are.
    """

    SUM = "sum"
    MAX = "max"
    LEAST = "least"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alias:
    """One name of a family.

    ``renamed_to``: what newer versions call it. ``prefixed``: the engine's prefix stands before it. ``only``: labels
    that a series must carry to count, each with the values that are allowed.
    """

    name: str
    renamed_to: str | None = None
    prefixed: bool = True
    only: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def family(self, prefix: str) -> str:
        """The name as pages print it."""
        return prefix + self.name if self.prefixed else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """A signal of a page: a canonical one, or an ingredient of one.

    ``aliases``: the first with a sample on the page is read, alone. ``upper``: the largest value that makes sense; the
    least is 0. ``per_s``: how many of a histogram's unit make a second. ``any_model``: it counts whatever model was
    asked for. ``lacking``: why it may be absent. ``first_use``: None where absence says nothing. Else the engine
    creates the series at its first use, and absence together with these other signals means none yet: zero.
    """

    name: str
    kind: Kind
    aliases: tuple[Alias, ...]
    across: Across = Across.SUM
    upper: float = MAX_COUNT
    per_s: float = 1.0
    any_model: bool = False
    first_use: tuple[str, ...] | None = None
    lacking: str = ""


def gauge(
    name: str,
    *aliases: str | Alias,
    across: Across = Across.SUM,
    upper: float = MAX_COUNT,
    any_model: bool = False,
    first_use: tuple[str, ...] | None = None,
    lacking: str = "",
) -> Signal:
    """A gauge; aliases that are plain texts are names."""
    return Signal(
        name=name,
        kind=Kind.GAUGE,
        aliases=_aliases(aliases),
        across=across,
        upper=upper,
        any_model=any_model,
        first_use=first_use,
        lacking=lacking,
    )


def counter(
    name: str,
    *aliases: str | Alias,
    across: Across = Across.SUM,
    any_model: bool = False,
    first_use: tuple[str, ...] | None = None,
    lacking: str = "",
) -> Signal:
    """A counter; aliases that are plain texts are names."""
    return Signal(
        name=name,
        kind=Kind.COUNTER,
        aliases=_aliases(aliases),
        across=across,
        any_model=any_model,
        first_use=first_use,
        lacking=lacking,
    )


def histogram(name: str, *aliases: str | Alias, per_s: float = 1.0, lacking: str = "") -> Signal:
    """A histogram; aliases that are plain texts are names."""
    return Signal(name=name, kind=Kind.HISTOGRAM, aliases=_aliases(aliases), per_s=per_s, lacking=lacking)


def cpu_time() -> Signal:
    """The heartbeat of servers in Python that show their own process: its CPU time, which each page costs some of."""
    lacking = "a page gathered from several processes has none"
    return counter("heartbeat", Alias(name="process_cpu_seconds_total", prefixed=False), lacking=lacking)


def _aliases(names: tuple[str | Alias, ...]) -> tuple[Alias, ...]:
    return tuple([name if isinstance(name, Alias) else Alias(name=name) for name in names])


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived:
    """A canonical signal computed from others of the page, those named in ``of``."""

    name: str
    of: tuple[str, ...]
    formula: str
    value: Callable[[Mapping[str, Measured]], Measured]


@dataclass(frozen=True, slots=True, kw_only=True)
class CountAndSum:
    """A canonical histogram of which the page has but the count and the sum, in the signals so named.

    ``per_s``: how many of the sum's unit make a second.
    """

    name: str
    count: str
    total: str
    per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelSignal:
    """A canonical signal that a family carries in its labels; ``of_labels`` reads one series."""

    name: str
    alias: Alias
    of_labels: Callable[[Mapping[str, str]], Measured]
    across: Across = Across.SUM


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineTable:
    """All that is known of one engine's pages.

    ``prefixes``: what its families start with, by deployment; the first that the page uses holds.
    ``borrowed_prefixes``: those of another engine that this one may run inside. ``required``: signals without which a
    page is no page of this engine. ``model_labels``: labels that may name the model.
    ``repeat_labels``: labels over which series repeat the same thing, so that the largest counts, not the sum.
    ``arrivals``: the ``arrivals_stock`` from the other signals; ``arrivals_formula`` says how.
    ``several_models``: what to tell the user where the page adds up several. ``hosts``: it serves other engines too,
    and a page that has theirs is theirs.
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
    derived: tuple[Derived, ...] = ()
    sums: tuple[CountAndSum, ...] = ()
    several_models: str = ""
    hosts: bool = False
    borrowed_prefixes: tuple[str, ...] = ()

    def ingredients(self, name: str) -> tuple[str, ...]:
        """The page's signals that a canonical signal is made of."""
        return next((derived.of for derived in self.derived if derived.name == name), (name,))

    def sample_names(self) -> Iterator[str]:
        """Every sample name that a page of this engine may carry a signal in."""
        for prefix in self.prefixes + self.borrowed_prefixes:
            for label_signal in self.label_signals:
                yield label_signal.alias.family(prefix)
            for signal in self.signals:
                for alias in signal.aliases:
                    yield from sample_names(signal.kind, alias.family(prefix))

    def prefix_on(self, names: frozenset[str], *, declared: bool) -> str | None:
        """The prefix under which a page with these sample names speaks of this engine, or None.

        ``declared``: the user says that it is this engine's; borrowed prefixes count as well then.
        """
        prefixes = self.prefixes + (self.borrowed_prefixes if declared else ())
        telling = [signal for signal in self.signals if signal.name in self.required]
        for prefix in prefixes:
            if any(alias.family(prefix) in names for signal in telling for alias in signal.aliases):
                return prefix
        for prefix in prefixes:
            if prefix and any(name.startswith(prefix) for name in names):
                return prefix
        return None


def sample_names(kind: Kind, family: str) -> tuple[str, ...]:
    """The names of the samples of a family."""
    if kind is Kind.HISTOGRAM:
        return (f"{family}_bucket", f"{family}_count", f"{family}_sum")
    return (family,)
