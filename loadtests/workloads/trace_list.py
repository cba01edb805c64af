"""The public traces as a table."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table

from loadtests.workloads.public_traces import PUBLIC_TRACES


def trace_table(cache: Path) -> Table:
    """Names, provenance, and whether each is in the cache."""
    table = Table(title="public traces", title_justify="left")
    for column in ("name", "licence", "cite", "from", "in the cache"):
        table.add_column(column, overflow="fold", no_wrap=column == "name")
    for trace in PUBLIC_TRACES:
        there = "yes" if (cache / trace.cached_file).is_file() else "no"
        table.add_row(trace.name, trace.licence, trace.cite, trace.url, there)
    return table
