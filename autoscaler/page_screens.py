"""Metrics pages for the eyes: rich tables that fit on one screen."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from adapters.engines.reading_report import PageReport, SignalReport
from autoscaler.domain.gpu_reading import GpuReading
from autoscaler.domain.reading import Unknown


def page_screen(
    report: PageReport, devices: Sequence[GpuReading] = (), *, rates: Sequence[SignalReport] = ()
) -> RenderableType:
    """A metrics page: each canonical signal, its value and series, or why it is unknown; or the devices it tells of.

    ``rates``: what happened since the last look, shown first.
    """
    warnings = [Text(f"warning: {warning}", "yellow") for warning in report.warnings]
    if devices and report.engine is None:
        return Group(_devices(devices), *warnings)
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("signal", style="cyan")
    table.add_column("value", justify="right")
    table.add_column("unit")
    table.add_column("from", overflow="fold")
    for signal in (*rates, *report.signals):
        if isinstance(signal.value, Unknown):
            table.add_row(signal.name, Text("unknown", "yellow"), "", Text(str(signal.value), "dim"))
        else:
            table.add_row(signal.name, f"{signal.value:.6g}", signal.unit, ", ".join(signal.series))
    engine = Text.assemble(("engine ", "bold"), "not recognised" if report.engine is None else report.engine.value)
    parts = [engine, table, _devices(devices)] if devices else [engine, table]
    return Group(*parts, *warnings)


def _devices(devices: Sequence[GpuReading]) -> RenderableType:
    """Devices side by side."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("device", style="cyan", overflow="fold")
    table.add_column("held by", overflow="fold")
    for column in ("engine", "SM", "DRAM", "util", "memory MiB", "W", "XID"):
        table.add_column(column, justify="right")
    for each in devices:
        shares = [each.gr_engine_active, each.sm_active, each.dram_active, each.gpu_util]
        numbers = [each.fb_used_mib, each.power_w, each.xid]
        table.add_row(
            f"{each.uuid} {each.gi}" + (f" ({each.profile})" if each.profile else "") if each.gi else each.uuid,
            str(each.holder.reason if isinstance(each.holder, Unknown) else each.holder),
            *("?" if isinstance(share, Unknown) else f"{share:.1%}" for share in shares),
            *("?" if isinstance(number, Unknown) else f"{number:.0f}" for number in numbers),
        )
    return table
