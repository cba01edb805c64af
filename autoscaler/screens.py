"""Decisions and replays for the eyes: rich tables that fit on one screen."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from autoscaler.domain.plan import Hold, ServiceDecision, Stage
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
