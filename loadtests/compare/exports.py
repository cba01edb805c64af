"""A comparison as CSV (a row for each run) and JSON (what it comes to)."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict

from loadtests.compare.findings import CaseFindings, Pick
from loadtests.compare.records import Record

_CSV: tuple[tuple[str, Callable[[Record], object]], ...] = (
    ("case", lambda each: each.case),
    ("policy", lambda each: each.policy),
    ("setting", lambda each: each.knob),
    ("seed", lambda each: each.seed),
    ("requests", lambda each: round(each.requests)),
    ("missed", lambda each: round(each.missed, 3)),
    ("share_in_slo", lambda each: round(each.share_in_slo, 6)),
    ("gpu_hours", lambda each: round(each.gpu_hours, 4)),
    ("bound_hours", lambda each: round(each.bound_hours, 4)),
    ("ratio", lambda each: round(each.ratio, 5)),
    ("hours", lambda each: round(each.hours, 4)),
    ("changes", lambda each: each.changes),
    ("ttft_p99_s", lambda each: each.ttft_p99_s),
    ("took_s", lambda each: round(each.took_s, 3)),
)


def to_csv(records: Sequence[Record]) -> str:
    """A row for each run, without its course over time."""
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=[name for name, _ in _CSV], lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: cell(each) for name, cell in _CSV} for each in records)
    return out.getvalue()


def to_json(findings: Sequence[CaseFindings], pick: Pick, *, target: float) -> str:
    """Standings of every policy and setting, the notes, and the setting of ours to take."""
    plain = {
        "target": target,
        "pick": {**asdict(pick), "words": list(pick.words)},
        "cases": [
            {
                "case": found.case,
                "bound": found.bound_name,
                "notes": list(found.notes),
                "standings": [asdict(each) for each in found.stood],
            }
            for found in findings
        ],
    }
    return json.dumps(plain, indent=2) + "\n"
