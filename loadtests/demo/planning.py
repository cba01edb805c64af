"""What the demo offers: the options of the harness, and the same plan for the demo's own use."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from loadtests.arrivals import Arrivals
from loadtests.demo.engines import DemoEngine
from loadtests.options import add_load_options, arrivals_of

_TRIAL_REQUESTS = 1000


def load_options(engine: DemoEngine, *, capacity_rps: float) -> tuple[str, ...]:
    """The harness' options for a replica that serves ``capacity_rps``, the number of requests included."""
    if engine.requests is not None:
        return (*engine.load, "--requests", str(engine.requests))
    trial = arrivals_under((*engine.load, "--requests", str(_TRIAL_REQUESTS)))
    wanted = engine.peak_to_capacity * capacity_rps / trial.peak_rps(engine.busiest_s)
    return (*engine.load, "--requests", str(max(1, round(_TRIAL_REQUESTS * wanted))))


def arrivals_under(options: Sequence[str]) -> Arrivals:
    """The plan that the harness makes of these options."""
    parser = argparse.ArgumentParser()
    add_load_options(parser)
    return arrivals_of(parser.parse_args(options))
