"""Alerts, dashboard and runbook speak of series that the controller exports, and of one another."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml

from adapters.serving.metrics import registry_of
from adapters.serving.totals import unknowns_of
from autoscaler.domain.plan import Reason
from tests.charts.pages import SERVICE, board_with_a_past, certificate_file, lost
from tests.charts.rendering import CHART

NOW_S = 1_796_040_000.0
RUNBOOK = Path(__file__).parents[2] / "docs" / "runbook.md"
_SELECTOR = re.compile(r"(gpu_autoscaler_\w+)(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
_GROUPED = re.compile(r"\b(?:by|on|without|ignoring)\s*\(([^)]*)\)")


@cache
def alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load((CHART / "files" / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


@cache
def panels() -> list[dict[str, Any]]:
    dashboard = json.loads((CHART / "files" / "dashboard.json").read_text(encoding="utf-8"))
    return list(dashboard["panels"])


def expressions() -> Iterator[Any]:
    for alert in alerts():
        yield pytest.param(alert["expr"], id=alert["alert"])
    for panel in panels():
        for target in panel["targets"]:
            yield pytest.param(target["expr"], id=f"{panel['title']} {target['refId']}")


@cache
def exported() -> Mapping[str, Mapping[str, frozenset[str]]]:
    """Every series of a real page: metric -> label -> its values."""
    found: dict[str, dict[str, set[str]]] = {}
    with TemporaryDirectory() as folder:
        files = {"external-metrics": certificate_file(Path(folder), lasts_s=86400.0)}
        board = board_with_a_past(NOW_S)
        for family in registry_of(board, now_s=lambda: NOW_S, version="1", certificates=files).collect():
            for sample in family.samples:
                labels = found.setdefault(sample.name, {})
                for name, value in sample.labels.items():
                    labels.setdefault(name, set()).add(value)
    return {name: {key: frozenset(each) for key, each in labels.items()} for name, labels in found.items()}


def test_the_page_is_a_full_one() -> None:
    assert {"gpu_autoscaler_desired_replicas", "gpu_autoscaler_unknown_total"} <= set(exported())
    assert exported()["gpu_autoscaler_desired_replicas"]["service"] == {SERVICE}


@pytest.mark.parametrize("expression", list(expressions()))
def test_it_asks_for_what_there_is(expression: str) -> None:
    named = [(found[1], found[2] or "") for found in _SELECTOR.finditer(expression)]
    assert named
    labels: set[str] = set()
    for metric, selector in named:
        assert metric in exported()
        known = exported()[metric]
        labels |= set(known)
        for label, operator, value in _MATCHER.findall(selector):
            assert label in known
            if value.startswith("$") or label == "reason":
                continue
            assert operator == "="
            assert value in known[label], f"{label} of {metric} is one of {sorted(known[label])}"
    for grouping in _GROUPED.findall(expression):
        assert {each.strip() for each in grouping.split(",") if each.strip()} <= labels


def test_reasons_in_expressions_are_reasons() -> None:
    asked = [
        value
        for param in expressions()
        for label, _, text in _MATCHER.findall(param.values[0])
        if label == "reason"
        for value in text.split("|")
    ]
    assert asked
    assert set(asked) <= {str(each) for each in Reason}


def test_the_signal_of_the_alert_is_one_that_is_counted() -> None:
    (alert,) = (each for each in alerts() if each["alert"] == "GpuAutoscalerSignalsUnknown")
    named = re.findall(r'signal="(\w+)"', alert["expr"])
    assert named == [name for name, _ in unknowns_of(lost(NOW_S))]


@pytest.mark.parametrize("alert", [pytest.param(each, id=each["alert"]) for each in alerts()])
def test_an_alert_is_complete(alert: Mapping[str, Any]) -> None:
    assert re.fullmatch(r"GpuAutoscaler([A-Z][a-z]+)+", alert["alert"])
    assert re.fullmatch(r"\d+m", alert["for"])
    assert alert["labels"]["severity"] in ("warning", "critical")
    annotations = alert["annotations"]
    assert set(annotations) == {"summary", "description", "runbook_url"}
    assert annotations["summary"].endswith(".")
    assert annotations["runbook_url"] == f"docs/runbook.md#{alert['alert'].lower()}"


def test_the_runbook_has_a_section_for_each_alert() -> None:
    text = RUNBOOK.read_text(encoding="utf-8")
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    titles = [section.partition("\n")[0].strip() for section in sections]
    assert titles == [alert["alert"] for alert in alerts()]
    for section in sections:
        assert all(word in section for word in ("**Means.**", "**Look.**", "**Do.**")), section[:40]


def test_panels_are_told_apart_and_do_not_overlap() -> None:
    assert len({panel["id"] for panel in panels()}) == len({panel["title"] for panel in panels()}) == len(panels())
    cells = [
        (x, y)
        for panel in panels()
        for place in (panel["gridPos"],)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24


def test_the_dashboard_shows_all_that_is_exported() -> None:
    shown = {found[1] for param in expressions() for found in _SELECTOR.finditer(param.values[0])}
    stems = {re.sub(r"_(total|bucket|sum|count|created)$", "", name) for name in shown}
    # Of the process, what is not CPU and memory is for whoever looks for a fault.
    own = {name for name in exported() if not name.startswith("gpu_autoscaler_process_")}
    assert {re.sub(r"_(total|bucket|sum|count|created)$", "", name) for name in own} <= stems
