"""Which series of a page count for a signal, and which of their values are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from adapters.engines.exposition import Page, Series, declared_type
from adapters.engines.signals import CONTRADICTING_TYPES, EngineTable, Signal, sample_names
from autoscaler.domain.reading import Unknown, UnknownReason

Labels = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Selection:
    """The series of a page that count for one table and model, and which of them the readers asked for so far."""

    page: Page
    table: EngineTable
    prefix: str
    model: str | None
    chosen: list[int] = field(default_factory=list)
    by_name: dict[str, list[int]] = field(init=False)

    def __post_init__(self) -> None:
        self.by_name = {}
        for index, series in enumerate(self.page.series):
            if self.model is None or self._of_model(series):
                self.by_name.setdefault(series.name, []).append(index)

    def _of_model(self, series: Series) -> bool:
        models = [value for name, value in series.labels if name in self.table.model_labels]
        return not models or self.model in models

    def models(self) -> tuple[str, ...]:
        """The model names on the page, in order of name."""
        labels = self.table.model_labels
        return tuple(sorted({v for series in self.page.series for k, v in series.labels if k in labels}))

    def choose(self, indexes: Sequence[int]) -> int:
        """Ask for the values of these series; where in the list of values they will start."""
        start = len(self.chosen)
        self.chosen.extend(indexes)
        return start

    def series(self, index: int) -> Series:
        """The series whose value comes at ``index`` of the list of values."""
        return self.page.series[self.chosen[index]]

    def find(self, signal: Signal) -> tuple[str, dict[str, list[int]]] | Unknown:
        """The family that carries the signal and its series by sample name, or why there is none."""
        families = [alias.family(self.prefix) for alias in signal.aliases]
        for family in families:
            samples = {
                name: [i for i in self.by_name.get(name, ()) if self._has(i, signal.only)]
                for name in sample_names(signal.kind, family)
            }
            if not any(samples.values()):
                continue
            declared = declared_type(self.page.types, family)
            if declared in CONTRADICTING_TYPES[signal.kind]:
                detail = f"{family} is declared a {declared}, not a {signal.kind}"
                return Unknown(UnknownReason.CONTRADICTION, detail)
            return family, samples
        for family in families:
            if family in self.page.types:
                return Unknown(UnknownReason.MISSING_SERIES, f"{family} is declared but has no sample yet")
        return Unknown(UnknownReason.MISSING_SERIES, f"no {' or '.join(families)} on the page")

    def _has(self, index: int, only: Labels) -> bool:
        return set(only) <= set(self.page.series[index].labels)


def contradicting(
    same: Sequence[tuple[int, int]], values: list[float], series: Sequence[Series], start: int
) -> Unknown | None:
    """The first series that was printed twice with different values."""
    for one, other in same:
        if values[one] != values[other]:
            detail = f"{series[one - start].brief()} is both {values[one]:g} and {values[other]:g}"
            return Unknown(UnknownReason.CONTRADICTION, detail)
    return None


def without(labels: Labels, names: Sequence[str]) -> Labels:
    """The labels but those of these names."""
    return tuple([label for label in labels if label[0] not in names])
