"""A comparison as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from jinja2 import Environment, PackageLoader, StrictUndefined
from plotly.offline import get_plotlyjs

from autoscaler.config.units import format_duration
from loadtests.compare.charts import frontier_chart, missed_chart, replica_chart
from loadtests.compare.findings import CaseFindings, Pick, shown
from loadtests.compare.records import Record
from loadtests.compare.standings import Standing
from loadtests.compare.study import Case, Study
from loadtests.compare.view import case_rows, columns_of
from loadtests.rivals.roster import rival

_PLOT_SETTINGS = {"displaylogo": False, "responsive": True, "displayModeBar": False}
_SPELLS_EACH = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One case on the page, its plots as HTML."""

    heading: str
    about: str
    bound: str
    notes: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[tuple[str, ...], bool], ...]
    frontier: str
    replicas: str
    missed: str
    seed: int
    spells: tuple[tuple[str, ...], ...]


def comparison_page(
    study: Study, records: Sequence[Record], findings: Sequence[CaseFindings], pick: Pick, *, made_by: str
) -> str:
    """The page's HTML. ``made_by``: the command, so that it can be made again."""
    environment = Environment(
        loader=PackageLoader("loadtests"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    cases = {case.name: case for case in study.cases}
    return environment.get_template("comparison.html.j2").render(
        title="GPU-hours against missed requests",
        subtitle=", ".join(
            _counted(count, word)
            for count, word in ((len(study.cases), "case"), (len(study.seeds), "seed"), (len(records), "run"))
        ),
        plotly=get_plotlyjs(),
        verdict=pick.words,
        kept=pick.kept,
        several=len(study.seeds) > 1,
        target=f"{100 * study.target:.4g} %",
        lag=f"{study.cases[0].metric_lag_s:g}",
        sections=[_section(study, cases[found.case], records, found) for found in findings],
        policies=[_policy(name) for name in study.rivals],
        made_by=made_by,
    )


def _section(study: Study, case: Case, records: Sequence[Record], found: CaseFindings) -> Section:
    seed = study.seeds[0]
    ours = _record(records, found.ours, seed)
    # What runs now, and the best rival that did not do the very same.
    other = [each for each in found.bests if _came_to(each) != _came_to(found.baseline)]
    compared = [found.baseline, *other[:1]]
    others = [(shown(each), _record(records, each, seed)) for each in compared]
    kind = "fluid fleet" if case.engine is None else "simulated engines"
    warmup = f" The first {format_duration(case.warmup_s)} were served and not scored." if case.warmup_s else ""
    return Section(
        heading=case.name,
        about=f"{case.workload.about}. {kind.capitalize()}: a replica serves {case.capacity_rps:.3g} requests/s, "
        f"{case.bounds.min_replicas} to {case.bounds.max_replicas} replicas.{warmup}",
        bound=found.bound_name,
        notes=found.notes,
        columns=columns_of(found),
        rows=tuple(case_rows(found, target=study.target)),
        frontier=_html(frontier_chart(found, target=study.target)),
        replicas=_html(replica_chart(ours, others, capacity_rps=case.capacity_rps)),
        missed=_html(missed_chart(ours, others)),
        seed=seed,
        spells=tuple(_spells(ours, others)),
    )


def _came_to(standing: Standing) -> tuple[float, float]:
    return standing.gpu_hours, standing.missed


def _counted(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _policy(name: str) -> tuple[str, str, str, str]:
    contender = rival(name)
    return (
        name,
        contender.how,
        f"{contender.knob.name}, {contender.knob.default:g} by default",
        "; ".join(contender.sources),
    )


def _record(records: Sequence[Record], standing: Standing, seed: int) -> Record:
    wanted = (standing.case, standing.policy, standing.knob, seed)
    return next(each for each in records if (each.case, each.policy, each.knob, each.seed) == wanted)


def _spells(ours: Record, others: Sequence[tuple[str, Record]]) -> list[tuple[str, ...]]:
    """Where each missed most, in order of time: begin, who, how many, the demand before and in it, and the replicas."""
    found: list[tuple[int, tuple[str, ...]]] = []
    for name, record in [("ours", ours), *others]:
        buckets = record.buckets
        for place in np.argsort(buckets.missed)[::-1][:_SPELLS_EACH].tolist():
            if buckets.missed[place] < 1:
                break
            before = buckets.demand_rps[max(0, place - 1)]
            cells = (
                f"{place * buckets.bucket_s / 3600:.2f}",
                name,
                f"{buckets.missed[place]:.0f}",
                f"{before:.2f} → {buckets.demand_rps[place]:.2f}",
                f"{buckets.ready[place]:.1f}",
            )
            found.append((place, cells))
    return [cells for _, cells in sorted(found)]


def _html(figure: go.Figure) -> str:
    html: str = figure.to_html(full_html=False, include_plotlyjs=False, config=_PLOT_SETTINGS)
    return html
