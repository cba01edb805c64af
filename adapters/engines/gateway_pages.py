"""The page of a gateway (``gpu_autoscaler_gateway_*``) to one reading for each of its services."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from adapters.engines.exposition import Page, PageParser, UnreadablePageError
from adapters.engines.signals import MAX_COUNT
from autoscaler.domain.reading import GatewayReading, Histogram, Unknown, UnknownReason

PREFIX = "gpu_autoscaler_gateway_"
WAITING = f"{PREFIX}waiting"
_STARTED = f"{PREFIX}start_time_seconds"
_NUMBERS = {
    f"{PREFIX}requests_total": "arrivals",
    f"{PREFIX}finished_total": "finished",
    f"{PREFIX}failed_total": "failed",
    f"{PREFIX}refused_total": "refused",
    f"{PREFIX}judged_total": "judged",
    f"{PREFIX}within_slo_total": "within_slo",
    WAITING: "waiting",
    f"{PREFIX}in_flight": "in_flight",
}
_HISTOGRAMS = {f"{PREFIX}{name}_seconds": name for name in ("ttft", "itl", "e2e")}
_PARTS = {
    f"{family}_{part}": (name, part) for family, name in _HISTOGRAMS.items() for part in ("bucket", "count", "sum")
}
# Some 75 lines for a service.
_MAX_BYTES = 16 * 1024 * 1024


@dataclass
class _Parts:
    """What was found of one histogram."""

    buckets: dict[float, float] = field(default_factory=dict)
    count: float | None = None
    total: float | None = None


@dataclass
class _Found:
    """What was found of one service."""

    numbers: dict[str, float] = field(default_factory=dict)
    histograms: dict[str, _Parts] = field(default_factory=dict)


class GatewayPageReader:
    """Reads pages; remembers the series it has met. For one thread."""

    def __init__(self) -> None:
        names = (*_NUMBERS, *_PARTS, _STARTED)
        self._parser = PageParser(names, max_wanted_bytes=_MAX_BYTES)

    def read(self, body: bytes, *, at_s: float) -> Mapping[str, GatewayReading | Unknown] | Unknown:
        """Its services' readings, or why one, or all, can't be had. Never fewer numbers than a gateway tells."""
        try:
            page = self._parser.parse(body)
        except UnreadablePageError as error:
            return Unknown(error.reason, error.detail)
        started = [value for series, value in zip(page.series, page.values, strict=True) if series.name == _STARTED]
        if len(started) != 1 or not math.isfinite(started[0]):
            return Unknown(UnknownReason.MISSING_SERIES, f"{_STARTED}: is it a gateway's page?")
        return {
            service: _reading(found, service=service, started_s=started[0], at_s=at_s)
            for service, found in _by_service(page).items()
        }

    def waiting(self, body: bytes) -> frozenset[str]:
        """Services that hold requests; none where the page can't be read."""
        try:
            page = self._parser.parse(body)
        except UnreadablePageError:
            return frozenset()
        return frozenset(service for service, found in _by_service(page).items() if found.numbers.get("waiting", 0) > 0)


def _by_service(page: Page) -> Mapping[str, _Found]:
    services: dict[str, _Found] = {}
    for series, value in zip(page.series, page.values, strict=True):
        labels = dict(series.labels)
        if "service" not in labels:
            continue
        found = services.setdefault(labels["service"], _Found())
        if series.name in _NUMBERS:
            found.numbers[_NUMBERS[series.name]] = value
        elif series.name in _PARTS:
            name, part = _PARTS[series.name]
            parts = found.histograms.setdefault(name, _Parts())
            if part == "count":
                parts.count = value
            elif part == "sum":
                parts.total = value
            else:
                parts.buckets[_bound(labels.get("le", ""))] = value
    return services


def _bound(text: str) -> float:
    """NaN where it is none."""
    try:
        return math.nan if "_" in text else float(text)
    except ValueError:
        return math.nan


def _reading(found: _Found, *, service: str, started_s: float, at_s: float) -> GatewayReading | Unknown:
    for series, name in _NUMBERS.items():
        value = found.numbers.get(name)
        if value is None:
            return Unknown(UnknownReason.MISSING_SERIES, f"{series} of {service}")
        if not 0 <= value <= MAX_COUNT:
            return Unknown(UnknownReason.OUT_OF_RANGE, f"{series} of {service}: {value:g}")
    histograms: dict[str, Histogram] = {}
    for family, name in _HISTOGRAMS.items():
        made = _histogram(found.histograms.get(name, _Parts()))
        if made is None:
            return Unknown(UnknownReason.MISSING_SERIES, f"{family} of {service} is no whole histogram")
        histograms[name] = made
    numbers = found.numbers
    return GatewayReading(
        service=service,
        at_s=at_s,
        started_s=started_s,
        arrivals=numbers["arrivals"],
        finished=numbers["finished"],
        failed=numbers["failed"],
        refused=numbers["refused"],
        waiting=numbers["waiting"],
        in_flight=numbers["in_flight"],
        judged=numbers["judged"],
        within_slo=numbers["within_slo"],
        ttft=histograms["ttft"],
        itl=histograms["itl"],
        e2e=histograms["e2e"],
    )


def _histogram(parts: _Parts) -> Histogram | None:
    bounds = sorted(bound for bound in parts.buckets if math.isfinite(bound))
    counts = [parts.buckets[bound] for bound in bounds]
    if parts.count is None or parts.total is None or not bounds or any(map(math.isnan, parts.buckets)):
        return None
    rising = [0.0, *counts, parts.count, MAX_COUNT]
    if any(map(math.isnan, rising)) or rising != sorted(rising) or not 0 <= parts.total < math.inf:
        return None
    return Histogram(tuple(bounds), tuple(counts), parts.count, parts.total)
