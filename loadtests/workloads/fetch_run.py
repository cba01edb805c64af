"""What ``fetch-traces`` does: progress on the terminal, a line for each trace, what lacks on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn

from loadtests.workloads.fetching import FetchError, fetch
from loadtests.workloads.public_traces import PUBLIC_TRACES, PublicTrace, default_cache, public_trace
from loadtests.workloads.trace_list import trace_table


def show_traces(cache: Path | None) -> None:
    """Source, licence and whom to cite, and what is in the cache."""
    Console().print(trace_table(cache or default_cache()))


def fetch_all(names: Sequence[str], *, origin: str | None, cache: Path | None) -> None:
    """Fetch them; the smaller ones where none is named. Raises typer.Exit where one lacks."""
    folder = cache or default_cache()
    chosen = _chosen(names)
    source = Path(origin) if origin is not None and "://" not in origin else origin
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    failed = False
    with Progress(*columns, console=Console(stderr=True)) as shown:
        for trace in chosen:
            bar = shown.add_task(trace.name, total=None)
            try:
                file = fetch(trace, cache=folder, origin=source, progress=_filling(shown, bar))
            except FetchError as error:
                failed = True
                shown.remove_task(bar)
                print(error, file=sys.stderr)
                continue
            shown.update(bar, completed=file.stat().st_size, total=file.stat().st_size)
            print(f"{trace.name}\t{file}\t{trace.licence}\tcite {trace.cite}")
    if failed:
        raise typer.Exit(1)


def _chosen(names: Sequence[str]) -> list[PublicTrace]:
    if not names:
        return [trace for trace in PUBLIC_TRACES if not trace.large]
    chosen = []
    for name in names:
        trace = public_trace(name)
        if trace is None:
            print(
                f"no public trace {name!r}; there are {', '.join(each.name for each in PUBLIC_TRACES)}", file=sys.stderr
            )
            raise typer.Exit(2)
        chosen.append(trace)
    return chosen


def _filling(shown: Progress, bar: TaskID) -> Callable[[int, int | None], None]:
    def told(have: int, total: int | None) -> None:
        shown.update(bar, completed=have, total=total)

    return told
