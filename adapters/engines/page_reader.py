"""Pages of many replicas to readings, remembering how each page is laid out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from adapters.engines.cache import BoundedCache
from adapters.engines.content import explain_malformed
from adapters.engines.detection import TABLES, beside, detect
from adapters.engines.exposition import Page, PageParser, Selector, Series, UnreadablePageError
from adapters.engines.histograms import HistogramReader, gather_histogram
from adapters.engines.scalars import ScalarReader, gather_labels, gather_scalar
from adapters.engines.selection import Selection
from adapters.engines.signals import CountAndSum, EngineTable, Kind
from autoscaler.domain.reading import (
    EngineReading,
    Histogram,
    MaybeHistogram,
    Measured,
    Unknown,
    UnknownReason,
    is_known,
)
from autoscaler.domain.service import Engine

NEVER = Unknown(UnknownReason.NOT_EXPORTED, "this engine exports no such signal")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageLayout:
    """All that is settled once a page's skeleton is known: what is read from where, what lacks, what looks odd.

    ``chosen``: indexes, into the page's series, of the values that the readers take. ``settled``: what needs no value:
    numbers that labels carry, and the reason for each number that the page lacks.
    """

    table: EngineTable
    selector: Selector
    chosen: tuple[int, ...]
    scalars: Mapping[str, ScalarReader]
    histograms: Mapping[str, HistogramReader]
    settled: Mapping[str, Measured]
    missing_histograms: Mapping[str, Unknown]
    label_series: Mapping[str, tuple[Series, ...]]
    sources: tuple[tuple[str, str], ...]
    warnings: tuple[str, ...]

    def reading(self, values: list[float], *, replica: str, at_s: float) -> EngineReading:
        """The reading of a page with these chosen values."""
        numbers: dict[str, Measured] = dict(self.settled)
        for name, scalar in self.scalars.items():
            numbers[name] = scalar.read(values)
        histograms: dict[str, MaybeHistogram] = dict(self.missing_histograms)
        for name, histogram in self.histograms.items():
            histograms[name] = histogram.read(values)
        for derived in self.table.derived:
            numbers[derived.name] = derived.value(numbers)
        for sums in self.table.sums:
            histograms[sums.name] = _without_buckets(sums, numbers)
        awake = numbers.get("awake", NEVER)
        return EngineReading(
            replica=replica,
            at_s=at_s,
            engine=self.table.engine,
            started_s=numbers.get("started_s", NEVER),
            asleep=is_known(awake) and awake == 0,
            waiting=numbers.get("waiting", NEVER),
            running=numbers.get("running", NEVER),
            kv_fraction=numbers.get("kv_fraction", NEVER),
            kv_capacity_tokens=numbers.get("kv_capacity_tokens", NEVER),
            completed=numbers.get("completed", NEVER),
            refused=numbers.get("refused", NEVER),
            preemptions=numbers.get("preemptions", NEVER),
            prompt_tokens=numbers.get("prompt_tokens", NEVER),
            generation_tokens=numbers.get("generation_tokens", NEVER),
            arrivals_stock=self.table.arrivals(numbers, histograms),
            ttft=histograms.get("ttft", NEVER),
            itl=histograms.get("itl", NEVER),
            e2e=histograms.get("e2e", NEVER),
            queue_time=histograms.get("queue_time", NEVER),
            prompt_length=histograms.get("prompt_length", NEVER),
            output_length=histograms.get("output_length", NEVER),
            sources=self.sources,
            warnings=self.warnings,
            heartbeat=numbers.get("heartbeat", NEVER),
            pending=numbers.get("pending", NEVER),
            exec_count=numbers.get("exec_count", NEVER),
            exec_items=numbers.get("exec_items", NEVER),
            exec_sum_s=numbers.get("exec_sum_s", NEVER),
            steps=numbers.get("steps", NEVER),
            kv_block_tokens=numbers.get("kv_block_tokens", NEVER),
            request_itl=histograms.get("request_itl", NEVER),
        )


def parse_page(parser: PageParser, body: bytes) -> Page | Unknown:
    """The page, or why it can't be read as one."""
    try:
        return parser.parse(body)
    except UnreadablePageError as error:
        return explain_malformed(body, Unknown(error.reason, error.detail))


def lay_out(page: Page, *, engine: Engine, model: str | None) -> PageLayout | Unknown:
    """Settle what is read from where; Unknown where the page is none of this engine or lacks a required signal."""
    detected = detect(page, engine)
    if isinstance(detected, Unknown):
        return detected
    table, prefix = detected
    selection = Selection(page, table, prefix, model)
    models = selection.models()
    if model is not None and models and model not in models:
        return Unknown(UnknownReason.MISSING_SERIES, f"no model {model!r} on the page, only {', '.join(models)}")
    scalars: dict[str, ScalarReader] = {}
    histograms: dict[str, HistogramReader] = {}
    settled: dict[str, Measured] = {}
    missing_histograms: dict[str, Unknown] = {}
    for signal in table.signals:
        if signal.kind is Kind.HISTOGRAM:
            histogram = gather_histogram(selection, signal)
            if isinstance(histogram, Unknown):
                missing_histograms[signal.name] = histogram
            else:
                histograms[signal.name] = histogram
            continue
        scalar = gather_scalar(selection, signal)
        if isinstance(scalar, Unknown):
            settled[signal.name] = scalar
        else:
            scalars[signal.name] = scalar
    unused = _unused_yet(table, settled)
    settled |= dict.fromkeys(unused, 0.0)
    for name in table.required:
        lacking = settled.get(name)
        if isinstance(lacking, Unknown) and lacking.reason is UnknownReason.MISSING_SERIES:
            return lacking
    labelled = {signal.name: gather_labels(selection, signal) for signal in table.label_signals}
    settled |= {name: value for name, (value, _) in labelled.items()}
    families = {name: scalar.family for name, scalar in scalars.items()}
    families |= {name: histogram.family for name, histogram in histograms.items()}
    families |= {name: series[0].name for name, (_, series) in labelled.items() if series}
    formulas = {derived.name: derived.formula for derived in table.derived}
    return PageLayout(
        table=table,
        selector=Selector(page.skeleton, selection.chosen),
        chosen=tuple(selection.chosen),
        scalars=scalars,
        histograms=histograms,
        settled=settled,
        missing_histograms=missing_histograms,
        label_series={name: series for name, (_, series) in labelled.items()},
        sources=(*families.items(), *formulas.items(), ("arrivals_stock", table.arrivals_formula)),
        warnings=(
            *_renamed(table, prefix, families),
            *_several(table, models, model),
            *_fresh(table, unused),
            *beside(table, page),
        ),
    )


class PageReader:
    """Reads pages, fast where a replica's page is laid out as last time. Not for use from two threads at once."""

    def __init__(self, *, cache_bytes: int = 64 * 1024 * 1024) -> None:
        wanted = {name for table in TABLES for name in table.sample_names()}
        self._parser = PageParser(wanted, cache_bytes=cache_bytes // 2)
        self._layouts: BoundedCache[tuple[Engine, str | None, tuple[bytes, ...]], PageLayout] = BoundedCache(
            limit_bytes=cache_bytes // 2
        )
        self._latest: dict[str, tuple[Engine, str | None, PageLayout]] = {}

    @property
    def held_bytes(self) -> int:
        """About how much the caches hold."""
        return self._parser.held_bytes + self._layouts.held_bytes

    def read(
        self, body: bytes, *, replica: str, at_s: float, engine: Engine = Engine.AUTO, model: str | None = None
    ) -> EngineReading | Unknown:
        """The reading of one page, or why there is none. ``model``: count only this model's series."""
        latest = self._latest.get(replica)
        if latest is not None and latest[0] is engine and latest[1] == model:
            layout = latest[2]
            values = layout.selector.values(body)
            if values is not None:
                return layout.reading(values, replica=replica, at_s=at_s)
        self._latest.pop(replica, None)
        page = parse_page(self._parser, body)
        if isinstance(page, Unknown):
            return page
        size_bytes = 2 * page.skeleton.size_bytes
        known = self._layouts.get((engine, model, page.skeleton.prefixes))
        if known is None:
            laid_out = lay_out(page, engine=engine, model=model)
            if isinstance(laid_out, Unknown):
                return laid_out
            known = laid_out
            self._layouts.put((engine, model, page.skeleton.prefixes), known, size_bytes=size_bytes)
        if size_bytes <= self._layouts.largest_bytes:
            self._latest[replica] = (engine, model, known)
        return known.reading([page.values[index] for index in known.chosen], replica=replica, at_s=at_s)

    def keep_only(self, replicas: Collection[str]) -> None:
        """Forget the pages of all other replicas."""
        for replica in self._latest.keys() - set(replicas):
            del self._latest[replica]


def _renamed(table: EngineTable, prefix: str, families: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(
        [
            f"{alias.family(prefix)} is an old name of {prefix}{alias.renamed_to}"
            for signal in table.signals
            for alias in signal.aliases
            if alias.renamed_to is not None and families.get(signal.name) == alias.family(prefix)
        ]
    )


def _several(table: EngineTable, models: tuple[str, ...], model: str | None) -> tuple[str, ...]:
    if model is not None or len(models) < 2:
        return ()
    hint = f"; {table.several_models}" if table.several_models else ""
    return (f"adds up several models: {', '.join(models)}{hint}",)


def _unused_yet(table: EngineTable, settled: Mapping[str, Measured]) -> list[str]:
    """The signals that are zero because their series, absent from the page, come with their first use."""
    absent = {
        name
        for name, value in settled.items()
        if isinstance(value, Unknown) and value.reason is UnknownReason.MISSING_SERIES
    }
    return [
        signal.name
        for signal in table.signals
        if signal.first_use is not None and absent.issuperset((signal.name, *signal.first_use))
    ]


def _fresh(table: EngineTable, unused: Sequence[str]) -> tuple[str, ...]:
    if not set(table.required) <= set(unused) or not table.required:
        return ()
    return ("no request has come yet: series that appear with their first use are taken as zero",)


def _without_buckets(sums: CountAndSum, numbers: Mapping[str, Measured]) -> MaybeHistogram:
    count, total = numbers[sums.count], numbers[sums.total]
    if isinstance(count, Unknown):
        return count
    return total if isinstance(total, Unknown) else Histogram((), (), count, total / sums.per_s)
