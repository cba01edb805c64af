"""The gateway's own pages, on a port that clients don't see: what it counted, for Prometheus, and how it is.

``/metrics``: all series, or those that ``name[]`` asks for, as Prometheus' client libraries take it. ``/healthz``: 200
while it runs. ``/readyz``: 200 once it knows its routes and until it stops, since before that it turns requests away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from adapters.local.gateway_traffic import Traffic
from autoscaler.domain.reading import GatewayReading, Histogram

PREFIX = "gpu_autoscaler_gateway"
_COUNTERS: tuple[tuple[str, str, Callable[[GatewayReading], float]], ...] = (
    ("requests", "Requests received whole.", lambda reading: reading.arrivals),
    (
        "finished",
        "Requests that a replica answered, with 4xx too.",
        lambda reading: reading.finished,
    ),
    ("failed", "Requests without an answer, with a broken one, or with one of 500 and above.", lambda r: r.failed),
    ("refused", "Requests turned away, by the gateway or by a replica (429, 503).", lambda reading: reading.refused),
    ("judged", "Requests compared with the SLO.", lambda reading: reading.judged),
    ("within_slo", "Those of the judged that met every threshold.", lambda reading: reading.within_slo),
)
_GAUGES: tuple[tuple[str, str, Callable[[GatewayReading], float]], ...] = (
    ("waiting", "Requests held because no replica is ready.", lambda reading: reading.waiting),
    ("in_flight", "Unanswered requests, the held included.", lambda reading: reading.in_flight),
)
_HISTOGRAMS: tuple[tuple[str, str, Callable[[GatewayReading], Histogram]], ...] = (
    ("ttft_seconds", "Time to the first byte of a streamed answer.", lambda reading: reading.ttft),
    ("itl_seconds", "Mean time between the pieces of a streamed answer.", lambda reading: reading.itl),
    ("e2e_seconds", "Whole time of an answered request.", lambda reading: reading.e2e),
)


class ReadingsCollector(Collector):
    """Readings as metric families, one sample of each for every service."""

    def __init__(self, readings: Sequence[GatewayReading], *, started_s: float, names: Collection[str] = ()) -> None:
        """``started_s``: when the gateway started, seconds since the epoch. ``names``: of samples; empty: all."""
        self._readings = readings
        self._started_s = started_s
        self._names = names

    def collect(self) -> Iterator[Metric]:
        """The families that were asked for."""
        if self._is_wanted("start_time_seconds"):
            started = GaugeMetricFamily(f"{PREFIX}_start_time_seconds", "When the gateway started, since the epoch.")
            started.add_metric([], self._started_s)
            yield started
        for name, about, value in _COUNTERS:
            if self._is_wanted(f"{name}_total"):
                counter = CounterMetricFamily(f"{PREFIX}_{name}", about, labels=["service"])
                for reading in self._readings:
                    counter.add_metric([reading.service], value(reading))
                yield counter
        for name, about, value in _GAUGES:
            if self._is_wanted(name):
                gauge = GaugeMetricFamily(f"{PREFIX}_{name}", about, labels=["service"])
                for reading in self._readings:
                    gauge.add_metric([reading.service], value(reading))
                yield gauge
        for name, about, histogram in _HISTOGRAMS:
            if self._is_wanted(f"{name}_bucket", f"{name}_count", f"{name}_sum"):
                family = HistogramMetricFamily(f"{PREFIX}_{name}", about, labels=["service"])
                for reading in self._readings:
                    counted = histogram(reading)
                    family.add_metric([reading.service], _buckets(counted), counted.total)
                yield family

    def _is_wanted(self, *names: str) -> bool:
        return not self._names or any(f"{PREFIX}_{name}" in self._names for name in names)


def _buckets(counted: Histogram) -> list[tuple[str, float]]:
    return [
        *((repr(bound), count) for bound, count in zip(counted.bounds, counted.counts, strict=True)),
        ("+Inf", counted.count),
    ]


def page_of(readings: Sequence[GatewayReading], *, started_s: float, names: Collection[str] = ()) -> bytes:
    """The page that tells these readings."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(ReadingsCollector(readings, started_s=started_s, names=names))
    return generate_latest(registry)


def pages(traffic: Traffic) -> web.Application:
    """The application that answers with these pages."""

    async def metrics(request: web.Request) -> web.Response:
        readings, names = tuple(traffic.readings()), frozenset(request.query.getall("name[]", ()))
        # In another thread, so that no request waits for the page of many services.
        page = await asyncio.to_thread(page_of, readings, started_s=traffic.started_s, names=names)
        return web.Response(body=page, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def healthy(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def ready(_: web.Request) -> web.Response:
        if traffic.is_ready:
            return web.Response(text="ok\n")
        return web.Response(status=503, text="it stops\n" if traffic.is_closed else "its routes are not known yet\n")

    application = web.Application()
    application.add_routes([web.get("/metrics", metrics), web.get("/healthz", healthy), web.get("/readyz", ready)])
    return application
