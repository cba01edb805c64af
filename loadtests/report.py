"""One self-contained HTML page about a load: plots, the scorecard, and why the number of replicas changed."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go
from jinja2 import Environment, PackageLoader, StrictUndefined
from plotly.offline import get_plotlyjs

from loadtests.records import LoadResult
from loadtests.report_charts import demand_chart, latency_chart, replica_chart
from loadtests.scorecard import Scorecard
from loadtests.scorecard_view import cost_rows, service_rows
from loadtests.timeline import FleetSample

_PLOT_SETTINGS = {"displaylogo": False, "responsive": True, "displayModeBar": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A plot with its heading and a sentence on how to read it."""

    heading: str
    text: str
    html: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRow:
    """A change of the desired number, formatted."""

    second: str
    step: str
    reason: str
    detail: str


def report(*, title: str, result: LoadResult, samples: Sequence[FleetSample], card: Scorecard, provenance: str) -> str:
    """The page's HTML. ``provenance``: one sentence on what ran and where the arrivals are from."""
    environment = Environment(
        loader=PackageLoader("loadtests"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template("report.html.j2").render(
        title=title,
        subtitle=result.head.label,
        plotly=get_plotlyjs(),
        failures=card.failures,
        service_rows=service_rows(card.service),
        charts=_charts(result, samples, card),
        cost_rows=cost_rows(card),
        notes=[f"{baseline.name}: {baseline.how}" for baseline in card.baselines],
        changes=_changes(samples, until_s=result.head.duration_s),
        provenance=provenance,
    )


def _charts(result: LoadResult, samples: Sequence[FleetSample], card: Scorecard) -> tuple[Chart, ...]:
    return (
        Chart(
            heading="Demand and forecast",
            text="Bars: what was sent. The band runs from the forecast's median to the quantile that the fleet is "
            "sized for, each drawn at the time it was made for, so it should lie on or above the demand.",
            html=_html(demand_chart(result, samples)),
        ),
        Chart(
            heading="Replicas",
            text="All that is paid for: ready, starting and draining. The dashed line is a fleet held at its peak.",
            html=_html(replica_chart(result, samples, static_replicas=card.baselines[0].peak_replicas)),
        ),
        *_time_charts(result),
    )


def _time_charts(result: LoadResult) -> tuple[Chart, ...]:
    slo = result.head.slo
    if slo.e2e_s is not None and (slo.ttft_s, slo.itl_s) == (None, None):
        return (
            Chart(
                heading="Time of an answer",
                text="A dot for each request, at the second it was due; measured from then, so any waiting counts.",
                html=_html(latency_chart(result, seconds=lambda record: record.ttft_s, limit_s=slo.e2e_s)),
            ),
        )
    return (
        Chart(
            heading="Time to first token",
            text="A dot for each request, at the second it was due; measured from then, so any waiting counts.",
            html=_html(latency_chart(result, seconds=lambda record: record.ttft_s, limit_s=slo.ttft_s)),
        ),
        Chart(
            heading="Time between tokens",
            text="The mean gap between the tokens of each request.",
            html=_html(latency_chart(result, seconds=lambda record: record.itl_s, limit_s=slo.itl_s)),
        ),
    )


def _html(figure: go.Figure) -> str:
    html: str = figure.to_html(full_html=False, include_plotlyjs=False, config=_PLOT_SETTINGS)
    return html


def _changes(samples: Sequence[FleetSample], *, until_s: float) -> tuple[ChangeRow, ...]:
    return tuple(
        ChangeRow(
            second=f"{after.at_s:.0f}",
            step=f"{before.desired} → {after.desired}",
            reason=after.reason,
            detail=after.detail,
        )
        for before, after in itertools.pairwise(samples)
        if after.desired != before.desired and 0 <= after.at_s <= until_s
    )
