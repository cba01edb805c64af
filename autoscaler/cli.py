"""The command ``gpu-autoscaler``. Tables on a terminal, JSON when asked or piped.

What a command does is imported when it is given: all of them together take seconds of processor time to import.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from autoscaler.commands.output import Output
from autoscaler.doctor_command import doctor
from autoscaler.domain.service import Engine
from autoscaler.manifest_commands import app as manifests_app
from loadtests.commands import add_simulation_commands

app = typer.Typer(
    name="gpu-autoscaler",
    help="Holds the latency SLO of inference services at the least GPU cost.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(manifests_app, name="manifests")
app.command()(doctor)
add_simulation_commands(app)

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
    from autoscaler.commands.running import run_controller

    run_controller(config, dry_run=dry_run, leave_running=leave_running)


@app.command()
def gateway(config: Config = Path("gpu-autoscaler.yaml")) -> None:
    """Be the gateway of a cluster, in a pod of its own: hold, route and count requests to services that name it."""
    from autoscaler.commands.fronting import run_gateway

    run_gateway(config)


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
    from autoscaler.commands.deciding import decide_once

    decide_once(config, after_s=after, output=output)


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
    from autoscaler.commands.deciding import explain_decision

    explain_decision(service, at=at, config=config, state_dir=state_dir, output=output)


@app.command("replay")
def replay_command(
    file: Annotated[Path, typer.Argument(help="A state directory, or the state.sqlite of one.")],
    *,
    output: OutputOption = Output.AUTO,
) -> None:
    """Compute recorded decisions again and show any difference; exit code 1 if there is one."""
    from autoscaler.commands.deciding import replay_recording

    replay_recording(file, output=output)


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
    from autoscaler.commands.page_command import read_page

    read_page(source, engine=engine, model=model, watch=watch, output=output)


@app.command()
def schema(
    *,
    resource: Annotated[
        bool, typer.Option("--resource", help="The definition of the custom resource InferenceAutoscaler, as YAML.")
    ] = False,
) -> None:
    """Print the JSON schema of the configuration file, or what a cluster has to be told of the custom resource."""
    from autoscaler.commands.config_file import print_schema

    print_schema(resource=resource)


@app.command()
def check(config: Config = Path("gpu-autoscaler.yaml")) -> None:
    """Read a configuration file and print it with all its defaults, or everything that is wrong with it."""
    from autoscaler.commands.config_file import check_file

    check_file(config)


@app.command("version")
def version_command() -> None:
    """Print the version."""
    print(version("gpu-autoscaler"))


def main() -> None:
    """The entry point."""
    app()


if __name__ == "__main__":
    main()
