"""The commands that simulate, for the command line to take in."""

from __future__ import annotations

import typer

from loadtests.compare.command import compare
from loadtests.workloads.fetch_command import fetch_traces


def add_simulation_commands(app: typer.Typer) -> None:
    """``compare`` and ``fetch-traces``."""
    app.command("compare")(compare)
    app.command("fetch-traces")(fetch_traces)
