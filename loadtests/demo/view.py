"""The demo's live progress in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from autoscaler.domain.service import Slo
from loadtests.records import RequestRecord
from loadtests.scorecard import Percentiles
from loadtests.timeline import FleetSample

_RECENT_S = 15.0
_LINE_EVERY_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where the demo is. ``elapsed_s`` and ``duration_s`` of the load; ``planned`` requests in all."""

    elapsed_s: float
    duration_s: float
    planned: int
    sent: int
    records: Sequence[RequestRecord]
    sample: FleetSample | None
    slo: Slo


class DemoView:
    """Draws the progress on a terminal, and a line now and then elsewhere. A context manager."""

    def __init__(self, console: Console, *, dashboard: str) -> None:
        self._console = console
        self._dashboard = dashboard
        self._live = Live(console=console, refresh_per_second=4, transient=True) if console.is_terminal else None
        self._next_line_s = 0.0

    def __enter__(self) -> DemoView:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, progress: Progress) -> None:
        """Draw it."""
        if self._live is not None:
            self._live.update(self._panel(progress))
        elif progress.elapsed_s >= self._next_line_s:
            self._next_line_s = progress.elapsed_s + _LINE_EVERY_S
            self._console.print(_line(progress), highlight=False, soft_wrap=True)

    def _panel(self, progress: Progress) -> RenderableType:
        table = Table.grid(padding=(0, 2))
        table.add_column(style="dim")
        table.add_column()
        table.add_row("dashboard", Text(self._dashboard, style="bold blue"))
        table.add_row("load", _clock(progress))
        table.add_row("", ProgressBar(total=progress.duration_s, completed=progress.elapsed_s, width=40))
        table.add_row("requests", _requests(progress))
        table.add_row("recent answers" if progress.slo.itl_s is None else "recent TTFT, ITL", _recent(progress))
        table.add_row("demand", _demand(progress.sample))
        table.add_row("replicas", _replicas(progress.sample))
        if progress.sample is not None:
            table.add_row("because", Text(f"{progress.sample.reason}: {progress.sample.detail}"))
        return Group(table)


def _line(progress: Progress) -> str:
    replicas = _replicas(progress.sample).plain
    return f"{_clock(progress)}  {_requests(progress)}  |  {_demand(progress.sample)}  |  {replicas}"


def _clock(progress: Progress) -> str:
    return f"{progress.elapsed_s:.0f} of {progress.duration_s:.0f} s"


def _requests(progress: Progress) -> str:
    ended = len(progress.records)
    good = sum(record.within(progress.slo) for record in progress.records)
    share = f"{good / ended:.1%} of {ended} in SLO" if ended else "none has ended yet"
    return f"{progress.sent} of {progress.planned} sent, {share}"


def _recent(progress: Progress) -> str:
    recent = [record for record in progress.records if record.due_s + record.e2e_s > progress.elapsed_s - _RECENT_S]
    first = Percentiles.of([record.ttft_s for record in recent if record.ttft_s is not None])
    gap = Percentiles.of([record.itl_s for record in recent if record.itl_s is not None])
    if first.p95 is not None and progress.slo.itl_s is None:
        return f"p95 {first.p95 * 1e3:.0f} ms"
    if first.p95 is None or gap.p95 is None:
        return "-"
    return f"p95 {first.p95 * 1e3:.0f} ms, {gap.p95 * 1e3:.0f} ms"


def _demand(sample: FleetSample | None) -> str:
    if sample is None or sample.demand_rps is None:
        return "demand not measured yet"
    forecast = "" if sample.forecast_rps is None else f", forecast {sample.forecast_rps:.1f}"
    return f"{sample.demand_rps:.1f} requests/s{forecast}"


def _replicas(sample: FleetSample | None) -> Text:
    text = Text()
    if sample is None:
        return text.append("-")
    text.append("■" * sample.ready, style="green")
    text.append("□" * sample.starting, style="yellow")
    text.append("▒" * sample.draining, style="dim")
    return text.append(f" {sample.ready} ready, {sample.starting} starting, {sample.draining} draining")
