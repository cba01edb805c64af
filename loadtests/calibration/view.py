"""A calibration to look at, and its coefficients as a configuration takes them."""

from __future__ import annotations

import yaml
from rich.table import Table

from autoscaler.config.units import format_duration
from loadtests.calibration.calibrating import Calibration, Compared
from loadtests.calibration.coefficients import Coefficients


def comparison_table(calibration: Calibration) -> Table:
    """Each load's three figures, measured / simulated and how far off the latter is."""
    table = Table("load", "", "TTFT ms", "ITL ms", "tokens/s")
    for each in calibration.compared:
        table.add_row(each.load.label, "fitted" if each.is_fitted else "predicted", *_cells(each))
    return table


def _cells(each: Compared) -> tuple[str, str, str]:
    seen, told = each.measured, each.simulated
    return (
        f"{seen.ttft_s * 1e3:.1f} / {told.ttft_s * 1e3:.1f} ({each.ttft_error:+.1%})",
        f"{seen.itl_s * 1e3:.2f} / {told.itl_s * 1e3:.2f} ({each.itl_error:+.1%})",
        f"{seen.throughput_tps:.0f} / {told.throughput_tps:.0f} ({each.throughput_error:+.1%})",
    )


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
