"""A rival on a fluid run in a second or so for a week, and its best knob in hindsight.

The same rivals, the same fluid arithmetic and the same accounting as a simulated run, without its event queue: start-up
takes a fixed time, nothing fails, and all times are whole seconds. For sweeps over knobs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from loadtests.rivals.fluid_view import FluidView
from loadtests.rivals.seen import Bounds, Contender, Facts, Floats

_STRIDE = 3
_SAMPLED_FROM_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepSetup:
    """One traffic on one fluid fleet.

    ``counts``: int64[seconds], arrivals. ``boot_s``: whole seconds from the order to ready. ``begin_replicas``: ready
    at the begin. ``metric_lag_s``: age of what the metrics source shows. A replica that goes is paid for the service
    time of a request longer.
    """

    counts: NDArray[np.int64]
    facts: Facts
    boot_s: int
    bounds: Bounds
    begin_replicas: int
    metric_lag_s: float = 15.0

    def __post_init__(self) -> None:
        if self.boot_s < 0 or not len(self.counts):
            raise ValueError(f"need boot_s >= 0 and a second of traffic, got {self.boot_s}, {len(self.counts)}")
        if not self.bounds.min_replicas <= self.begin_replicas <= self.bounds.max_replicas:
            raise ValueError(f"begin_replicas must lie within {self.bounds}, got {self.begin_replicas}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """``share_in_slo``: of all requests, those that were served in time. ``replica_hours``: boot and drain paid.

    ``changes``: how often the target changed. ``ready``: float64[seconds + 1], replicas that served.
    """

    knob: float
    share_in_slo: float
    replica_hours: float
    changes: int
    ready: Floats


def sweep_run(contender: Contender, knob: float, setup: SweepSetup) -> SweepResult:
    """One run of ``contender`` with ``knob``."""
    lag_s = setup.metric_lag_s if contender.lag_s is None else contender.lag_s
    rival = contender.make(knob, setup.bounds, setup.facts)
    # Gauges are looked at as often as decisions are made; those who decide every few seconds see nearly all of them.
    sample_s = contender.interval_s if contender.interval_s >= _SAMPLED_FROM_S else 1.0
    view = FluidView(setup.counts, setup.facts, lag_s=lag_s, ready=setup.begin_replicas, sample_s=sample_s)
    seconds, drain_s = len(setup.counts), setup.facts.service_s
    booting: deque[int] = deque()
    paid_s, paid_from, changes = 0.0, 0, 0
    for tick in range(0, seconds, max(1, round(contender.interval_s))):
        while booting and booting[0] <= tick:
            view.advance(booting.popleft())
            view.ready += 1
            view.starting -= 1
        view.advance(tick)
        wanted = setup.bounds.within(rival.desired(view))
        if wanted == view.desired:
            continue
        paid_s += (view.ready + view.starting) * (tick - paid_from)
        paid_from, changes, view.desired = tick, changes + 1, wanted
        surplus = view.ready + view.starting - wanted
        if surplus < 0:
            booting.extend([tick + setup.boot_s] * -surplus)
            view.starting -= surplus
            continue
        # Starting ones go first, the latest ordered of them foremost.
        unfinished = min(surplus, view.starting)
        for _ in range(unfinished):
            booting.pop()
        view.starting -= unfinished
        view.ready -= surplus - unfinished
        paid_s += (surplus - unfinished) * min(drain_s, seconds - tick)
    while booting and booting[0] < seconds:
        view.advance(booting.popleft())
        view.ready += 1
        view.starting -= 1
    view.advance(seconds)
    paid_s += (view.ready + view.starting) * (seconds - paid_from)
    return SweepResult(
        knob=knob,
        share_in_slo=share_in_time(view.arrived, view.served, patience=int(setup.facts.ttft_slo_s)),
        replica_hours=paid_s / 3600,
        changes=changes,
        ready=view.replicas,
    )


def share_in_time(arrived: Floats, served: Floats, *, patience: int) -> float:
    """Share of requests served by the end of the step ``patience`` steps after their own; the unserved are misses.

    ``arrived``, ``served``: cumulative, by the begin of each second and at the end.
    """
    if arrived[-1] <= 0:
        return 1.0
    steps = len(arrived) - 1
    by_then = served[np.minimum(np.arange(1, steps + 1) + patience, steps)]
    missed = np.clip(arrived[1:] - np.maximum(by_then, arrived[:-1]), 0.0, None).sum()
    return float(1 - missed / arrived[-1])


def best_in_hindsight(
    contender: Contender,
    setup: SweepSetup,
    *,
    share: float,
    points: int = 3,
    told: Callable[[SweepResult], None] = lambda result: None,
) -> SweepResult | None:
    """The cheapest run with at least ``share`` in SLO over the knob's values; None where there is none.

    First every third value, then those between the cheapest that reaches it and the next cheaper one, then ``points``
    more in each of the two steps on the cheaper side: what is attained doesn't rise evenly with the knob. ``told``:
    called with every run.
    """
    values = contender.knob.values
    runs: list[SweepResult] = []

    def run(knob: float) -> None:
        runs.append(sweep_run(contender, knob, setup))
        told(runs[-1])

    coarse = sorted({*range(0, len(values), _STRIDE), len(values) - 1})
    for at in coarse:
        run(values[at])
    best = _cheapest(runs, share)
    if best is None:
        return None
    at = values.index(best.knob)
    for between in range(max(0, at - _STRIDE + 1), at):
        if between not in coarse:
            run(values[between])
    best = _cheapest(runs, share)
    assert best is not None
    at = values.index(best.knob)
    for dear, cheap in pairwise(reversed(values[max(0, at - 2) : at + 1])):
        for step in range(1, points + 1):
            run(dear + (cheap - dear) * step / (points + 1))
    return _cheapest(runs, share)


def _cheapest(runs: list[SweepResult], share: float) -> SweepResult | None:
    enough = [result for result in runs if result.share_in_slo >= share]
    return min(enough, key=lambda result: (result.replica_hours, result.knob)) if enough else None
