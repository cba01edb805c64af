"""The command ``gpu-autoscaler``. Tables on a terminal, JSON when asked or piped."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

import typer
from rich.console import Console, RenderableType

from adapters.engines.page_source import fetch_source
from adapters.engines.reading_report import PageReport, report_page, to_json
from adapters.local.recording import Recording
from adapters.wallclock import WallClock
from autoscaler.codec import to_plain
from autoscaler.compose import collect_garbage_less_often
from autoscaler.config import ConfigError, ConfigFile, json_schema, load
from autoscaler.config.resource_crd import definition_file
from autoscaler.device_pages import report_devices
from autoscaler.doctor_command import doctor
from autoscaler.domain.plan import ServiceDecision
from autoscaler.domain.service import Engine, ServiceId
from autoscaler.gateway_run import GatewayRun
from autoscaler.kubernetes_run import KubernetesRun
from autoscaler.local_look import Onlooker
from autoscaler.local_run import LocalRun
from autoscaler.manifest_commands import app as manifests_app
from autoscaler.page_watching import watched
from autoscaler.ports import PortError
from autoscaler.replaying import replay
from autoscaler.reporting import log_to
from autoscaler.screens import decision_screen, page_screen, replay_screen

app = typer.Typer(
    name="gpu-autoscaler",
    help="Holds the latency SLO of inference services at the least GPU cost.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(manifests_app, name="manifests")
app.command()(doctor)


class Output(StrEnum):
    """How an answer is written; AUTO: a table on a terminal, JSON in a pipe."""

    AUTO = "auto"
    TABLE = "table"
    JSON = "json"


Config = Annotated[Path, typer.Option("--config", "-c", help="The configuration file.")]
StateDir = Annotated[Path | None, typer.Option("--state-dir", help="The state directory, if not the file's.")]
OutputOption = Annotated[Output, typer.Option("--output", "-o", help="table or json; by default json in a pipe.")]


@app.command()
def run(
    config: Config = Path("gpu-autoscaler.yaml"),
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Decide for the recorded fleet and log, but change nothing.")
    ] = False,
    leave_running: Annotated[
        bool, typer.Option("--leave-running", help="At the end leave replicas and gateway as they are.")
    ] = False,
) -> None:
    """Keep services at their SLO: those of the configuration, on this machine, or a cluster's InferenceAutoscalers.

    The key "kubernetes" in the configuration makes it the controller of a cluster; its rights and each resource's mode
    (Advise or Scale) say whether it changes replicas, or publishes their number for HPA and KEDA.
    """
    log_to()
    collect_garbage_less_often()
    try:
        cluster = _config(config).settings.kubernetes
        if cluster is not None:
            if dry_run or leave_running:
                _fail("--dry-run and --leave-running are for this machine; in a cluster mode: Advise changes nothing")
            with KubernetesRun(_config(config), cluster) as replica:
                _stop_on_signals(replica.stop)
                replica.run()
            return
        if dry_run:
            with Onlooker(_config(config).settings) as onlooker:
                _stop_on_signals(onlooker.stop)
                onlooker.run()
            return
        with LocalRun(_config(config), leave_running=leave_running) as local:
            _stop_on_signals(local.stop)
            gateway = local.settings.gateway
            print(f"gateway    http://{gateway.host}:{gateway.port}/", file=sys.stderr)
            print(f"dashboard  {local.api.url}", file=sys.stderr, flush=True)
            local.run()
    except PortError as error:
        _fail(str(error))


@app.command()
def gateway(config: Config = Path("gpu-autoscaler.yaml")) -> None:
    """Be the gateway of a cluster, in a pod of its own: hold, route and count requests to services that name it."""
    log_to()
    collect_garbage_less_often()
    try:
        cluster = _config(config).settings.kubernetes
        if cluster is None:
            _fail("gateway is for a cluster: the configuration has no key kubernetes; `run` starts one on this machine")
        with GatewayRun(_config(config), cluster) as running:
            _stop_on_signals(running.stop)
            print(f"gateway  port {running.identity.port}, metrics {running.identity.metrics_port}", file=sys.stderr)
            running.run()
    except PortError as error:
        _fail(str(error))


@app.command()
def once(
    config: Config = Path("gpu-autoscaler.yaml"),
    *,
    after: Annotated[
        float, typer.Option(help="Seconds between a first look, for the rates, and the deciding one.", min=0.0)
    ] = 2.0,
    output: OutputOption = Output.AUTO,
) -> None:
    """Observe and decide once, print the decision, and act on nothing. Works beside a running controller."""
    try:
        with Onlooker(_config(config).settings) as onlooker:
            decision = onlooker.once(after_s=after)
    except PortError as error:
        _fail(str(error))
    _print_decisions(decision.services, output)


@app.command()
def explain(
    service: Annotated[str, typer.Argument(help="The service's name.")],
    *,
    at: Annotated[
        str | None, typer.Option(help="A time: seconds since the epoch, or 2026-11-30T12:00:00 (local).")
    ] = None,
    config: Config = Path("gpu-autoscaler.yaml"),
    state_dir: StateDir = None,
    output: OutputOption = Output.AUTO,
) -> None:
    """Why a service had the replicas it had: inputs with their ages, each stage's number and reason, what binds."""
    recording = Recording(state_dir if state_dir is not None else _config(config).settings.state_dir)
    try:
        part = recording.decision_at(ServiceId(service), _time(at))
        known = recording.services()
    except PortError as error:
        _fail(str(error))
    if part is None:
        names = ", ".join(known) or "none"
        _fail(f"no decision of service {service!r} is recorded for that time; recorded services: {names}")
    _print_decisions([part], output)


@app.command("replay")
def replay_command(
    file: Annotated[Path, typer.Argument(help="A state directory, or the state.sqlite of one.")],
    *,
    output: OutputOption = Output.AUTO,
) -> None:
    """Compute recorded decisions again and show any difference; exit code 1 if there is one."""
    total, different = 0, []
    try:
        for each in replay(Recording(file)):
            total += 1
            if each.differences:
                different.append(each)
    except PortError as error:
        _fail(str(error))
    if total == 0:
        _fail(f"{file} holds no recorded ticks")
    plain = {"decisions": total, "different": [to_plain(each) for each in different]}
    _print(replay_screen(different, total=total), plain, output)
    if different:
        raise typer.Exit(1)


@app.command()
def read(
    source: Annotated[str, typer.Argument(metavar="URL|FILE", help="A metrics page; - reads standard input.")],
    *,
    engine: Annotated[Engine, typer.Option(help="The engine, if the page should not tell it.")] = Engine.AUTO,
    model: Annotated[str | None, typer.Option(help="Count only this model's series.")] = None,
    watch: Annotated[
        float | None,
        typer.Option(min=0.5, metavar="SECONDS", help="Look again so often, and show rates, until Ctrl-C."),
    ] = None,
    output: OutputOption = Output.AUTO,
) -> None:
    """Read a metrics page as the controller does: each signal, the series it came from, what is unknown and why."""
    if watch is not None:
        if source == "-":
            _fail("--watch needs a page that can be read again, not standard input")
        with suppress(KeyboardInterrupt):
            _watch_page(source, engine=engine, model=model, every_s=watch, output=output)
        return
    try:
        page = fetch_source(source, stdin=sys.stdin.buffer)
    except PortError as error:
        _fail(str(error))
    report, found = report_page(page, engine=engine, model=model), report_devices(page)
    report = replace(report, warnings=(*found.warnings, *report.warnings))
    if _as_json(output):
        print(to_json(report, devices=found.plain()))
    else:
        Console().print(page_screen(report, found.devices))
    if report.engine is None and not found.devices:
        raise typer.Exit(1)


@app.command()
def schema(
    *,
    resource: Annotated[
        bool, typer.Option("--resource", help="The definition of the custom resource InferenceAutoscaler, as YAML.")
    ] = False,
) -> None:
    """Print the JSON schema of the configuration file, or what a cluster has to be told of the custom resource."""
    if resource:
        print(definition_file(), end="")
    else:
        print(json.dumps(json_schema(), indent=2))


@app.command()
def check(config: Config = Path("gpu-autoscaler.yaml")) -> None:
    """Read a configuration file and print it with all its defaults, or everything that is wrong with it."""
    try:
        settings = load(config)
    except ConfigError as error:
        _fail(str(error))
    for warning in settings.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    print(settings.effective, end="")


@app.command("version")
def version_command() -> None:
    """Print the version."""
    print(version("gpu-autoscaler"))


def main() -> None:
    """The entry point."""
    app()


def _watch_page(source: str, *, engine: Engine, model: str | None, every_s: float, output: Output) -> None:
    def look() -> PageReport:
        return report_page(fetch_source(source, stdin=sys.stdin.buffer), engine=engine, model=model)

    console = Console()
    for report, rates in watched(look, every_s=every_s, clock=WallClock()):
        if _as_json(output):
            print(to_json(report, rates=rates), flush=True)
        else:
            console.clear()
            console.print(page_screen(report, rates=rates))


def _config(path: Path) -> ConfigFile:
    try:
        return ConfigFile(path)
    except ConfigError as error:
        _fail(str(error))


def _stop_on_signals(stop: Callable[[], None]) -> None:
    def handle(signum: int, frame: FrameType | None) -> None:
        stop()

    signal.signal(signal.SIGTERM, handle)
    signal.signal(signal.SIGINT, handle)


def _time(text: str | None) -> float:
    if text is None:
        return sys.float_info.max
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text).astimezone().timestamp()
    except ValueError:
        _fail(f"--at: must be seconds since the epoch or an ISO time such as 2026-11-30T12:00:00, got {text!r}")


def _print_decisions(parts: list[ServiceDecision] | tuple[ServiceDecision, ...], output: Output) -> None:
    if _as_json(output):
        print(json.dumps([to_plain(part) for part in parts], indent=2))
        return
    console = Console()
    for part in parts:
        console.print(decision_screen(part))


def _print(screen: RenderableType, plain: object, output: Output) -> None:
    if _as_json(output):
        print(json.dumps(plain, indent=2))
    else:
        Console().print(screen)


def _as_json(output: Output) -> bool:
    return output is Output.JSON or (output is Output.AUTO and not sys.stdout.isatty())


def _fail(message: str) -> NoReturn:
    print(message, file=sys.stderr)
    raise typer.Exit(2)


if __name__ == "__main__":
    main()
