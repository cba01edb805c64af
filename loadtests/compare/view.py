"""A comparison for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from loadtests.compare.findings import CaseFindings, Pick
from loadtests.compare.standings import Standing

_COLUMNS = ("policy", "setting", "in SLO", "worst", "GPU-h", "x bound", "chg/h", "")
_WORST = _COLUMNS.index("worst")


def comparison_view(findings: Sequence[CaseFindings], pick: Pick, *, target: float) -> RenderableType:
    """A table for each case with its notes, and at the end which setting of ours to take.

    ``worst``: the share of the worst seed; ``best``: the setting that is the cheapest in hindsight.
    """
    parts: list[RenderableType] = []
    for found in findings:
        # As narrow as it gets: it is read on terminals of 80 columns.
        title = f"{found.case} (bound: {found.bound_name})"
        table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
        for column in columns_of(found):
            words = column in ("policy", "")
            table.add_column(column, justify="left" if words else "right", no_wrap=column != "policy")
        for row, kept in case_rows(found, target=target):
            table.add_row(*row, style=None if kept else "dim")
        parts += [table, Text("\n".join(found.notes)), Text("")]
    parts.append(Text("\n".join(pick.words), style="bold"))
    return Group(*parts)


def columns_of(found: CaseFindings) -> tuple[str, ...]:
    """Headings of ``case_rows``; of one seed none is the worst."""
    return _COLUMNS if found.ours.seeds > 1 else (*_COLUMNS[:_WORST], *_COLUMNS[_WORST + 1 :])


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
    return [(_row_of(each, remark, several=found.ours.seeds > 1), each.attains(target)) for each, remark in rows]


def _row_of(standing: Standing, remark: str, *, several: bool) -> tuple[str, ...]:
    return (
        standing.policy,
        "" if standing.knob is None else f"{standing.knob:.4g}",
        f"{standing.share_in_slo:.2%}",
        *((f"{standing.worst_share:.2%}",) if several else ()),
        f"{standing.gpu_hours:.1f}",
        f"{standing.ratio:.3f}",
        f"{standing.changes_per_hour:.1f}",
        remark,
    )
