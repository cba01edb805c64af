"""The controller's own metrics: parseable, complete, and silent on what is not known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open_metrics
from prometheus_client.parser import text_string_to_metric_families

from adapters.serving.metrics import registry_of
from adapters.serving.store import DecisionBoard
from autoscaler.domain.plan import ServiceDecision
from autoscaler.domain.reading import Unknown, UnknownReason
from autoscaler.domain.service import Service

Decide = Callable[..., ServiceDecision]
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def read(page: str) -> Samples:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def scrape(board: DecisionBoard, now_s: float) -> Samples:
    return read(generate_latest(registry_of(board, now_s=lambda: now_s, version="1.2.3")).decode())


def of(samples: Samples, name: str, **labels: str) -> float | None:
    return samples.get((f"gpu_autoscaler_{name}", frozenset(labels.items())))


@pytest.fixture
def board(service: Callable[..., Service]) -> DecisionBoard:
    return DecisionBoard(services=(service("chat"),), stale_after_s=15.0)


def test_a_decision_is_exported(board: DecisionBoard, decision: Decide) -> None:
    board.publish(decision("chat", at_s=100.0, need=3, before=3))
    board.publish(decision("chat", at_s=105.0, need=5, before=3))
    board.ticked(at_s=105.0, duration_s=0.02)
    samples = scrape(board, 106.0)
    assert of(samples, "desired_replicas", service="chat") == 5
    assert of(samples, "replicas", service="chat", phase="ready") == 3
    assert of(samples, "demand_short_rps", service="chat") == 6.0
    assert of(samples, "forecast_rps", service="chat") == 8.0
    assert of(samples, "attained_ratio", service="chat") == 0.998
    assert of(samples, "slo_target_ratio", service="chat") == 0.99
    assert of(samples, "decisions_total", service="chat", reason="Steady") == 1
    assert of(samples, "decisions_total", service="chat", reason="ForecastLoad") == 1
    assert of(samples, "changes_total", service="chat", direction="up") == 1
    assert of(samples, "replica_seconds_total", service="chat") == 15
    assert of(samples, "last_tick_timestamp_seconds") == 105.0
    assert of(samples, "tick_duration_seconds_count") == 1
    assert of(samples, "tick_duration_seconds_bucket", le="0.025") == 1
    assert of(samples, "tick_duration_seconds_bucket", le="0.01") == 0
    assert of(samples, "build_info", version="1.2.3") == 1


def test_all_names_carry_the_prefix(board: DecisionBoard, decision: Decide) -> None:
    board.publish(decision("chat"))
    assert all(name.startswith("gpu_autoscaler_") for name, _ in scrape(board, 0.0))


def test_what_is_unknown_has_no_sample_and_is_counted(board: DecisionBoard, decision: Decide) -> None:
    board.publish(decision("chat", at_s=100.0, blind=True))
    samples = scrape(board, 100.0)
    for name in ("demand_short_rps", "demand_stable_rps", "backlog_requests", "in_flight_requests", "attained_ratio"):
        assert of(samples, name, service="chat") is None
    assert of(samples, "unknown_total", service="chat", signal="demand", reason="Timeout") == 1
    assert of(samples, "desired_replicas", service="chat") == 3
    assert of(samples, "held", service="chat") == 1


@pytest.mark.parametrize(
    ("part", "missing"),
    [
        ("forecast", ("forecast_rps", "forecast_median_rps", "forecast_quantile_ratio")),
        ("capacity", ("replica_capacity_rps",)),
    ],
)
def test_an_unknown_estimate_has_no_sample(
    board: DecisionBoard, decision: Decide, part: str, missing: tuple[str, ...]
) -> None:
    unknown: dict[str, Any] = {part: Unknown(UnknownReason.WARMING_UP)}
    board.publish(replace(decision("chat", at_s=100.0), **unknown))
    samples = scrape(board, 100.0)
    assert [of(samples, name, service="chat") for name in missing] == [None] * len(missing)
    assert of(samples, "unknown_total", service="chat", signal=part, reason="WarmingUp") == 1


def test_what_is_stale_has_no_sample_but_its_time(board: DecisionBoard, decision: Decide) -> None:
    board.publish(decision("chat", at_s=100.0))
    fresh, stale = scrape(board, 115.0), scrape(board, 115.1)
    assert of(fresh, "desired_replicas", service="chat") == 3
    for name in ("desired_replicas", "demand_short_rps", "forecast_rps", "cost_per_hour", "held"):
        assert of(stale, name, service="chat") is None
    assert of(stale, "replicas", service="chat", phase="ready") is None
    assert of(stale, "decision_timestamp_seconds", service="chat") == 100.0
    assert of(stale, "decisions_total", service="chat", reason="Steady") == 1


def test_before_the_first_decision_there_is_no_value(board: DecisionBoard) -> None:
    samples = scrape(board, 0.0)
    assert of(samples, "last_tick_timestamp_seconds") is None
    assert of(samples, "desired_replicas", service="chat") is None
    assert of(samples, "replica_seconds_total", service="chat") == 0


def test_an_odd_name_survives(board: DecisionBoard, service: Callable[..., Service], decision: Decide) -> None:
    name = 'a"b\\c\nd'
    board.configure(services=(service(name),), stale_after_s=15.0)
    board.publish(decision(name, at_s=0.0))
    assert of(scrape(board, 0.0), "desired_replicas", service=name) == 3


@pytest.mark.parametrize(
    ("accept", "parse"),
    [
        pytest.param("text/plain", text_string_to_metric_families, id="text"),
        pytest.param("application/openmetrics-text; version=1.0.0", parse_open_metrics, id="openmetrics"),
    ],
)
def test_both_formats_are_served(served: Any, decision: Decide, accept: str, parse: Callable[[str], Any]) -> None:
    served.board.publish(decision())
    reply = served.ask("/metrics", {"accept": accept})
    assert reply.status == 200
    assert reply.headers["content-type"].startswith(accept.partition(";")[0])
    assert "gpu_autoscaler_desired_replicas" in {family.name for family in parse(reply.body.decode())}
