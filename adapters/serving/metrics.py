"""The controller's own Prometheus metrics, read from the board at the moment of the scrape.

What is not known, and what is older than the board allows, is absent: a missing series is an alert, a zero is a lie.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from adapters.serving.certificate_metrics import CertificateCollector
from adapters.serving.device_metrics import DeviceCollector
from adapters.serving.store import Board, DecisionBoard, Entry
from adapters.serving.timeline import Point
from adapters.serving.totals import TICK_BOUNDS_S
from adapters.serving.views import age_of
from autoscaler.domain.demand import Demand
from autoscaler.domain.gpu_reading import OwnedDevice
from autoscaler.domain.plan import ServiceDecision
from autoscaler.domain.reading import Measured, is_known

_PREFIX = "gpu_autoscaler"
_GAUGES: tuple[tuple[str, str, Callable[[ServiceDecision, Point], Measured]], ...] = (
    ("desired_replicas", "Replicas asked for.", lambda _, p: float(p.desired)),
    ("demand_short_rps", "Arrivals per second over the short window.", lambda _, p: p.short_rps),
    ("demand_stable_rps", "Arrivals per second over the stable window.", lambda _, p: p.stable_rps),
    ("backlog_requests", "Requests that wait.", lambda _, p: p.backlog),
    (
        "in_flight_requests",
        "Requests that wait or run.",
        lambda d, _: d.demand.in_flight if isinstance(d.demand, Demand) else d.demand,
    ),
    ("forecast_rps", "Quantile of the demand foreseen one lead time ahead.", lambda _, p: p.forecast_rps),
    ("forecast_median_rps", "Median of the same.", lambda _, p: p.forecast_median_rps),
    ("forecast_quantile_ratio", "The quantile asked for.", lambda _, p: p.forecast_quantile),
    ("replica_capacity_rps", "What one replica serves within the SLO.", lambda _, p: p.capacity_rps),
    ("attained_ratio", "Share of the stable window's requests within the SLO.", lambda _, p: p.attained),
    ("cost_per_hour", "Cost of the replicas that hold devices, in the user's unit.", lambda _, p: p.cost_per_hour),
    ("lead_time_seconds", "How far ahead the forecast looks.", lambda d, _: d.lead_s),
    ("held", "1 where the service is left as it is, 0 where it is planned.", lambda _, p: float(p.held is not None)),
)


class BoardCollector(Collector):
    """The board's metrics."""

    def __init__(self, board: DecisionBoard, *, now_s: Callable[[], float], version: str) -> None:
        self._board = board
        self._now_s = now_s
        self._version = version

    def collect(self) -> Iterator[Metric]:
        """One snapshot of the board, as metric families."""
        board, now_s = self._board.board, self._now_s()
        yield InfoMetricFamily(f"{_PREFIX}_build", "What runs.", {"version": self._version})
        yield from _tick_metrics(board)
        yield from _gauges(board, now_s)
        yield from _counters(board)


def registry_of(
    board: DecisionBoard,
    *,
    now_s: Callable[[], float],
    version: str,
    devices: Callable[[], Sequence[OwnedDevice]] | None = None,
    certificates: Mapping[str, Path] | None = None,
) -> CollectorRegistry:
    """A registry of its own, with the board's metrics, the devices', and this process' CPU time and memory.

    ``certificates``: files of those that are served with, by server.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(BoardCollector(board, now_s=now_s, version=version))
    if devices is not None:
        registry.register(DeviceCollector(devices))
    if certificates:
        registry.register(CertificateCollector(certificates))
    ProcessCollector(namespace=_PREFIX, registry=registry)
    return registry


def _by_name(board: Board) -> list[tuple[str, Entry]]:
    return [(str(name), entry) for name, entry in sorted(board.entries.items())]


def _tick_metrics(board: Board) -> Iterator[Metric]:
    if board.last_tick_s is not None:
        yield GaugeMetricFamily(
            f"{_PREFIX}_last_tick_timestamp_seconds",
            "When the last round of the control loop began.",
            board.last_tick_s,
        )
    counts = list(accumulate(board.ticks.buckets))
    bounds = [*map(str, TICK_BOUNDS_S), "+Inf"]
    yield HistogramMetricFamily(
        f"{_PREFIX}_tick_duration_seconds",
        "How long a round of the control loop took.",
        buckets=list(zip(bounds, counts, strict=True)),
        sum_value=board.ticks.duration_sum_s,
    )


def _gauges(board: Board, now_s: float) -> Iterator[Metric]:
    fresh: list[tuple[str, ServiceDecision, Point]] = []
    decided_at = GaugeMetricFamily(
        f"{_PREFIX}_decision_timestamp_seconds", "When the latest decision was made.", labels=["service"]
    )
    target = GaugeMetricFamily(
        f"{_PREFIX}_slo_target_ratio", "Share of requests that should be within the SLO.", labels=["service"]
    )
    for name, entry in _by_name(board):
        if entry.service is not None:
            target.add_metric([name], entry.service.slo.share)
        if entry.decision is not None:
            decided_at.add_metric([name], entry.decision.at_s)
            if age_of(entry.decision.at_s, now_s) <= board.stale_after_s:
                fresh.append((name, entry.decision, entry.timeline.points[-1]))
    yield from (decided_at, target)
    for metric, text, value_of in _GAUGES:
        family = GaugeMetricFamily(f"{_PREFIX}_{metric}", text, labels=["service"])
        for name, decision, point in fresh:
            value = value_of(decision, point)
            if is_known(value):
                family.add_metric([name], value)
        yield family
    phases = GaugeMetricFamily(f"{_PREFIX}_replicas", "Replicas by phase.", labels=["service", "phase"])
    for name, _, point in fresh:
        for phase in ("ready", "starting", "draining", "failed"):
            phases.add_metric([name, phase], getattr(point, phase))
    yield phases


def _counters(board: Board) -> Iterator[Metric]:
    reasons = CounterMetricFamily(f"{_PREFIX}_decisions", "Decisions by what bound them.", labels=["service", "reason"])
    unknowns = CounterMetricFamily(
        f"{_PREFIX}_unknown", "Inputs of decisions that were not known.", labels=["service", "signal", "reason"]
    )
    changes = CounterMetricFamily(
        f"{_PREFIX}_changes", "Changes of the desired number.", labels=["service", "direction"]
    )
    seconds = CounterMetricFamily(
        f"{_PREFIX}_replica_seconds", "Time for which replicas held devices.", labels=["service"]
    )
    cost = CounterMetricFamily(
        f"{_PREFIX}_cost", "What they cost, in the user's unit, where it is known.", labels=["service"]
    )
    for name, entry in _by_name(board):
        totals = entry.totals
        for reason, count in sorted(totals.decisions.items()):
            reasons.add_metric([name, reason], count)
        for (signal, why), count in sorted(totals.unknowns.items()):
            unknowns.add_metric([name, signal, why], count)
        changes.add_metric([name, "up"], totals.grown)
        changes.add_metric([name, "down"], totals.shrunk)
        seconds.add_metric([name], totals.replica_s)
        cost.add_metric([name], totals.cost)
    yield from (reasons, unknowns, changes, seconds, cost)
