"""The command ``gpu-autoscaler compare``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from autoscaler.commands.output import Output, fail


class Model(StrEnum):
    """What serves the requests; AUTO: engines where the configuration tells their step time and KV cache."""

    AUTO = "auto"
    FLUID = "fluid"
    ENGINE = "engine"


class Backend(StrEnum):
    """Over what the runs are spread."""

    LOKY = "loky"
    RAY = "ray"


def compare(
    trace: Annotated[
        list[str],
        typer.Option(
            help="A CSV file of requests or of rates (FILE#COLUMN for one of its columns), a fetched public trace, a "
            "shipped digest, or a formula; may be given again."
        ),
    ],
    *,
    config: Annotated[Path | None, typer.Option("--config", "-c", help="Your configuration.")] = None,
    service: Annotated[str | None, typer.Option(help="Which of its services, where it has several.")] = None,
    baseline: Annotated[str, typer.Option(help="What you run now, such as hpa:0.6 or keda:target=0.8.")] = "hpa",
    boot: Annotated[
        list[float] | None,
        typer.Option(help="Seconds until a replica is ready, from 0; the service's startup if not given."),
    ] = None,
    seeds: Annotated[int, typer.Option(help="Runs of each with other random numbers.")] = 1,
    peak_replicas: Annotated[
        float | None,
        typer.Option(help="Replicas that the busiest minute needs; by default 80 % of maxReplicas."),
    ] = None,
    capacity: Annotated[float | None, typer.Option(help="Requests/s that a replica of the fluid model serves.")] = None,
    model: Annotated[Model, typer.Option(help="What serves: a fluid, or engines step by step.")] = Model.AUTO,
    days: Annotated[str | None, typer.Option(metavar="FROM:TO", help="Only these days of the trace, from 0.")] = None,
    policy: Annotated[list[str] | None, typer.Option(help="A rival; by default all of them.")] = None,
    knobs: Annotated[int, typer.Option(help="Settings of each rival's knob.")] = 9,
    refine: Annotated[int, typer.Option(help="How often to halve around its best setting.")] = 1,
    change: Annotated[
        list[str] | None, typer.Option("--try", help="A setting of ours to try: intervalSeconds=5,15 .")
    ] = None,
    metric_lag: Annotated[float, typer.Option(help="Age in seconds of what a metrics server shows.")] = 15.0,
    warmup: Annotated[
        str,
        typer.Option(
            metavar="DURATION",
            help="So much of the traffic's begin is served and not scored, for whoever decides and for the bound: 30m.",
        ),
    ] = "0s",
    out: Annotated[Path, typer.Option(help="Where report, tables and the runs are kept.")] = Path("comparison"),
    jobs: Annotated[int, typer.Option(help="Processes at once; -1: one on each core.")] = -1,
    backend: Annotated[Backend, typer.Option(help="This machine's cores, or a Ray cluster.")] = Backend.LOKY,
    output: Annotated[Output, typer.Option("--output", "-o", help="table or json; by default json in a pipe.")] = (
        Output.AUTO
    ),
) -> None:
    """What your traffic would have cost and missed under this controller, under others, and at best.

    What was run is kept: the same command after an interruption continues, and after it was done only writes its
    report anew.
    """
    try:
        from loadtests.compare.choice import Choice
        from loadtests.compare.command_run import compare_and_show
    except ModuleNotFoundError as error:
        fail(f"{error}; compare needs an extra: pip install 'gpu-autoscaler[loadtest]'")

    choice = Choice(
        traces=trace,
        config=config,
        service=service,
        boots_s=tuple(boot or ()),
        seeds=seeds,
        peak_replicas=peak_replicas,
        capacity_rps=capacity,
        engine=None if model is Model.AUTO else model is Model.ENGINE,
        days=None if days is None else _days(days),
        rivals=tuple(policy or ()),
        baseline=baseline,
        tried=tuple(change or ()),
        knob_values=knobs,
        refinements=refine,
        metric_lag_s=metric_lag,
        warmup_s=_duration("--warmup", warmup),
    )
    compare_and_show(choice, out=out, jobs=jobs, backend=backend.value, output=output)


def _duration(option: str, text: str) -> float:
    from autoscaler.config.units import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        fail(f"{option}: {error}, got {text!r}")


def _days(text: str) -> tuple[float, float]:
    first, _, last = text.partition(":")
    try:
        return float(first or 0), float(last or "inf")
    except ValueError:
        fail(f"--days must be FROM:TO such as 0:7, got {text!r}")
