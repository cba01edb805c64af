"""The plots of a comparison's page."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from loadtests.compare.findings import CaseFindings, shown
from loadtests.compare.records import Floats, Record
from loadtests.compare.standings import Standing

OURS_COLOUR, BASELINE_COLOUR, DEMAND_COLOUR = "#e5484d", "#3b82f6", "#8b949e"
# Okabe and Ito's colours and their like, told apart with any kind of sight; ours has its own.
_COLOURS = (
    *("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#a6761d", "#7570b3"),
    *("#66a61e", "#1b9e77", "#999999", "#b2df8a", "#6a3d9a", "#fb9a99", "#b15928"),
)
_MARKERS = ("circle", "square", "diamond", "triangle-up", "x", "pentagon", "triangle-down", "cross")
# A logarithmic axis has no 0: fewer misses than this are drawn here.
_LEAST_MISSED = 1e-5


def frontier_chart(found: CaseFindings, *, target: float) -> go.Figure:
    """Cost against misses: a line for each rival over its knob, its default filled, and ours as one point."""
    figure = _figure(height=460)
    rivals = list(dict.fromkeys(each.policy for each in found.stood if not each.is_ours))
    defaults = {(each.policy, each.knob) for each in found.defaults}
    for index, name in enumerate(rivals):
        line = sorted((each for each in found.stood if each.policy == name), key=lambda each: each.knob or 0.0)
        colour = _COLOURS[index % len(_COLOURS)]
        figure.add_trace(
            go.Scatter(
                x=[each.ratio for each in line],
                y=[max(_LEAST_MISSED, each.missed) for each in line],
                name=name,
                mode="lines+markers",
                line={"color": colour, "width": 1.2},
                marker={
                    "color": [colour if (each.policy, each.knob) in defaults else "rgba(0,0,0,0)" for each in line],
                    "line": {"color": colour, "width": 1.5},
                    "symbol": _MARKERS[index % len(_MARKERS)],
                    "size": [11 if (each.policy, each.knob) in defaults else 7 for each in line],
                },
                text=[_told(each) for each in line],
                hovertemplate="%{text}<extra></extra>",
            )
        )
    ours = [each for each in found.stood if each.is_ours]
    figure.add_trace(
        go.Scatter(
            x=[each.ratio for each in ours],
            y=[max(_LEAST_MISSED, each.missed) for each in ours],
            name="ours, self-tuned",
            mode="markers",
            marker={
                "symbol": "star",
                "size": [20 if each is found.ours else 12 for each in ours],
                "color": OURS_COLOUR,
                "line": {"color": "white", "width": 1},
            },
            text=[_told(each) for each in ours],
            hovertemplate="%{text}<extra></extra>",
        )
    )
    figure.add_hline(y=1 - target, line={"color": OURS_COLOUR, "dash": "dash", "width": 1})
    # On a logarithmic axis a label's place is given as a logarithm, a line's is not.
    figure.add_annotation(
        text=f"promised: {100 * target:.4g} % in SLO",
        font={"color": OURS_COLOUR},
        showarrow=False,
        x=1.0,
        xref="paper",
        xanchor="right",
        y=float(np.log10(1 - target)),
        yanchor="bottom",
    )
    shown_to = max(1.6, 1.25 * found.ours.ratio, 1.1 * found.baseline.ratio)
    # What misses a tenth of the requests is of no interest however cheap.
    least = min((each.ratio for each in found.stood if each.missed < 0.1), default=1.0)
    figure.update_xaxes(
        title={"text": f"GPU-hours, times the bound {found.bound_name}"}, range=[least - 0.03, shown_to]
    )
    figure.update_yaxes(
        title={"text": "share of requests missed"},
        type="log",
        range=[-5.1, 0],
        tickvals=[1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1],
        ticktext=["≤0.001 %", "0.01 %", "0.1 %", "1 %", "10 %", "all"],
    )
    return figure


def replica_chart(
    ours: Record, others: Sequence[tuple[str, Record]], *, capacity_rps: float, name_of_ours: str = "ours"
) -> go.Figure:
    """What the demand needs, and the replicas that were ready, over time."""
    figure = _figure(height=330)
    at_h = _hours(ours)
    figure.add_trace(
        go.Scatter(
            x=at_h,
            y=_rounded(ours.buckets.demand_rps / capacity_rps),
            name="needed for the demand",
            mode="lines",
            line={"width": 0},
            fill="tozeroy",
            fillcolor="rgba(139, 148, 158, 0.35)",
        )
    )
    for (name, record), dash in zip(others, ("solid", "dot"), strict=False):
        colour = BASELINE_COLOUR if dash == "solid" else "#22a35a"
        figure.add_trace(_steps(_hours(record), record.buckets.ready, name, colour, dash=dash))
    figure.add_trace(_steps(at_h, ours.buckets.ready, name_of_ours, OURS_COLOUR))
    figure.update_xaxes(title={"text": "hours"})
    figure.update_yaxes(title={"text": "replicas ready"}, rangemode="tozero")
    return figure


def missed_chart(ours: Record, others: Sequence[tuple[str, Record]]) -> go.Figure:
    """When requests were missed, summed from the begin: a step is a spell of misses."""
    figure = _figure(height=260)
    for (name, record), dash in zip(others, ("solid", "dot"), strict=False):
        colour = BASELINE_COLOUR if dash == "solid" else "#22a35a"
        figure.add_trace(_steps(_hours(record), np.cumsum(record.buckets.missed), name, colour, dash=dash))
    figure.add_trace(_steps(_hours(ours), np.cumsum(ours.buckets.missed), "ours", OURS_COLOUR))
    figure.update_xaxes(title={"text": "hours"})
    figure.update_yaxes(title={"text": "requests missed so far"}, rangemode="tozero")
    return figure


def _told(standing: Standing) -> str:
    return f"{shown(standing)}: {standing.share_in_slo:.3%} in SLO, {standing.ratio:.3f} x bound"


def _hours(record: Record) -> list[float]:
    buckets = record.buckets
    return [round(float(each), 4) for each in np.arange(len(buckets.ready)) * buckets.bucket_s / 3600]


def _rounded(values: Floats) -> list[float]:
    return [round(float(value), 2) for value in values]


def _steps(x: list[float], y: Floats, name: str, colour: str, *, dash: str = "solid") -> go.Scatter:
    return go.Scatter(
        x=x,
        y=_rounded(y),
        name=name,
        mode="lines",
        line={"color": colour, "width": 1.6, "dash": dash, "shape": "hv"},
    )


def _figure(*, height: int) -> go.Figure:
    figure = go.Figure()
    figure.update_layout(
        template="none",
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        margin={"l": 70, "r": 12, "t": 8, "b": 48},
        # Below the axis's title, so many pixels down whatever the height.
        legend={"orientation": "h", "yanchor": "top", "y": -60 / (height - 56), "x": 0},
        height=height,
    )
    figure.update_xaxes(zeroline=False)
    figure.update_yaxes(zeroline=False)
    return figure
