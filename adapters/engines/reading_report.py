"""A metrics page explained: each canonical signal with its value and the series it came from, or why it is unknown."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from adapters.engines.content import wrong_type
from adapters.engines.detection import TABLES, detect
from adapters.engines.exposition import PageParser, Series
from adapters.engines.fetched import FetchedPage
from adapters.engines.page_reader import NEVER, PageLayout, lay_out, parse_page
from autoscaler.domain.reading import EngineReading, MaybeHistogram, Measured, Unknown
from autoscaler.domain.service import Engine

_NUMBERS = (
    ("waiting", "requests"),
    ("running", "requests"),
    ("kv_fraction", "fraction"),
    ("completed", "requests"),
    ("refused", "requests"),
    ("prompt_tokens", "tokens"),
    ("generation_tokens", "tokens"),
)
_HISTOGRAMS = (
    ("ttft", "requests"),
    ("itl", "tokens"),
    ("request_itl", "requests"),
    ("e2e", "requests"),
    ("queue_time", "requests"),
)
_NUMBERS_OF_BATCHES = (("pending", "requests"), ("exec_count", "executions"), ("batch_mean", "items"))
_NUMBERS_OF_THE_ENGINE = (
    ("exec_items", "items"),
    ("exec_sum_s", "s"),
    ("steps", "steps"),
    ("kv_capacity_tokens", "tokens"),
    ("kv_block_tokens", "tokens"),
    ("preemptions", "requests"),
    ("started_s", "s"),
)
_WHOLE = frozenset({"requests", "tokens", "flag", "executions", "items", "steps"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalReport:
    """One canonical signal.

    ``unit``: requests, tokens, fraction, s (seconds), executions, items (of batches), steps, or flag (0 or 1).
    """

    name: str
    unit: str
    value: Measured
    series: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PageReport:
    """What a page says, always in the same signals and order. ``engine``: None where no known one was recognised."""

    engine: Engine | None
    signals: tuple[SignalReport, ...]
    warnings: tuple[str, ...]


def report_page(page: FetchedPage | Unknown, *, engine: Engine = Engine.AUTO, model: str | None = None) -> PageReport:
    """Explain a page, or why there is none. ``model``: count only this model's series."""
    if isinstance(page, Unknown):
        return _nothing_known(page)
    wrong = wrong_type(page.content_type)
    if wrong is not None:
        return _nothing_known(wrong)
    parsed = parse_page(PageParser({name for table in TABLES for name in table.sample_names()}), page.body)
    if isinstance(parsed, Unknown):
        return _nothing_known(parsed)
    layout = lay_out(parsed, engine=engine, model=model)
    if isinstance(layout, Unknown):
        detected = detect(parsed, engine)
        return _nothing_known(layout, None if isinstance(detected, Unknown) else detected[0].engine)
    values = [parsed.values[index] for index in layout.chosen]
    reading = layout.reading(values, replica="", at_s=0.0)
    return PageReport(
        engine=layout.table.engine,
        signals=(
            *[_number(name, unit, reading, layout) for name, unit in _NUMBERS],
            *[signal for name, unit in _HISTOGRAMS for signal in _histogram(name, unit, reading, layout)],
            SignalReport(
                name="arrivals_stock",
                unit="requests",
                value=reading.arrivals_stock,
                series=_series_of(layout, layout.table.arrivals_of),
            ),
            *[_number(name, unit, reading, layout) for name, unit in (*_NUMBERS_OF_BATCHES, *_NUMBERS_OF_THE_ENGINE)],
            _asleep(layout, values),
        ),
        warnings=reading.warnings,
    )


def to_json(
    report: PageReport,
    *,
    devices: Sequence[Mapping[str, object]] = (),
    rates: Sequence[SignalReport] | None = None,
) -> str:
    """The report as JSON, in a form that stays; on one line, with "rates", where these are given.

    ``{"engine": "vllm" | "unknown", "signals": {NAME: {"value": N, "unit": U, "series": [...]} or {"unknown": WHY}},
    "devices": [...], "warnings": [...]}``; what is counted is printed as a whole number where it is one. docs/read.md.
    """
    plain: dict[str, object] = {
        "engine": "unknown" if report.engine is None else report.engine.value,
        "signals": {signal.name: _plain(signal) for signal in report.signals},
        "devices": list(devices),
        "warnings": list(report.warnings),
    }
    if rates is None:
        return json.dumps(plain, indent=2, allow_nan=False)
    told = {rate.name: _plain(rate) for rate in rates}
    for rate in told.values():
        rate.pop("series", None)
    return json.dumps(plain | {"rates": told}, allow_nan=False)


def _plain(signal: SignalReport) -> dict[str, str | float | list[str]]:
    if isinstance(signal.value, Unknown):
        return {"unknown": _why(signal.value)}
    whole = signal.unit in _WHOLE and signal.value.is_integer()
    value = int(signal.value) if whole else signal.value
    return {"value": value, "unit": signal.unit, "series": list(signal.series)}


def _why(unknown: Unknown) -> str:
    return f"{unknown.reason}: {unknown.detail}" if unknown.detail else str(unknown.reason)


def _nothing_known(why: Unknown, engine: Engine | None = None) -> PageReport:
    names = [
        *_NUMBERS,
        *[part for name, unit in _HISTOGRAMS for part in ((f"{name}_count", unit), (f"{name}_sum_s", "s"))],
        ("arrivals_stock", "requests"),
        *_NUMBERS_OF_BATCHES,
        *_NUMBERS_OF_THE_ENGINE,
        ("asleep", "flag"),
    ]
    signals = tuple([SignalReport(name=name, unit=unit, value=why) for name, unit in names])
    return PageReport(engine=engine, signals=signals, warnings=(_why(why),))


def _number(name: str, unit: str, reading: EngineReading, layout: PageLayout) -> SignalReport:
    value: Measured = getattr(reading, name)
    made_of = ("exec_items", "exec_count") if name == "batch_mean" else layout.table.ingredients(name)
    return SignalReport(name=name, unit=unit, value=value, series=_series_of(layout, made_of))


def _histogram(name: str, unit: str, reading: EngineReading, layout: PageLayout) -> tuple[SignalReport, ...]:
    histogram: MaybeHistogram = getattr(reading, name)
    count: Measured = histogram if isinstance(histogram, Unknown) else histogram.count
    total: Measured = histogram if isinstance(histogram, Unknown) else histogram.total
    of_count, of_total = _parts(layout, name, "_count"), _parts(layout, name, "_sum")
    for sums in layout.table.sums:
        if sums.name == name:
            of_count, of_total = _series_of(layout, (sums.count,)), _series_of(layout, (sums.total,))
    return (
        SignalReport(name=f"{name}_count", unit=unit, value=count, series=of_count),
        SignalReport(name=f"{name}_sum_s", unit="s", value=total, series=of_total),
    )


def _asleep(layout: PageLayout, values: list[float]) -> SignalReport:
    reader = layout.scalars.get("awake")
    if reader is None:
        missing = layout.settled.get("awake", NEVER)
        return SignalReport(name="asleep", unit="flag", value=missing)
    awake = reader.read(values)
    value: Measured = awake if isinstance(awake, Unknown) else float(awake == 0)
    return SignalReport(name="asleep", unit="flag", value=value, series=_spelled(reader.series))


def _series_of(layout: PageLayout, names: Sequence[str]) -> tuple[str, ...]:
    """The series of these signals; of a histogram, its counts."""
    found: list[str] = []
    for name in names:
        if name in layout.scalars:
            found.extend(_spelled(layout.scalars[name].series))
        elif name in layout.histograms:
            found.extend(_parts(layout, name, "_count"))
        else:
            found.extend(_spelled(layout.label_series.get(name, ())))
    return tuple(found)


def _parts(layout: PageLayout, name: str, suffix: str) -> tuple[str, ...]:
    reader = layout.histograms.get(name)
    if reader is None:
        return ()
    return _spelled([one for one in reader.series if one.name == reader.family + suffix])


def _spelled(series: Sequence[Series]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([str(one) for one in series]))
