"""Alerts and dashboard on a real Prometheus that scrapes the controller's own metrics page."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import yaml

from adapters.serving.api import create_app
from adapters.serving.auth import ApiSettings
from adapters.serving.server import ApiServer
from adapters.serving.store import DecisionBoard
from tests.charts.pages import board_with_a_past, certificate_file, lost, new_board, overloaded, well
from tests.charts.rendering import CHART
from tests.cluster.build import program
from tests.cluster.processes import free_port, wait_for

pytestmark = pytest.mark.cluster

ALERTS = CHART / "files" / "alerts.yaml"
TOKEN = "0123456789abcdef"
LAST_TICK = "gpu_autoscaler_last_tick_timestamp_seconds"


@dataclass
class Prometheus:
    """A running one."""

    port: int

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The samples of an expression now. Raises HTTPError for one that is wrong."""
        answer = self._get(f"/api/v1/query?{urlencode({'query': expression})}")
        assert answer["data"]["resultType"] == "vector"
        return list(answer["data"]["result"])

    def rules(self) -> list[dict[str, Any]]:
        """The alerting rules that it has loaded."""
        groups = self._get("/api/v1/rules")["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]

    def ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _get(self, path: str) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
            return dict(json.loads(answer.read()))


@contextmanager
def scraping(folder: Path, page: str, **labels: str) -> Iterator[Prometheus]:
    """A Prometheus that fetches the page five times a second, with the chart's rules. It shows the token.

    ``labels``: what service discovery would add.
    """
    rules = folder / "alerts.yaml"
    rules.write_text(ALERTS.read_text(encoding="utf-8"))
    job = {
        "job_name": "gpu-autoscaler",
        "scrape_interval": "200ms",
        "scrape_timeout": "200ms",
        "authorization": {"credentials": TOKEN},
        "static_configs": [{"targets": [page], "labels": labels}],
    }
    config = {"global": {"evaluation_interval": "1s"}, "rule_files": [str(rules)], "scrape_configs": [job]}
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
    prometheus = Prometheus(free_port())
    command = (
        str(program("prometheus")),
        f"--config.file={folder / 'prometheus.yaml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{prometheus.port}",
        "--scrape.discovery-reload-interval=100ms",  # five seconds by default, before the first scrape
    )
    with (folder / "prometheus.log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            wait_for(prometheus.ready, f"Prometheus is ready; see {folder / 'prometheus.log'}")
            yield prometheus
        finally:
            process.kill()


@dataclass
class Page:
    """The controller's page over a board that a test writes on."""

    folder: Path
    board: DecisionBoard = field(default_factory=new_board)

    def __post_init__(self) -> None:
        settings = ApiSettings(port=0, token=TOKEN)
        api = create_app(
            board=self.board,
            history=self.board,
            settings=settings,
            now_s=time.time,
            version="1",
            certificates={"external-metrics": certificate_file(self.folder, lasts_s=90 * 86400.0)},
        )
        self.server = ApiServer(api, settings)
        self.server.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server.port}"


@contextmanager
def published(folder: Path, board: DecisionBoard) -> Iterator[tuple[Page, Prometheus]]:
    page = Page(folder, board)
    try:
        with scraping(folder, page.address) as prometheus:
            yield page, prometheus
    finally:
        page.server.stop()


def alerts() -> Mapping[str, str]:
    """Expressions by name."""
    groups = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    return {rule["alert"]: rule["expr"] for group in groups for rule in group["rules"]}


# A scenario does one round of the controller. Alerts wait for minutes; here their expressions are asked for at once.
Round = Callable[[Page, int], None]


def decides(page: Page, *decisions: Any, duration_s: float = 0.01, ticked_s: float = 0.0) -> None:
    for decision in decisions:
        page.board.publish(decision)
    page.board.ticked(at_s=time.time() - ticked_s, duration_s=duration_s)


def all_is_well(page: Page, number: int) -> None:
    decides(page, well(time.time()))


def nothing_is_known(page: Page, number: int) -> None:
    decides(page, lost(time.time()))


def too_much_load(page: Page, number: int) -> None:
    decides(page, overloaded(time.time()))


def to_and_fro(page: Page, number: int) -> None:
    decides(page, *(_with(well(time.time()), count) for count in (5, 3)))


def _with(decision: Any, count: int) -> Any:
    (target,) = decision.outcome.targets
    return replace(decision, outcome=replace(decision.outcome, targets=(replace(target, replicas=count),)), ready=count)


def stands_still(page: Page, number: int) -> None:
    if number == 0:
        decides(page, well(time.time() - 300), ticked_s=300)


def has_never_decided(page: Page, number: int) -> None:
    pass


def one_is_forgotten(page: Page, number: int) -> None:
    decides(page, *([well(time.time() - 400)] if number == 0 else []))


def is_slow(page: Page, number: int) -> None:
    decides(page, well(time.time()), duration_s=6.0)


def has_an_old_certificate(page: Page, number: int) -> None:
    if number == 0:
        certificate_file(page.folder, lasts_s=3 * 86400.0)
    all_is_well(page, number)


def is_gone(page: Page, number: int) -> None:
    if number == 10:
        page.server.stop()
    elif number < 10:
        all_is_well(page, number)


SCENARIOS: dict[Round, set[str]] = {
    all_is_well: set(),
    nothing_is_known: {"ServiceHeld", "SignalsUnknown"},
    too_much_load: {"SloMissed", "ReplicasMissing", "ReplicasFailed", "AtLimit"},
    to_and_fro: {"Flapping"},
    stands_still: {"NotDeciding"},
    has_never_decided: {"NotDeciding"},
    one_is_forgotten: {"DecisionStale"},
    is_slow: {"Slow"},
    has_an_old_certificate: {"CertificateExpiring"},
    is_gone: {"Absent"},
}


@pytest.mark.parametrize("scenario", [pytest.param(each, id=each.__name__) for each in SCENARIOS])
def test_what_fires_when(tmp_path: Path, scenario: Round) -> None:
    wanted = {f"GpuAutoscaler{name}" for name in SCENARIOS[scenario]}
    with published(tmp_path, new_board()) as (page, prometheus):
        rounds = 0

        def scraped_for_a_while() -> bool:
            nonlocal rounds
            scenario(page, rounds)
            rounds += 1
            return bool(prometheus.query("count_over_time(up[1m]) > 15"))

        def firing() -> set[str]:
            nonlocal rounds
            scenario(page, rounds)
            rounds += 1
            return {name for name, expression in alerts().items() if prometheus.query(expression)}

        wait_for(scraped_for_a_while, "the page has been scraped")
        wait_for(lambda: firing() == wanted, f"{sorted(wanted)} fire, not {sorted(firing())}", within_s=30)


def test_every_alert_fires_in_some_scenario() -> None:
    fired = {f"GpuAutoscaler{name}" for names in SCENARIOS.values() for name in names}
    assert fired == set(alerts())


def test_every_panel_shows_something(tmp_path: Path) -> None:
    panels = json.loads((CHART / "files" / "dashboard.json").read_text(encoding="utf-8"))["panels"]
    asked = [target["expr"].replace("$service", ".*") for panel in panels for target in panel["targets"]]
    with published(tmp_path, board_with_a_past(time.time())) as (page, prometheus):

        def empty() -> list[str]:
            decides(page, well(time.time()))
            return [expression for expression in asked if not prometheus.query(expression)]

        wait_for(lambda: not empty(), "every panel has data", within_s=30)
        # As Grafana fills in a choice of two.
        chosen = [expression.replace(".*", "llm/chat|llm/other") for expression in asked]
        assert [expression for expression in chosen if not prometheus.query(expression)] == []


def test_the_rules_are_loaded_without_complaint(tmp_path: Path) -> None:
    with published(tmp_path, new_board()) as (page, prometheus):
        all_is_well(page, 0)
        wait_for(lambda: all(rule["health"] == "ok" for rule in prometheus.rules()), "every rule has been evaluated")
        assert {rule["name"] for rule in prometheus.rules()} == set(alerts())
