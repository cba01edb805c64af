"""The documented comparison: the shipped defaults beside all rivals, on every public trace, written to a page of docs.

``python -m loadtests.compare.scorecard --traces FOLDER`` looks for the files it knows below FOLDER, runs what was not
run yet, and writes docs/comparison.md; with ``--engine`` docs/comparison-engine.md, of simulated engines.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from loadtests.compare.choice import Choice
from loadtests.compare.choosing import study_of
from loadtests.compare.comparing import Comparison, compare, comparison_of
from loadtests.compare.findings import CaseFindings
from loadtests.compare.standings import Standing, geometric_mean

DOCS = Path(__file__).resolve().parents[2] / "docs"
PEAK_REPLICAS = 40.0
# Of engines, which are simulated step by step.
ENGINE_PEAK_REPLICAS = 20.0
BOOTS_S = (60.0, 300.0)
# Those that a user who sizes by hand would run, and that tell the most about engines.
ENGINE_RIVALS = ("static", "hpa", "HPA, in flight", "HPA, utilisation")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredTrace:
    """A trace of the scorecard. ``file``: below the folder. ``days``: of it, None for all. ``weekly``: of a week,
    and so in the geometric mean.
    """

    file: str
    days: tuple[float, float] | None = None
    weekly: bool = False


TRACES = (
    ScoredTrace(file="azure2024_week_conv_digitised.csv", weekly=True),
    ScoredTrace(file="servegen_m-large_10min.csv", days=(0.0, 7.0), weekly=True),
    ScoredTrace(file="servegen_deepseek-r1_10min.csv"),
    ScoredTrace(file="azure2023_conv.csv"),
    ScoredTrace(file="azure2023_code.csv"),
    ScoredTrace(file="mooncake_conversation.csv"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineTrace(ScoredTrace):
    """A trace served by engines of ``profile`` under an SLO on mean ITL and TTFT."""

    profile: str = "l40s/Meta-Llama-3.1-8B/tp1"
    ttft: str = "2s"
    itl: str = "50ms"
    boots_s: tuple[float, ...] = BOOTS_S

    @property
    def config(self) -> str:
        """The configuration: nothing but what has to be given, and what the engine is."""
        slo = f"{{ttft: {self.ttft}, itl: {self.itl}}}"
        # Answers of reasoning models take minutes.
        serving = f"command: 'serve --port {{port}}', gracePeriod: 10m, stepTime: {{profile: {self.profile}}}"
        return f"services: [{{name: service, slo: {slo}, {serving}}}]\n"


ENGINE_TRACES = (
    EngineTrace(file="azure2024_week_conv_digitised.csv", days=(0.0, 1.0)),
    EngineTrace(file="servegen_deepseek-r1_10min.csv"),
    EngineTrace(file="servegen_m-large_10min.csv", days=(0.0, 3.0), boots_s=(300.0,)),
    # A prompt of 100,000 tokens takes more than 2 s on an idle replica.
    EngineTrace(
        file="mooncake_conversation.csv",
        profile="h100_sxm/Meta-Llama-3.1-8B/tp1",
        ttft="5s",
        itl="100ms",
        boots_s=(60.0,),
    ),
)

_HEAD = """\
# Comparison

What the shipped defaults cost and missed on public traces, beside other autoscalers on the same traffic, replicas,
start-up times, limits and seeds. Made by

    {command}

## How to read it

- **Ours** is the real controller on simulated time, with nothing tuned. A rival is shown at its **default** and at its
  **best** setting: the cheapest that keeps the promise, chosen after the fact on the very same traffic, as nobody can
  beforehand. It is searched for on the first seed, over {knobs} settings of its range and then {refine} times halfway
  to the neighbours of the best so far; it and those around it are judged on all seeds. "-": no setting tried keeps
  the promise.
- **Cost** is in parts of the bound **B60**: what a fleet costs that knows all traffic beforehand, has the replicas that
  each minute's mean rate needs, and keeps or restarts each at the least cost. It is no strict bound (a fleet may let
  requests wait for a moment): against the optimum of a fluid fleet it is 0.94 to 1.04.
- GPU-hours are those of all replicas from order to end: booting and draining is paid. Late, lost, refused and
  unfinished requests are misses. Arrivals are open loop.
- A fluid fleet serves (a replica serves a fixed rate; a request is in SLO when it is served within 2 s); the busiest
  minute needs {peak:g} replicas of {most}. {target:.2%} in SLO are promised. Means of {seeds}.
- Rivals are told the true capacity of a replica, which favours them; so is ours. Those that read a metrics server see
  values up to 15 s old; ours fetches its pages itself.
- Formulas, defaults and sources of the rivals: `loadtests/rivals`. Costs within 1 % are a tie.
"""

_ENGINE_HEAD = """\
# Comparison on simulated engines

As [comparison.md](comparison.md), with engines in place of a fluid: continuous batching step by step with the measured
step times of an 8B model, KV cache and queue included, and requests with the lengths of each trace as they change over
the day. Made by

    {command}

## How to read it

- **Ours** is the real controller on simulated time, told nothing but the engine's profile: it learns from the engines'
  pages what a replica bears. A rival is told the largest load at which the promise is kept with the trace's lengths
  taken together, and is shown at its **default** and at its **best** setting, chosen after the fact: the best of
  {knobs} settings of its range and of {refine} rounds halfway to the neighbours of the best so far.
- **Cost** is in parts of the bound **B_slo**: the cheapest fleet that knows all traffic beforehand and misses just what
  is allowed, by misses at steady loads, measured for the lengths of every stretch of an hour or more.
  Measured on ten replicas: where a few very long prompts decide, a larger fleet evens them out better, and may cost
  less than that.
- In SLO is a request whose time to first token and mean gap between tokens both are: within 2 s and 50 ms on an L40S,
  and within 5 s and 100 ms on an H100 for Mooncake. {target:.2%} are promised. Late, lost, refused and unfinished
  requests are misses. All replicas are paid from order to end. Arrivals are open loop.
- A replica that is given up finishes what it has, within ten minutes (`gracePeriod`); what takes longer is lost.
- The busiest minute needs {peak:g} replicas of {most}. Means of {seeds}. Costs within 1 % are a tie.
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it, and write the page."""
    parser = argparse.ArgumentParser(
        prog="python -m loadtests.compare.scorecard", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--traces", type=Path, required=True, help="the folder of the traces")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--engine", action="store_true", help="the cases of simulated engines, on a page of their own")
    parser.add_argument("--boot", type=float, action="append", help="seconds; may be given again")
    parser.add_argument("--only", action="append", default=[], help="a trace's file; may be given again")
    parser.add_argument("--knobs", type=int, default=9, help="settings of each rival's knob")
    parser.add_argument("--refine", type=int, default=2, help="how often to halve around its best setting")
    parser.add_argument("--jobs", type=int, default=-1)
    parser.add_argument("--runs", type=Path, default=Path("comparison/scorecard"), help="where runs are kept")
    parser.add_argument("--page", type=Path, help="where to write it")
    given = parser.parse_args(arguments)
    known: tuple[ScoredTrace, ...] = ENGINE_TRACES if given.engine else TRACES
    traces = [each for each in known if not given.only or each.file in given.only]
    to = given.page or DOCS / ("comparison-engine.md" if given.engine else "comparison.md")
    missing = [each.file for each in traces if not (given.traces / each.file).is_file()]
    if missing or not traces:
        parser.error(f"{given.traces} lacks {', '.join(missing) or 'every trace asked for'}")
    done: list[tuple[ScoredTrace, Comparison]] = []
    for trace in traces:
        choice = _choice(trace, given)
        compared = compare(
            study_of(choice), runs_folder=given.runs, jobs=given.jobs, backend="loky", console=Console(stderr=True)
        )
        done.append((trace, comparison_of(compared.study, compared.records)))
        # Written after each trace: a long run that is interrupted has its page so far.
        to.write_text(page(done, command=_command(given)), encoding="utf-8")


def page(done: Sequence[tuple[ScoredTrace, Comparison]], *, command: str) -> str:
    """The page's text."""
    study = done[0][1].study
    seeds = len(study.seeds)
    cases = study.cases
    head = (_HEAD if cases[0].engine is None else _ENGINE_HEAD).format(
        command=command,
        peak=PEAK_REPLICAS if cases[0].engine is None else ENGINE_PEAK_REPLICAS,
        most=cases[0].bounds.max_replicas,
        target=study.target,
        knobs=study.knob_values,
        refine=study.refinements,
        seeds="1 seed" if seeds == 1 else f"{seeds} seeds",
    )
    weekly = [found for trace, compared in done if trace.weekly for found in compared.findings]
    parts = [head, *(_weekly(weekly) if weekly else ())]
    for _, compared in done:
        for found in compared.findings:
            parts += _case(found, target=compared.study.target)
    return "\n".join(parts).rstrip() + "\n"


def _weekly(findings: Sequence[CaseFindings]) -> Iterator[str]:
    ours = [found.ours for found in findings]
    yield f"## The {len(findings)} week-long cases together\n"
    worst = min(each.share_in_slo for each in ours)
    yield "| policy | geometric mean of cost | least in SLO |\n|---|---|---|"
    yield f"| **ours, shipped defaults** | **{_mean(ours):.3f}** | {worst:.2%} |"
    for name in dict.fromkeys(each.policy for found in findings for each in found.defaults):
        defaults = [each for found in findings for each in found.defaults if each.policy == name]
        bests = [each for found in findings for each in found.bests if each.policy == name]
        least = min(each.share_in_slo for each in defaults)
        yield f"| {name}, default | {_mean(defaults):.3f} | {least:.2%} |"
        if len(bests) == len(findings):
            yield f"| {name}, best in hindsight | {_mean(bests):.3f} | {min(each.share_in_slo for each in bests):.2%} |"
    yield ""


def _mean(stood: Sequence[Standing]) -> float:
    return geometric_mean([each.ratio for each in stood])


def _case(found: CaseFindings, *, target: float) -> Iterator[str]:
    yield f"## {found.case}\n"
    yield from (f"- {note}" for note in found.notes)
    yield "\n| policy | cost, default | in SLO | setting | cost, best | in SLO | setting | changes/h |"
    yield "|---|---|---|---|---|---|---|---|"
    ours = found.ours
    mark = "" if ours.attains(target) else " (missed)"
    yield (
        f"| **ours** | **{ours.ratio:.3f}** | {ours.share_in_slo:.2%}{mark} | shipped | | | | "
        f"{ours.changes_per_hour:.1f} |"
    )
    bests = {each.policy: each for each in found.bests}
    for default in found.defaults:
        best = bests.get(default.policy)
        mark = "" if default.attains(target) else " (missed)"
        cells = "- | - | -" if best is None else f"{best.ratio:.3f} | {best.share_in_slo:.2%} | {best.knob:.4g}"
        yield (
            f"| {default.policy} | {default.ratio:.3f} | {default.share_in_slo:.2%}{mark} | {default.knob:.4g} | "
            f"{cells} | {(best or default).changes_per_hour:.1f} |"
        )
    yield ""


def _choice(trace: ScoredTrace, given: argparse.Namespace) -> Choice:
    """The comparison of one trace. The configuration of engines is written beside the runs."""
    config = None
    boots_s = tuple(given.boot or BOOTS_S)
    if isinstance(trace, EngineTrace):
        given.runs.mkdir(parents=True, exist_ok=True)
        config = given.runs / f"{Path(trace.file).stem}.yaml"
        config.write_text(trace.config, encoding="utf-8")
        boots_s = tuple(given.boot or trace.boots_s)
    return Choice(
        traces=(str(given.traces / trace.file),),
        config=config,
        boots_s=boots_s,
        seeds=given.seeds,
        peak_replicas=PEAK_REPLICAS if config is None else ENGINE_PEAK_REPLICAS,
        capacity_rps=None,
        engine=config is not None,
        days=trace.days,
        rivals=() if config is None else ENGINE_RIVALS,
        baseline="hpa",
        tried=(),
        knob_values=given.knobs,
        refinements=given.refine,
        metric_lag_s=15.0,
    )


def _command(given: argparse.Namespace) -> str:
    more = "".join(f" --only {each}" for each in given.only) + "".join(f" --boot {each:g}" for each in given.boot or ())
    more += "" if (given.knobs, given.refine) == (9, 2) else f" --knobs {given.knobs} --refine {given.refine}"
    engine = " --engine" if given.engine else ""
    return f"python -m loadtests.compare.scorecard --traces FOLDER{engine} --seeds {given.seeds}{more}"


if __name__ == "__main__":
    main()
