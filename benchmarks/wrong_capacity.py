"""What it costs to be told a wrong capacity: `python -m benchmarks.wrong_capacity --traces FOLDER`.

The shipped controller on the week-long public traces, with starts of one and of five minutes, told 15 % too little and
too much of what a replica bears, beside a run that is told the truth. Of the time after the first day: GPU-hours of
ready and starting replicas over those of the right capacity, and the share of requests in SLO less that of the right
one, in points.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from loadtests.compare.choice import Choice
from loadtests.compare.choosing import study_of
from loadtests.compare.records import Record
from loadtests.compare.running import perform
from loadtests.compare.scorecard import BOOTS_S, PEAK_REPLICAS, TRACES, ScoredTrace
from loadtests.compare.study import Run

DAY_S = 86_400.0
ERRORS = (1 / 1.15, 1.15)


def settled(record: Record) -> tuple[float, float]:
    """GPU-hours and share in SLO of the time after the first day."""
    over_time = record.buckets
    later = np.arange(len(over_time.missed)) * over_time.bucket_s >= DAY_S
    starting = 0.0 if over_time.starting is None else over_time.starting[later]
    hours = float((over_time.ready[later] + starting).sum()) * over_time.bucket_s / 3600
    requests = float(over_time.demand_rps[later].sum()) * over_time.bucket_s
    return hours, 1 - float(over_time.missed[later].sum()) / requests


def runs_of(trace: ScoredTrace, folder: Path, *, boot_s: float, seed: int) -> list[Run]:
    """The run that is told the truth, and those that are not."""
    study = study_of(
        Choice(
            traces=(str(folder / trace.file),),
            config=None,
            boots_s=(boot_s,),
            seeds=1,
            peak_replicas=PEAK_REPLICAS,
            capacity_rps=None,
            engine=False,
            days=trace.days,
            rivals=("static",),
            baseline="static",
            tried=(),
            knob_values=1,
            refinements=0,
            metric_lag_s=0.0,
        )
    )
    [case], [ours] = study.cases, study.ours
    return [Run(case=case, policy=replace(ours, capacity_error=error), seed=seed) for error in (1.0, *ERRORS)]


def main() -> None:
    """Run it and print one line a cell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=Path, required=True, help="the folder of the traces")
    parser.add_argument("--only", action="append", default=[], help="a trace's file; may be given again")
    parser.add_argument("--boot", type=float, action="append", help="seconds; may be given again")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    known = [each for each in TRACES if each.weekly]
    traces = [each for each in known if not given.only or each.file in given.only]
    missing = [each.file for each in traces if not (given.traces / each.file).is_file()]
    if missing or not traces:
        lacking = ", ".join(missing) or f"{', '.join(given.only)}; known are {', '.join(each.file for each in known)}"
        parser.error(f"--traces {given.traces} lacks {lacking}")
    for trace in traces:
        for boot_s in given.boot or BOOTS_S:
            right, *wrong = (
                settled(perform(run)) for run in runs_of(trace, given.traces, boot_s=boot_s, seed=given.seed)
            )
            told = "; ".join(
                f"told {error - 1:+.0%}: cost x {hours / right[0]:.3f}, in SLO {100 * (share - right[1]):+.2f} points"
                for error, (hours, share) in zip(ERRORS, wrong, strict=True)
            )
            print(f"{trace.file}, boot {boot_s:.0f} s, in SLO {right[1]:.2%}: {told}", flush=True)


if __name__ == "__main__":
    main()
