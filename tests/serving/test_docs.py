"""docs/api.md says all that the API says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from adapters.serving.store import Change
from adapters.serving.timeline import Point
from adapters.serving.views import ServiceDetail, ServiceList, Summary, TimelineView
from autoscaler.domain.plan import ServiceDecision


@pytest.fixture(scope="module")
def page(request: pytest.FixtureRequest) -> str:
    return (Path(request.config.rootpath) / "docs" / "api.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", [ServiceList, Summary, ServiceDetail, TimelineView, Point, Change])
def test_every_field_is_described(page: str, kind: type[Any]) -> None:
    assert [field.name for field in fields(kind) if f"`{field.name}`" not in page and field.name != "points"] == []


def test_every_path_is_described(page: str, served: Any) -> None:
    assert [path for path in served.ask("/openapi.json").json()["paths"] if f"`GET {path}" not in page] == []


def test_every_metric_is_described(page: str, served: Any, decision: Callable[..., ServiceDecision]) -> None:
    served.board.publish(decision())
    families = text_string_to_metric_families(served.ask("/metrics").body.decode())
    missing = [
        family.name
        for family in families
        if family.name not in page and not family.name.startswith("gpu_autoscaler_process_")
    ]
    assert missing == []
