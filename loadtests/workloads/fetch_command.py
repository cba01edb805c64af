"""The command ``gpu-autoscaler fetch-traces``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def fetch_traces(
    names: Annotated[
        list[str] | None, typer.Argument(help="Which; all that are smaller than 100 MB if none is named.")
    ] = None,
    *,
    origin: Annotated[
        str | None,
        typer.Option(
            "--from", help="A folder with the published files, or the address of a mirror; by default their own."
        ),
    ] = None,
    cache: Annotated[
        Path | None, typer.Option("--to", help="Where to keep them; by default a folder of the user's cache.")
    ] = None,
    show: Annotated[bool, typer.Option("--list", help="Only list them: source, licence, whom to cite.")] = False,
) -> None:
    """Fetch public traces of LLM requests, for compare --trace NAME. Each has its own licence; none comes with this."""
    from loadtests.workloads.fetch_run import fetch_all, show_traces

    if show:
        show_traces(cache)
    else:
        fetch_all(tuple(names or ()), origin=origin, cache=cache)
