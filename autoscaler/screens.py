"""Decisions, pages and replays for the eyes: rich tables that fit on one screen."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from adapters.engines.reading_report import PageReport, SignalReport
from autoscaler.domain.gpu_reading import GpuReading
from autoscaler.domain.plan import Hold, ServiceDecision, Stage
from autoscaler.domain.reading import Unknown
from autoscaler.replaying import Replayed

_MOST_AGES = 8


def decision_screen(part: ServiceDecision) -> RenderableType:
    """One decision: the outcome, each stage's number and reason, the inputs and their ages, and what binds."""
    asked = sum(target.replicas for target in part.current)
    when = datetime.fromtimestamp(part.at_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    if isinstance(part.outcome, Hold):
        outcome = Text(f"holds at {part.desired}: {part.outcome.reason} {part.outcome.detail}".rstrip(), "bold yellow")
    elif part.desired == asked:
        outcome = Text(f"stays at {part.desired}", "bold")
    else:
        outcome = Text(f"{asked} -> {part.desired}", "bold green")
    fleet = f"ready {part.ready}, starting {part.starting}, draining {part.draining}, failed {part.failed}"
    head = Text.assemble(
        (part.service, "bold cyan"),
        f"  {when}\n",
        outcome,
        f"   binding: {part.binding}\n{fleet}; lead {part.lead_s:.0f} s",
    )
    return Group(head, _stages(part), _inputs(part), _ages(part))


def _stages(part: ServiceDecision) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("stage", style="cyan")
    table.add_column("replicas", justify="right")
    table.add_column("reason")
    table.add_column("why", overflow="fold")
    for stage in part.stages:
        binds = stage.reason is part.binding and stage.replicas is not None
        table.add_row(
            stage.stage,
            "" if stage.replicas is None else str(stage.replicas),
            Text(stage.reason, "bold" if binds else ""),
            stage.detail,
        )
    return table


def _inputs(part: ServiceDecision) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), title="inputs", title_justify="left", title_style="cyan")
    table.add_column("stage")
    table.add_column("value", overflow="fold")
    for stage in part.stages:
        if stage.inputs:
            table.add_row(stage.stage, ", ".join(f"{name} {_figure(value)}" for name, value in stage.inputs))
    if not any(stage.stage is Stage.MEASURE for stage in part.stages):
        table.add_row("measure", str(part.demand))
    return table


def _ages(part: ServiceDecision) -> Text:
    oldest = sorted(part.ages, key=lambda age: (-age[1], age[0]))
    shown = ", ".join(f"{name} {age_s:.1f} s" for name, age_s in oldest[:_MOST_AGES])
    more = f" and {len(oldest) - _MOST_AGES} younger" if len(oldest) > _MOST_AGES else ""
    return Text.assemble(("ages  ", "cyan"), shown + more)


def _figure(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"


def page_screen(
    report: PageReport, devices: Sequence[GpuReading] = (), *, rates: Sequence[SignalReport] = ()
) -> RenderableType:
    """A metrics page: each canonical signal, its value and series, or why it is unknown; or the devices it tells of.

    ``rates``: what happened since the last look, shown first.
    """
    warnings = [Text(f"warning: {warning}", "yellow") for warning in report.warnings]
    if devices and report.engine is None:
        return Group(_devices(devices), *warnings)
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("signal", style="cyan")
    table.add_column("value", justify="right")
    table.add_column("unit")
    table.add_column("from", overflow="fold")
    for signal in (*rates, *report.signals):
        if isinstance(signal.value, Unknown):
            table.add_row(signal.name, Text("unknown", "yellow"), "", Text(str(signal.value), "dim"))
        else:
            table.add_row(signal.name, f"{signal.value:.6g}", signal.unit, ", ".join(signal.series))
    engine = Text.assemble(("engine ", "bold"), "not recognised" if report.engine is None else report.engine.value)
    parts = [engine, table, _devices(devices)] if devices else [engine, table]
    return Group(*parts, *warnings)


def _devices(devices: Sequence[GpuReading]) -> RenderableType:
    """Devices side by side."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("device", style="cyan", overflow="fold")
    table.add_column("held by", overflow="fold")
    for column in ("engine", "SM", "DRAM", "util", "memory MiB", "W", "XID"):
        table.add_column(column, justify="right")
    for each in devices:
        shares = [each.gr_engine_active, each.sm_active, each.dram_active, each.gpu_util]
        numbers = [each.fb_used_mib, each.power_w, each.xid]
        table.add_row(
            f"{each.uuid} {each.gi}" + (f" ({each.profile})" if each.profile else "") if each.gi else each.uuid,
            str(each.holder.reason if isinstance(each.holder, Unknown) else each.holder),
            *("?" if isinstance(share, Unknown) else f"{share:.1%}" for share in shares),
            *("?" if isinstance(number, Unknown) else f"{number:.0f}" for number in numbers),
        )
    return table


def replay_screen(different: Sequence[Replayed], *, total: int) -> RenderableType:
    """The outcome of a replay: how many decisions were identical, and the first differences of those that were not."""
    summary = Text(f"{total - len(different)} of {total} decisions identical to the byte", "bold")
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("time", "service", "value", "recorded", "computed"):
        table.add_column(column, overflow="fold")
    for each in different[:20]:
        for difference in each.differences[:3]:
            table.add_row(f"{each.at_s:.3f}", each.service, difference.path, difference.recorded, difference.computed)
    return Group(summary, table) if different else summary
