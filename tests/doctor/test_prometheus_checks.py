"""The Prometheus that replicas are read through, asked as the controller asks it."""

from __future__ import annotations

from typing import Any

import pytest

from adapters.kubernetes.target_kinds import TARGET_KINDS
from adapters.prometheus.settings import PrometheusSettings
from autoscaler.config.resource_reading import parse_resource
from autoscaler.doctor.facts import ThroughPrometheus
from autoscaler.doctor.fetching import WantedPage, wanted_pages
from autoscaler.doctor.finding import CheckId, Severity
from autoscaler.doctor.prometheus import read_through
from autoscaler.domain.reading import Unknown, UnknownReason
from autoscaler.domain.resource import AutoscalerResource
from tests.adapters_engines.conftest import Serve, serve
from tests.adapters_prometheus.conftest import HandClock
from tests.adapters_prometheus.query_api import ScrapedPages
from tests.cluster.processes import free_port
from tests.doctor.spoiling import found
from tests.doctor.world import PAGE, World

__all__ = ["serve"]
AWAY = Unknown(UnknownReason.UNREACHABLE, "Prometheus: connection refused")
MISSING = Unknown(UnknownReason.MISSING_SERIES, "no series of it")


def pages(world: World) -> list[WantedPage]:
    wanted = parse_resource(world.resource)
    assert isinstance(wanted, AutoscalerResource)
    view = TARGET_KINDS[0].read(TARGET_KINDS[0], world.deployment).views[""]
    return list(wanted_pages([wanted], {("shop", wanted.sources[0].target): view}, world.pods))


def told(through: ThroughPrometheus | None) -> list[tuple[Severity, str]]:
    world = World(prometheus=through)
    return [(each.severity, each.message) for each in found(world) if each.check is CheckId.PROMETHEUS]


def asked(url: str, at_s: float) -> ThroughPrometheus:
    settings = PrometheusSettings(url=url, timeout_s=5.0)
    return read_through(settings, pages(World()), clock=HandClock(at_s), interval_s=15.0)


@pytest.mark.parametrize(
    ("scraped", "severity", "words"),
    [
        pytest.param(("chat-1", "chat-2"), Severity.OK, "the series of all 2 ready pods", id="all"),
        pytest.param(("chat-1",), Severity.ERROR, "nothing of 1 of 2 ready pods (shop/chat-2)", id="one is missing"),
        pytest.param((), Severity.ERROR, "nothing of 2 of 2 ready pods", id="none is scraped"),
    ],
)
def test_ready_pods_are_looked_for(serve: Serve, scraped: tuple[str, ...], severity: Severity, words: str) -> None:
    prometheus = ScrapedPages(at_s=1000.0)
    for at_s in (985.0, 999.0):
        for pod in scraped:
            prometheus.scrape(PAGE, at_s=at_s, namespace="shop", pod=pod, instance=f"{pod}:8000", job="engines")
    ((seen, message),) = told(asked(serve(prometheus.answer), 1000.0))
    assert seen is severity
    assert words in message


def test_one_that_is_away_is_an_error() -> None:
    ((severity, message),) = told(asked(f"http://127.0.0.1:{free_port()}", 1000.0))
    assert severity is Severity.ERROR
    assert "tells nothing of any ready pod" in message


@pytest.mark.parametrize(
    ("readings", "severity", "words"),
    [
        pytest.param({}, Severity.WARNING, "was not asked", id="no ready pod"),
        pytest.param({"shop/a": AWAY, "shop/b": AWAY}, Severity.ERROR, "of any ready pod", id="away"),
        pytest.param({"shop/a": AWAY, "shop/b": MISSING}, Severity.ERROR, "2 of 2 ready pods", id="of one only"),
    ],
)
def test_faults_are_told(readings: dict[str, Any], severity: Severity, words: str) -> None:
    ((seen, message),) = told(ThroughPrometheus(url="http://prometheus:9090", readings=readings))
    assert seen is severity
    assert words in message


def test_without_one_nothing_is_asked() -> None:
    assert told(None) == [(Severity.OK, "replicas are read directly")]
