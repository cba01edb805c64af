"""One run of the demo: the whole system at work on this machine, for a few minutes, with a verdict at the end.

A controller keeps a fleet of engines behind its gateway while the harness replays a public trace, sped up; then the
scorecard, an HTML report, and exit code 0 only if the run did its job.
"""

from __future__ import annotations

import argparse
import dataclasses
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import numpy as np
from rich.console import Console

from autoscaler.codec import encode
from autoscaler.domain.plan import ServiceDecision
from loadtests.arrivals import Arrivals
from loadtests.demo.api import ApiUnavailableError, ControllerApi
from loadtests.demo.baselines import baselines, computed_capacity_rps
from loadtests.demo.configuration import SERVICE, Addresses, configuration, free_addresses
from loadtests.demo.engines import DemoEngine, emulated, triton, vllm
from loadtests.demo.planning import arrivals_under, load_options
from loadtests.demo.probe import ProbeFailedError, saturated_rps
from loadtests.demo.stack import Stack, controller_command
from loadtests.demo.view import DemoView, Progress
from loadtests.records import LoadResult, RecordsFollower
from loadtests.report import report
from loadtests.scorecard import fleet_figures, score, service_figures
from loadtests.scorecard_view import scorecard_view
from loadtests.timeline import fleet_samples
from loadtests.triton_server import TritonHome

_POLL_S = 0.5
_BEFORE_S = 30.0


class DemoFailedError(Exception):
    """The demo can't go on; the message says why, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What a run left to judge. ``problems``: what went wrong with the processes themselves."""

    result: LoadResult
    decisions: tuple[ServiceDecision, ...]
    problems: tuple[str, ...]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line. 0: the run did its job; 1: it did not, or could not; 130: stopped by Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m loadtests.demo", description=__doc__.partition("\n")[0])
    parser.add_argument("--engine", choices=("emulated", "vllm", "triton"), default="emulated")
    parser.add_argument("--out", type=Path, default=Path("demo-report"), help="folder for the report and the logs")
    parser.add_argument("--vllm-python", default="", help="Python of the environment that has vLLM")
    parser.add_argument("--vllm-model", default="", help="folder of the model that vLLM serves")
    parser.add_argument("--triton-home", type=Path, default=None, help="folder of the environment that has Triton")
    given = parser.parse_args(arguments)
    if given.engine == "vllm" and not (given.vllm_python and given.vllm_model):
        parser.error("--engine vllm needs --vllm-python and --vllm-model")
    if given.engine == "triton" and given.triton_home is None:
        parser.error("--engine triton needs --triton-home")
    engine = _engine(given)
    console = Console()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    try:
        return _demo(engine, out=given.out, console=console)
    except DemoFailedError as error:
        console.print(f"[bold red]{error}")
        return 1
    except KeyboardInterrupt:
        console.print("stopped; every process of the demo has been ended")
        return 130


def _engine(given: argparse.Namespace) -> DemoEngine:
    if given.engine == "vllm":
        return vllm(python=given.vllm_python, model_dir=given.vllm_model)
    if given.engine == "triton":
        return triton(home=TritonHome(given.triton_home), repository=(given.out / "models").resolve())
    return emulated()


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _demo(engine: DemoEngine, *, out: Path, console: Console) -> int:
    _clear(out)
    engine.prepare()
    capacity_rps = _capacity_rps(engine, out=out, console=console)
    options = load_options(engine, capacity_rps=capacity_rps)
    arrivals = arrivals_under(options)
    observed = _observe(engine, options, out=out, console=console)
    samples = fleet_samples(observed.decisions, started_s=observed.result.head.started_s)
    static, others = baselines(engine, arrivals, observed.result, observed.decisions, capacity_rps=capacity_rps)
    card = score(
        service_figures(observed.result),
        fleet_figures(samples, duration_s=arrivals.duration_s),
        static=static,
        others=others,
        required_share=engine.required_share,
    )
    card = dataclasses.replace(card, failures=(*card.failures, *observed.problems))
    page = out / "report.html"
    (out / "scorecard.json").write_bytes(encode(card) + b"\n")
    page.write_text(
        report(
            title=f"Autoscaling {engine.name} replicas",
            result=observed.result,
            samples=samples,
            card=card,
            provenance=_provenance(engine, arrivals),
        ),
        encoding="utf-8",
    )
    console.print(scorecard_view(card))
    console.print(f"report: {page.resolve()}", soft_wrap=True)
    return 1 if card.failures else 0


def _clear(out: Path) -> None:
    """An output folder without the files of an earlier run."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(out / "state", ignore_errors=True)
        for old in ("records.jsonl", "scorecard.json", "report.html", "probe.jsonl"):
            (out / old).unlink(missing_ok=True)
    except OSError as error:
        raise DemoFailedError(f"the output folder can't be used: {error}") from error


def _capacity_rps(engine: DemoEngine, *, out: Path, console: Console) -> float:
    """What one replica serves within the SLO: computed from the engine's own model, or else measured."""
    if engine.model is not None:
        return computed_capacity_rps(engine, engine.model, arrivals_under(load_options(engine, capacity_rps=1.0)))
    if engine.full_rps is not None:
        return engine.full_rps * engine.usable
    console.print(f"measuring what one {engine.name} replica serves on this machine")
    try:
        saturated = saturated_rps(engine, directory=out)
    except ProbeFailedError as error:
        raise DemoFailedError(str(error)) from error
    console.print(f"{saturated:.2f} requests/s saturated, {saturated * engine.usable:.2f} taken as within the SLO")
    return saturated * engine.usable


def _observe(engine: DemoEngine, options: Sequence[str], *, out: Path, console: Console) -> Observed:
    """Start everything, run the load, stop everything."""
    addresses = free_addresses()
    config = out / "config.yaml"
    config.write_text(configuration(engine, addresses, state_dir=(out / "state").resolve()), encoding="utf-8")
    api = ControllerApi(url=addresses.api_url, service=SERVICE)
    with Stack(out) as stack:
        console.print(f"starting the controller and {engine.min_replicas} {engine.name} replica(s)")
        stack.start("controller", controller_command(config))
        _await_ready(engine, api, stack)
        console.print(f"dashboard: {addresses.api_url}/", soft_wrap=True)
        follower = RecordsFollower(out / "records.jsonl")
        stack.start("harness", _harness_command(engine, addresses, options, out / "records.jsonl"))
        with DemoView(console, dashboard=addresses.api_url + "/") as view:
            _follow(arrivals_under(options), follower, api, stack, view)
        if follower.head is None:
            raise DemoFailedError(f"the load did not start:\n{stack.log_tail('harness')}")
        result = LoadResult(head=follower.head, records=tuple(follower.records))
        decisions = _decisions(api, since_s=follower.head.started_s - _BEFORE_S)
        stack.stop("controller")
        problems = _problems(stack)
    return Observed(result=result, decisions=decisions, problems=problems)


def _await_ready(engine: DemoEngine, api: ControllerApi, stack: Stack) -> None:
    deadline_s = time.monotonic() + engine.ready_deadline_s
    while time.monotonic() < deadline_s:
        if stack.exit_code("controller") is not None:
            raise DemoFailedError(f"the controller ended:\n{stack.log_tail('controller')}")
        try:
            latest = api.latest()
        except ApiUnavailableError:
            latest = None
        if latest is not None and latest.ready >= engine.min_replicas:
            return
        time.sleep(_POLL_S)
    raise DemoFailedError(f"no replica was ready after {engine.ready_deadline_s:g} s:\n{stack.log_tail('controller')}")


def _harness_command(
    engine: DemoEngine, addresses: Addresses, options: Sequence[str], records: Path
) -> tuple[str, ...]:
    return (
        sys.executable,
        *("-m", "loadtests.harness", "--url", addresses.gateway_url, "--served-model", engine.served_model),
        *(
            ("--triton", "--slo-e2e", f"{engine.ttft_s}")
            if engine.itl_s is None
            else ("--slo-ttft", f"{engine.ttft_s}", "--slo-itl", f"{engine.itl_s}")
        ),
        *("--records", str(records)),
        *options,
    )


def _follow(arrivals: Arrivals, follower: RecordsFollower, api: ControllerApi, stack: Stack, view: DemoView) -> None:
    """Show the progress until the harness ends."""
    while True:
        ended = stack.exit_code("harness") is not None
        follower.catch_up()
        if stack.exit_code("controller") is not None:
            raise DemoFailedError(f"the controller ended during the load:\n{stack.log_tail('controller')}")
        head = follower.head
        if head is not None:
            try:
                latest = api.latest()
            except ApiUnavailableError:
                latest = None
            elapsed_s = min(time.time() - head.started_s, arrivals.duration_s)
            view.show(
                Progress(
                    elapsed_s=elapsed_s,
                    duration_s=arrivals.duration_s,
                    planned=len(arrivals),
                    sent=int(np.searchsorted(arrivals.at_s, elapsed_s)),
                    records=follower.records,
                    sample=next(iter(fleet_samples([latest], started_s=head.started_s)), None) if latest else None,
                    slo=head.slo,
                )
            )
        if ended:
            return
        time.sleep(_POLL_S)


def _decisions(api: ControllerApi, *, since_s: float) -> tuple[ServiceDecision, ...]:
    try:
        return api.decisions(since_s=since_s)
    except ApiUnavailableError as error:
        raise DemoFailedError(f"the decisions can't be read: {error}") from error


def _problems(stack: Stack) -> tuple[str, ...]:
    problems = []
    if (code := stack.exit_code("harness")) != 0:
        problems.append(f"the harness ended with status {code}")
    if (code := stack.exit_code("controller")) != 0:
        problems.append(f"the controller ended with status {code}")
    if left := stack.left_over():
        problems.append(f"{len(left)} processes were left behind: {sorted(process.name() for process in left)}")
    return tuple(problems)


def _provenance(engine: DemoEngine, arrivals: Arrivals) -> str:
    return (
        f"Arrivals: {arrivals.label}; source and licence are in loadtests/digests/README.md. "
        f"Replicas: {engine.name}, at most {engine.max_num_seqs} sequences each."
    )
