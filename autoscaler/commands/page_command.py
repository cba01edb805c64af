"""``gpu-autoscaler read``: one metrics page, as the controller reads it."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import replace

import typer
from rich.console import Console

from adapters.engines.page_source import fetch_source
from adapters.engines.reading_report import PageReport, report_page, to_json
from adapters.wallclock import WallClock
from autoscaler.commands.output import Output, as_json, fail
from autoscaler.device_pages import report_devices
from autoscaler.domain.service import Engine
from autoscaler.page_screens import page_screen
from autoscaler.page_watching import watched


def read_page(source: str, *, engine: Engine, model: str | None, watch: float | None, output: Output) -> None:
    """Print what it tells; ``watch``: again and again, seconds apart."""
    if watch is not None:
        if source == "-":
            fail("--watch needs a page that can be read again, not standard input")
        with suppress(KeyboardInterrupt):
            _watch_page(source, engine=engine, model=model, every_s=watch, output=output)
        return
    page = fetch_source(source, stdin=sys.stdin.buffer)
    report, found = report_page(page, engine=engine, model=model), report_devices(page)
    report = replace(report, warnings=(*found.warnings, *report.warnings))
    if as_json(output):
        print(to_json(report, devices=found.plain()))
    else:
        Console().print(page_screen(report, found.devices))
    if report.engine is None and not found.devices:
        raise typer.Exit(1)


def _watch_page(source: str, *, engine: Engine, model: str | None, every_s: float, output: Output) -> None:
    def look() -> PageReport:
        return report_page(fetch_source(source, stdin=sys.stdin.buffer), engine=engine, model=model)

    console = Console()
    for report, rates in watched(look, every_s=every_s, clock=WallClock()):
        if as_json(output):
            print(to_json(report, rates=rates), flush=True)
        else:
            console.clear()
            console.print(page_screen(report, rates=rates))
