"""A calibration to look at, and its coefficients as a configuration takes them."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import yaml
from rich.table import Table

from autoscaler.config.units import format_duration
from loadtests.calibration.calibrating import Calibration, Compared
from loadtests.calibration.coefficients import Coefficients
from loadtests.calibration.figures import Figures


def comparison_table(calibration: Calibration) -> Table:
    """Each load's three figures of its median turn, measured / simulated, and how far off the latter is."""
    table = Table("load", "", "TTFT ms", "ITL ms", "tokens/s")
    for each in calibration.compared:
        table.add_row(each.load.label, "fitted" if each.is_fitted else "predicted", *_cells(each))
    return table


def _cells(each: Compared) -> tuple[str, str, str]:
    return (
        _cell(each, lambda figures: figures.ttft_s * 1e3, each.ttft_error, digits=1),
        _cell(each, lambda figures: figures.itl_s * 1e3, each.itl_error, digits=2),
        _cell(each, lambda figures: figures.throughput_tps, each.throughput_error, digits=0),
    )


def _cell(each: Compared, figure: Callable[[Figures], float], error: float, *, digits: int) -> str:
    seen, told = (median(map(figure, turns)) for turns in (each.measured, each.simulated))
    return f"{seen:.{digits}f} / {told:.{digits}f} ({error:+.1%})"


def as_yaml(coefficients: Coefficients) -> str:
    """The keys of a service that hold them: its step time and its engine's limits."""
    step = coefficients.step
    keys = {
        "stepTime": {
            name: format_duration(round(seconds, 12))
            for name, seconds in (("c", step.c_s), ("d", step.d_s), ("e", step.e_s), ("a", step.a_s))
        },
        "maxNumSeqs": coefficients.shape.max_num_seqs,
        "kvTokens": coefficients.shape.kv_tokens,
    }
    return yaml.safe_dump(keys, sort_keys=False)


def told(coefficients: Coefficients) -> str:
    """What can't be said in a configuration."""
    overhead = coefficients.overhead
    return (
        f"fitted to {coefficients.windows} windows, error {coefficients.error:.0%}; beside its steps a first token "
        f"takes {overhead.fixed_s * 1e3:.1f} ms and {overhead.per_running_s * 1e3:.2f} ms for each sequence that runs"
    )
