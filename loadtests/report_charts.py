"""The plots of the report."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import plotly.graph_objects as go

from loadtests.records import LoadResult, Outcome, RequestRecord
from loadtests.timeline import FleetSample

_BLUE, _ORANGE, _GREEN, _GREY, _RED = "#3b82f6", "#f59e0b", "#22a35a", "#8b949e", "#e5484d"
_BAND = "rgba(245, 158, 11, 0.2)"
_BIN_S = 2.0


def demand_chart(result: LoadResult, samples: Sequence[FleetSample]) -> go.Figure:
    """Requests sent, demand as measured, and the forecast: from its median to the quantile that replicas are sized for,
    drawn at the time it is for.
    """
    figure = _figure("requests/s")
    due = np.array([record.due_s for record in result.records])
    edges = np.arange(0.0, result.head.duration_s + _BIN_S, _BIN_S)
    sent = np.histogram(due, edges)[0] / _BIN_S
    figure.add_trace(
        go.Bar(
            x=(edges[:-1] + _BIN_S / 2).tolist(),
            y=sent.tolist(),
            name=f"sent, each {_BIN_S:g} s",
            marker={"color": _GREY, "opacity": 0.35, "line": {"width": 0}},
        )
    )
    foreseen = [sample for sample in samples if sample.forecast_rps is not None and sample.median_rps is not None]
    at = [sample.at_s + sample.lead_s for sample in foreseen]
    figure.add_trace(
        _line(at, [sample.median_rps for sample in foreseen], "forecast, median", _ORANGE, width=1, dash="dot")
    )
    band = _line(at, [sample.forecast_rps for sample in foreseen], "forecast, sized for", _ORANGE, width=1)
    band.update(fill="tonexty", fillcolor=_BAND)
    figure.add_trace(band)
    measured = [sample for sample in samples if sample.demand_rps is not None]
    figure.add_trace(
        _line(
            [sample.at_s for sample in measured],
            [sample.demand_rps for sample in measured],
            "measured by the controller",
            _BLUE,
        )
    )
    figure.update_xaxes(range=[0, result.head.duration_s])
    return figure


def replica_chart(result: LoadResult, samples: Sequence[FleetSample], *, static_replicas: int) -> go.Figure:
    """Ready, starting and draining replicas on top of one another, the number asked for, and the static peak."""
    figure = _figure("replicas")
    at = [sample.at_s for sample in samples]
    parts = (
        ("ready", _GREEN, [sample.ready for sample in samples]),
        ("starting", _ORANGE, [sample.starting for sample in samples]),
        ("draining", _GREY, [sample.draining for sample in samples]),
    )
    for name, colour, values in parts:
        layer = _line(at, values, name, colour, width=0)
        layer.update(stackgroup="replicas", line_shape="hv", fillcolor=colour)
        figure.add_trace(layer)
    wanted = _line(at, [sample.desired for sample in samples], "asked for", _BLUE)
    wanted.update(line_shape="hv")
    figure.add_trace(wanted)
    figure.add_hline(
        y=static_replicas,
        line={"color": _RED, "dash": "dash", "width": 1},
        annotation_position="top left",
        annotation={"text": "static peak", "font": {"color": _RED}},
    )
    figure.update_yaxes(rangemode="tozero", dtick=1)
    figure.update_xaxes(range=[0, result.head.duration_s])
    return figure


def latency_chart(
    result: LoadResult, *, seconds: Callable[[RequestRecord], float | None], limit_s: float | None
) -> go.Figure:
    """A point for each request at the time it was due; requests without a whole answer lie at the top of the chart."""
    figure = _figure("ms")
    slo = result.head.slo
    timed = [(record, value) for record in result.records if (value := seconds(record)) is not None]
    for name, colour, met in (("in SLO", _BLUE, True), ("missed", _RED, False)):
        chosen = [(record.due_s, value * 1e3) for record, value in timed if record.within(slo) is met]
        figure.add_trace(_dots(chosen, name, colour))
    top = 1e3 * max([limit_s or 0.0, *(value for _, value in timed)])
    lost = [(record.due_s, top) for record in result.records if record.outcome is not Outcome.FINISHED]
    if lost:
        dots = _dots(lost, "refused or unfinished", _RED)
        dots.update(marker={"symbol": "x", "size": 8, "color": _RED})
        figure.add_trace(dots)
    if limit_s is not None:
        figure.add_hline(
            y=limit_s * 1e3,
            line={"color": _ORANGE, "dash": "dash", "width": 1},
            annotation_position="top left",
            annotation={"text": f"SLO {limit_s * 1e3:g} ms", "font": {"color": _ORANGE}},
        )
    figure.update_yaxes(rangemode="tozero")
    figure.update_xaxes(range=[0, result.head.duration_s])
    return figure


def _figure(unit: str) -> go.Figure:
    figure = go.Figure()
    figure.update_layout(
        template="none",
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        margin={"l": 50, "r": 12, "t": 8, "b": 48},
        legend={"orientation": "h", "yanchor": "top", "y": -0.18, "x": 0},
        hovermode="x unified",
        height=320,
    )
    figure.update_xaxes(title={"text": "seconds of the load", "standoff": 6}, zeroline=False)
    figure.update_yaxes(title={"text": unit}, zeroline=False)
    return figure


def _line(
    x: Sequence[float], y: Sequence[float | None], name: str, colour: str, *, width: float = 2, dash: str = "solid"
) -> go.Scatter:
    return go.Scatter(
        x=list(x), y=list(y), name=name, mode="lines", line={"color": colour, "width": width, "dash": dash}
    )


def _dots(points: Sequence[tuple[float, float]], name: str, colour: str) -> go.Scatter:
    return go.Scatter(
        x=[x for x, _ in points],
        y=[round(y, 1) for _, y in points],
        name=name,
        mode="markers",
        marker={"color": colour, "size": 4, "opacity": 0.7},
    )
