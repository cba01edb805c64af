"""How well demand is foreseen, and what it costs: ``python -m benchmarks.forecast [--traces DIR] [--leads 60 300]``.

Without ``--traces`` it runs on formulas. With it, on those of the public traces that the folder holds, under the names
in ``benchmarks.forecast_loads.TRACES``. The same seed gives the same table.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from autoscaler.domain.learned import Learned
from autoscaler.ports import Forecaster, MeasuredRate, Question
from benchmarks.forecast_loads import NamedLoad, formulas, traces
from predictors.backtest import Score, compare
from predictors.mixture import LevelMixture

COST_LEAD_S = 300.0
COST_SERVICES = (1, 50, 1000)
COST_SERVICE_TICKS = 2000
COST_HISTORY_S = 7 * 86400


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, default=None, help="folder with the traces")
    parser.add_argument("--only", default="", help="loads whose name holds this")
    parser.add_argument("--leads", type=float, nargs="+", default=[60.0, 300.0], help="lead times in seconds")
    parser.add_argument("--quantiles", type=float, nargs="+", default=[0.95], help="stated coverages")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.traces is not None and not options.traces.is_dir():
        parser.error(f"--traces: {options.traces} is not a folder")
    console = Console(width=None if Console().is_terminal else 160)
    loads = formulas(options.seed) if options.traces is None else traces(options.traces, options.seed)
    _print_accuracy(
        console,
        [each for each in loads if options.only in each.name],
        leads_s=options.leads,
        quantiles=options.quantiles,
    )
    _print_cost(console)


def _print_accuracy(
    console: Console, loads: Iterable[NamedLoad], *, leads_s: list[float], quantiles: list[float]
) -> None:
    table = Table(title="Coverage: share of requests (of 30-s spans). Pinball loss in % of the mean demand.")
    for heading in ("load", "forecaster"):
        table.add_column(heading)
    for heading in ("lead s", "quantile", "covers", "pinball", "provided", "skill", "persistence"):
        table.add_column(heading, justify="right")
    for each in loads:
        for lead_s in leads_s:
            scores = compare(
                {"mixture": LevelMixture()}, each.load, lead_s=lead_s, quantiles=quantiles, skip_s=each.skip_s
            )
            for score in sorted(scores, key=lambda score: score.quantile):
                table.add_row(each.name, score.forecaster, f"{lead_s:g}", *_cells(score))
            table.add_section()
    console.print(table)
    console.print(
        "provided: mean forecast over mean demand, less 1. skill: 1 - pinball loss / that of the last value (of the "
        "same time yesterday). persistence: share of answers left to it."
    )


def _cells(score: Score) -> tuple[str, ...]:
    last, season = (
        "-" if skill is None else f"{skill:+.2f}" for skill in (score.skill_last_value, score.skill_seasonal)
    )
    return (
        f"{score.quantile:g}",
        f"{100 * score.request_coverage:.1f} ({100 * score.coverage:.1f}) %",
        f"{100 * score.pinball:.2f}",
        f"{100 * score.over_provision:+.0f} %",
        f"{last} ({season})",
        f"{100 * score.persistence:.0f} %",
    )


def _print_cost(console: Console) -> None:
    forecaster = LevelMixture()
    begun = _after_a_week(forecaster)
    size_kib = sum(array.nbytes for array in begun.arrays.values()) / 1024
    console.print(f"a week known, lead {COST_LEAD_S:g} s: memory {size_kib:.0f} KiB a service; CPU for each at a tick:")
    for services in COST_SERVICES:
        memories, ticks = [begun] * services, max(10, COST_SERVICE_TICKS // services)
        learning_s = forecasting_s = 0.0
        for tick in range(ticks):
            end_s = COST_HISTORY_S + 15.0 * tick + 20.0
            rate = MeasuredRate(end_s=end_s, span_s=15.0, rate_rps=10.0 + tick % 7, lead_s=COST_LEAD_S)
            question = Question(now_s=end_s, lead_s=COST_LEAD_S, quantile=0.95)
            begin_s = time.process_time()
            memories = forecaster.learn_all(memories, [rate] * services)
            learned_s = time.process_time()
            forecaster.forecast_all(memories, [question] * services)
            learning_s += learned_s - begin_s
            forecasting_s += time.process_time() - learned_s
        each_us = 1e6 / (ticks * services)
        console.print(
            f"{services:>6} at once: learn {learning_s * each_us:.0f} us, forecast {forecasting_s * each_us:.0f} us"
        )


def _after_a_week(forecaster: Forecaster) -> Learned:
    learned = forecaster.start()
    for end_s in range(300, COST_HISTORY_S + 1, 300):
        rate_rps = 10.0 + end_s % 3600 / 360.0
        rate = MeasuredRate(end_s=end_s, span_s=300.0, rate_rps=rate_rps, lead_s=COST_LEAD_S)
        [learned] = forecaster.learn_all([learned], [rate])
    return learned


if __name__ == "__main__":
    main()
