"""The HTML report: whole, self-contained, and with nothing of the load able to become markup."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from autoscaler.domain.service import Slo
from loadtests.baselines import Baseline
from loadtests.records import LoadHead, LoadResult, Outcome, RequestRecord
from loadtests.report import report
from loadtests.scorecard import Scorecard, fleet_figures, score, service_figures
from loadtests.scorecard_view import service_rows
from loadtests.timeline import FleetSample

SAMPLE = FleetSample(
    at_s=-1.0,
    ready=1,
    starting=0,
    draining=0,
    desired=1,
    demand_rps=None,
    forecast_rps=None,
    median_rps=None,
    capacity_rps=3.0,
    lead_s=5.0,
    reason="Steady",
    detail="",
)
SAMPLES = (
    SAMPLE,
    dataclasses.replace(
        SAMPLE,
        at_s=4.0,
        desired=3,
        demand_rps=5.0,
        forecast_rps=7.0,
        median_rps=6.0,
        reason="Grow",
        detail="more <b>is</b> foreseen",
    ),
    dataclasses.replace(SAMPLE, at_s=8.0, ready=1, starting=2, desired=3, demand_rps=6.0),
    dataclasses.replace(SAMPLE, at_s=12.0, ready=3, desired=3, demand_rps=6.0),
)


def load() -> LoadResult:
    head = LoadHead(
        url="http://127.0.0.1:1",
        label="<script>alert(1)</script>",
        started_s=0.0,
        duration_s=20.0,
        requests=40,
        slo=Slo(ttft_s=2.0, itl_s=0.1),
    )
    records = [
        RequestRecord(
            number=number,
            due_s=number / 2,
            late_s=0.0,
            prompt_tokens=10,
            asked_tokens=5,
            output_tokens=5,
            outcome=Outcome.FINISHED if number else Outcome.REFUSED,
            status=200,
            ttft_s=0.1 * (number % 25) if number else None,
            itl_s=0.05 if number else None,
            e2e_s=1.0,
        )
        for number in range(40)
    ]
    return LoadResult(head=head, records=tuple(records))


@pytest.fixture(scope="module")
def card() -> Scorecard:
    result = load()
    static = Baseline(name="static peak", how="computed", peak_replicas=4, replica_seconds=80.0, share_served=1.0)
    fleet = fleet_figures(SAMPLES, duration_s=20.0)
    return score(service_figures(result), fleet, static=static, others=(), required_share=0.98)


@pytest.fixture(scope="module")
def page(card: Scorecard) -> str:
    return report(title="Autoscaling", result=load(), samples=SAMPLES, card=card, provenance="made up")


def test_page_needs_no_network(page: str) -> None:
    without_scripts = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert "http://" not in without_scripts
    assert "https://" not in without_scripts
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=", page)


def test_page_has_its_plots_and_tables(page: str) -> None:
    assert page.count('class="plotly-graph-div"') == 4
    for text in ("Demand and forecast", "Replicas", "Time to first token", "Time between tokens", "static peak"):
        assert text in page
    assert "<td>Grow</td>" in page
    assert "1 → 3" in page
    assert "The run did not do its job" in page


def test_nothing_of_the_load_becomes_markup(page: str) -> None:
    assert "alert(1)</script>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "more &lt;b&gt;is&lt;/b&gt; foreseen" in page


def test_empty_load_has_a_page_too(card: Scorecard, tmp_path: Path) -> None:
    empty = dataclasses.replace(load(), records=())
    text = report(title="Nothing", result=empty, samples=(), card=card, provenance="")
    assert text.count('class="plotly-graph-div"') == 4


def test_answers_that_come_whole_have_one_time(card: Scorecard) -> None:
    result = load()
    whole = dataclasses.replace(result, head=dataclasses.replace(result.head, slo=Slo(e2e_s=2.0)))
    figures = service_figures(whole)
    assert [name for name, _ in service_rows(figures) if "p95" in name] == ["whole answer p50 / p95 / p99"]
    page = report(
        title="t", result=whole, samples=SAMPLES, card=dataclasses.replace(card, service=figures), provenance="p"
    )
    assert "Time of an answer" in page
    assert "Time between tokens" not in page
