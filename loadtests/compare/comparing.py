"""A study -> its records, what they come to, and the files of a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from loadtests.compare.executing import execute
from loadtests.compare.exports import to_csv, to_json
from loadtests.compare.findings import CaseFindings, Pick, case_findings, pick
from loadtests.compare.page import comparison_page
from loadtests.compare.records import Record
from loadtests.compare.rounds import closer_runs, first_runs, surer_runs
from loadtests.compare.standings import standings
from loadtests.compare.store import Store
from loadtests.compare.study import Run, Study
from loadtests.rivals.roster import rival


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Comparison:
    """All records of a study and what they come to."""

    study: Study
    records: tuple[Record, ...]
    findings: tuple[CaseFindings, ...]
    pick: Pick


def compare(study: Study, *, runs_folder: Path, jobs: int, backend: str, console: Console) -> Comparison:
    """Run what is not in ``runs_folder`` yet, with a progress bar on ``console``. Raises BackendError."""
    store = Store(runs_folder)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console) as shown:

        def perform(runs: Sequence[Run], what: str) -> list[Record]:
            bar = shown.add_task(what, total=len(runs))
            return execute(runs, store=store, jobs=jobs, backend=backend, told=lambda run, record: shown.advance(bar))

        records = perform(first_runs(study), "policies and settings")
        for turn in range(study.refinements):
            closer = closer_runs(study, records)
            records += perform(closer, f"nearer to the best settings, {turn + 1} of {study.refinements}")
        if surer := surer_runs(study, records):
            records += perform(surer, "the best settings on all seeds")
    return comparison_of(study, records)


def comparison_of(study: Study, records: Sequence[Record]) -> Comparison:
    """What the records come to."""
    stood = standings(records)
    defaults = {name: rival(name).knob.default for name in study.rivals}
    findings = tuple(
        case_findings(
            stood,
            case=case.name,
            bound_name=case.bound_name,
            target=study.target,
            baseline=study.baseline,
            defaults=defaults,
        )
        for case in study.cases
    )
    return Comparison(study=study, records=tuple(records), findings=findings, pick=pick(findings, target=study.target))


def write_files(comparison: Comparison, folder: Path, *, made_by: str) -> tuple[Path, ...]:
    """The page, the CSV file and the JSON file; where they are."""
    folder.mkdir(parents=True, exist_ok=True)
    study, findings, chosen = comparison.study, comparison.findings, comparison.pick
    texts = {
        "report.html": comparison_page(study, comparison.records, findings, chosen, made_by=made_by),
        "runs.csv": to_csv(comparison.records),
        "comparison.json": to_json(findings, chosen, target=study.target),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return tuple(folder / name for name in texts)
