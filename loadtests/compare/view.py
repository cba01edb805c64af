"""A comparison for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from loadtests.compare.findings import CaseFindings, Pick
from loadtests.compare.standings import Standing

COLUMNS = ("policy", "setting", "in SLO", "worst", "GPU-h", "x bound", "chg/h", "")


def comparison_view(findings: Sequence[CaseFindings], pick: Pick, *, target: float) -> RenderableType:
    """A table for each case with its notes, and at the end which setting of ours to take.

    ``worst``: the share of the worst seed; ``best``: the setting that is the cheapest in hindsight.
    """
    parts: list[RenderableType] = []
    for found in findings:
        table = Table(title=f"{found.case} (bound: {found.bound_name})", title_justify="left")
        for column in COLUMNS:
            words = column in ("policy", "")
            table.add_column(column, justify="left" if words else "right", no_wrap=not words)
        for row, kept in case_rows(found, target=target):
            table.add_row(*row, style=None if kept else "dim")
        parts += [table, Text("\n".join(found.notes)), Text("")]
    parts.append(Text("\n".join(pick.words), style="bold"))
    return Group(*parts)


def case_rows(found: CaseFindings, *, target: float) -> list[tuple[tuple[str, ...], bool]]:
    """Ours, the baseline, then each rival as it is by default and at its best; whether each keeps the promise."""
    rows = [(each, "as configured" if each is found.ours else "tried") for each in found.stood if each.is_ours]
    rows.append((found.baseline, "what runs now"))
    best = {each.policy: each for each in found.bests}
    for default in found.defaults:
        mine = best.get(default.policy)
        if default is not found.baseline:
            rows.append((default, "default, best" if mine is default else "default"))
        if mine is not None and mine is not default and mine is not found.baseline:
            rows.append((mine, "best"))
    return [(row_of(each, remark), each.attains(target)) for each, remark in rows]


def row_of(standing: Standing, remark: str) -> tuple[str, ...]:
    """The cells of one policy."""
    return (
        standing.policy,
        "" if standing.knob is None else f"{standing.knob:.4g}",
        f"{standing.share_in_slo:.2%}",
        f"{standing.worst_share:.2%}",
        f"{standing.gpu_hours:.1f}",
        f"{standing.ratio:.3f}",
        f"{standing.changes_per_hour:.1f}",
        remark,
    )
