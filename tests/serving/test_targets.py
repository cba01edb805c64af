"""One number as JSON: KEDA's metrics-api scaler reads it, and takes any status but 200 for an error."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from adapters.serving.targets import TargetView
from autoscaler.domain.reading import Unknown, UnknownReason
from tests.keda.notes import NOW_S, Notes

TIMEOUT = Unknown(UnknownReason.TIMEOUT, "no answer from 4 of 4 replicas")


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
def told(serve: Callable[..., Any], notes: Notes) -> Any:
    """An API that is given publications, at the time when tests write them."""
    with serve(services=(), publications=notes) as running:
        running.clock.at_s = NOW_S
        yield running


def test_the_number_and_its_age(told: Any, notes: Notes) -> None:
    notes.publish(3, targets={"full": 1, "slice": 2}, signals={"queued_requests": 2.5})
    told.clock.at_s = NOW_S + 2.0
    reply = told.ask("/v1/targets/prod/chat")
    assert reply.status == 200
    assert reply.headers["content-type"] == "application/json"
    assert reply.json() == {
        "at_s": NOW_S,
        "age_s": 2.0,
        "stale": False,
        "namespace": "prod",
        "name": "chat",
        "metric": "desired_replicas",
        "variant": None,
        "value": 3,
    }
    assert told.ask("/v1/targets/prod/chat?variant=slice").json()["value"] == 2
    assert told.ask("/v1/targets/prod/chat?metric=queued_requests").json()["value"] == 2.5


@pytest.mark.parametrize(
    ("path", "status", "kind", "said"),
    [
        pytest.param("prod/chatt", 404, "UnknownService", "nearest name is chat", id="service"),
        pytest.param("test/chat", 404, "UnknownService", "namespace test", id="namespace"),
        pytest.param("prod/chat?metric=heat", 404, "UnknownMetric", "desired_replicas, ttft_s", id="metric"),
        pytest.param("prod/chat?variant=half", 404, "UnknownVariant", "full", id="variant"),
        pytest.param("prod/chat?metric=ttft_s", 503, "UnknownValue", TIMEOUT.detail, id="unknown value"),
        pytest.param("prod/chat?metric=ttft_s&variant=full", 422, "WrongParameter", "variant", id="both"),
        pytest.param("prod/chat?metric=", 422, "WrongParameter", "metric", id="empty"),
    ],
)
def test_no_number_is_an_error_with_a_way_out(
    told: Any, notes: Notes, *, path: str, status: int, kind: str, said: str
) -> None:
    notes.publish(3, targets={"full": 3}, signals={"ttft_s": TIMEOUT})
    reply = told.ask(f"/v1/targets/{path}")
    error = reply.json()["error"]
    assert (reply.status, error["kind"]) == (status, kind)
    assert said in error["message"]


def test_what_is_stale_unknown_or_not_loaded_is_unavailable(told: Any, notes: Notes) -> None:
    def refused() -> str:
        reply = told.ask("/v1/targets/prod/chat")
        assert reply.status == 503
        kind: str = reply.json()["error"]["kind"]
        return kind

    notes.publish(3)
    told.clock.at_s = NOW_S + 15.5
    assert refused() == "Stale"
    notes.publish(TIMEOUT, at_s=told.clock.at_s)
    assert refused() == "UnknownValue"
    notes.missing = "the API server has not answered yet"
    assert refused() == "NotLoaded"


def test_no_value_without_a_number_is_told(told: Any, notes: Notes) -> None:
    notes.publish(3, signals={"ttft_s": math.inf})
    assert told.ask("/v1/targets/prod/chat?metric=ttft_s").status == 503


def test_an_api_without_publications_has_no_such_path(served: Any) -> None:
    assert served.ask("/v1/targets/prod/chat").status == 404
    assert "/v1/targets/{namespace}/{name}" not in served.ask("/openapi.json").json()["paths"]


def test_path_and_fields_are_described(told: Any, request: pytest.FixtureRequest) -> None:
    page = (Path(request.config.rootpath) / "docs" / "api.md").read_text(encoding="utf-8")
    assert [field.name for field in fields(TargetView) if f"`{field.name}`" not in page] == []
    paths = [path for path in told.ask("/openapi.json").json()["paths"] if path.startswith("/v1/")]
    assert paths
    assert [path for path in paths if f"`GET {path}" not in page] == []
