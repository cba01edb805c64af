"""Which series of a page count for a signal, and which of their values are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from adapters.engines.exposition import Page, Series, declared_type
from adapters.engines.signals import CONTRADICTING_TYPES, Alias, EngineTable, Signal, sample_names
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
    of_any_model: dict[str, list[int]] = field(init=False)

    def __post_init__(self) -> None:
        self.by_name = {}
        self.of_any_model = {}
        for index, series in enumerate(self.page.series):
            self.of_any_model.setdefault(series.name, []).append(index)
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
        by_name = self.of_any_model if signal.any_model else self.by_name
        for alias in signal.aliases:
            family = alias.family(self.prefix)
            samples = {
                name: [i for i in by_name.get(name, ()) if self._counts(i, alias)]
                for name in sample_names(signal.kind, family)
            }
            if not any(samples.values()):
                continue
            declared = declared_type(self.page.types, family)
            if declared in CONTRADICTING_TYPES[signal.kind]:
                detail = f"{family} is declared a {declared}, not a {signal.kind}"
                return Unknown(UnknownReason.CONTRADICTION, detail)
            return family, samples
        why = f" ({signal.lacking})" if signal.lacking else ""
        for alias in signal.aliases:
            family = alias.family(self.prefix)
            if family in self.page.types and not by_name.get(family):
                return Unknown(UnknownReason.MISSING_SERIES, f"{family} is declared but has no sample yet{why}")
        named = " or ".join([_spelled(alias, self.prefix) for alias in signal.aliases])
        return Unknown(UnknownReason.MISSING_SERIES, f"no {named} on the page{why}")

    def _counts(self, index: int, alias: Alias) -> bool:
        if not alias.only:
            return True
        labels = dict(self.page.series[index].labels)
        return all(labels.get(name) in values for name, values in alias.only)


def _spelled(alias: Alias, prefix: str) -> str:
    only = ",".join([f'{name}="{"|".join(values)}"' for name, values in alias.only])
    return alias.family(prefix) + (f"{{{only}}}" if only else "")


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
