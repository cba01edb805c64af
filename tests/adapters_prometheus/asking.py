"""A source over a server, and replicas as Prometheus knows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from adapters.engines.page_reader import PageReader
from adapters.prometheus.settings import PrometheusSettings
from adapters.prometheus.source import PrometheusSource
from autoscaler.domain.cluster import Replica
from autoscaler.domain.reading import EngineReading, Unknown, UnknownReason
from tests.adapters_prometheus.conftest import HandClock
from tests.adapters_prometheus.fleets import NAMES, PREFIXES, replica, snapshot

LONG_S = 30.0
URL = "http://10.0.0.%d:8000/metrics"


@contextmanager
def reading(
    url: str, clock: HandClock, interval_s: Callable[[], float] | None = None, /, **others: object
) -> Iterator[PrometheusSource]:
    asked = replace(PrometheusSettings(url=url, timeout_s=LONG_S), **others)  # type: ignore[arg-type]
    with PrometheusSource(
        asked,
        clock=clock,
        reader=PageReader(),
        names=NAMES,
        prefixes=PREFIXES,
        engines={},
        interval_s=interval_s,
    ) as source:
        yield source


def target(number: int, **others: str) -> dict[str, str]:
    """Labels as the Prometheus operator sets them."""
    named = {"namespace": "llm", "pod": f"chat-{number}", "instance": f"10.0.0.{number}:8000", "job": "llm/chat"}
    return {name: value for name, value in (named | others).items() if value}


def chat(number: int) -> Replica:
    return replica(f"llm/chat-{number}", URL % number)


def one(source: PrometheusSource, which: Replica) -> EngineReading | Unknown:
    return source.read(snapshot(which)).engines[which.name]


def reason(reading: EngineReading | Unknown) -> UnknownReason:
    assert isinstance(reading, Unknown), reading
    return reading.reason


def running(reading: EngineReading | Unknown) -> object:
    assert isinstance(reading, EngineReading), reading
    return reading.running
