"""A server that speaks Prometheus's query API over pages scraped at times that a test chooses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from aiohttp import web

from adapters.engines.exposition import PageParser

Labels = tuple[tuple[str, str], ...]
Metric = tuple[str, Labels]

_QUERY = re.compile(r"\{(.*)\}\[(\d+)ms\]", re.DOTALL)
_MATCHER = re.compile(r'(\w+)(=~|=)"((?:[^"\\]|\\.)*)"')


def as_written(value: float) -> str:
    """As Prometheus writes numbers."""
    return {"nan": "NaN", "inf": "+Inf", "-inf": "-Inf"}.get(repr(value), repr(value))


@dataclass
class ScrapedPages:
    """What a Prometheus has stored, and the time it takes to be now. ``forms``, ``headers``: of each query."""

    at_s: float = 1000.0
    samples: dict[Metric, list[tuple[float, float]]] = field(default_factory=dict)
    forms: list[Mapping[str, str]] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def scrape(self, page: bytes | None, *, at_s: float, **target: str) -> None:
        """Store a page of a target; None: it could not be scraped. Exported labels are the page's, not the target's."""
        own = {name: value for name, value in target.items() if not name.startswith("exported_")}
        self._append("up", tuple(sorted(own.items())), at_s, 0.0 if page is None else 1.0)
        if page is None:
            return
        parsed = PageParser().parse(page)
        for series, value in zip(parsed.series, parsed.values, strict=True):
            labels = dict(target)
            for name, text in series.labels:
                labels[f"exported_{name}" if name in target else name] = text
            self._append(series.name, tuple(sorted(labels.items())), at_s, value)

    def forget(self, name: str) -> None:
        """Lose all samples of this name."""
        self.samples = {metric: kept for metric, kept in self.samples.items() if metric[0] != name}

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """As a handler of POST /api/v1/query."""
        form = {name: str(value) for name, value in (await request.post()).items()}
        self.forms.append(form)
        self.headers.append(dict(request.headers))
        found = _QUERY.fullmatch(form["query"])
        assert found, form["query"]
        matchers = [(label, operator, _unescaped(text)) for label, operator, text in _MATCHER.findall(found.group(1))]
        since_s = self.at_s - int(found.group(2)) / 1000
        result = []
        for (name, labels), samples in self.samples.items():
            values = [[at_s, as_written(value)] for at_s, value in samples if since_s < at_s <= self.at_s]
            metric = {"__name__": name, **dict(labels)}
            if values and all(_fits(metric.get(label, ""), operator, text) for label, operator, text in matchers):
                result.append({"metric": metric, "values": values})
        told = {"status": "success", "data": {"resultType": "matrix", "result": result}}
        return web.json_response({**told, "warnings": self.warnings} if self.warnings else told)

    def _append(self, name: str, labels: Labels, at_s: float, value: float) -> None:
        # A series written twice on one page is stored once.
        kept = self.samples.setdefault((name, labels), [])
        if not kept or kept[-1][0] < at_s:
            kept.append((at_s, value))


def _fits(value: str, operator: str, text: str) -> bool:
    return value == text if operator == "=" else re.fullmatch(text, value) is not None


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: {"n": "\n"}.get(found.group(1), found.group(1)), text)
