"""Short runs of the shipped controller in a fluid world."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from adapters.simulation.delays import Fixed
from adapters.simulation.faults import Fault
from adapters.simulation.fluid_fleet import FluidModel
from adapters.simulation.replicas import ReplicaKind
from autoscaler.domain.service import Bounds, Slo
from loadtests.simulation.ours import SHIPPED
from loadtests.simulation.result import RunResult
from loadtests.simulation.run import simulate
from loadtests.simulation.setup import FluidServing, Setup
from loadtests.workloads.workload import SecondCounts

CAPACITY_RPS = 10.0
STEP_S = 1800
KINDS = (ReplicaKind(startup=Fixed(60.0)),)


def counts(rates: NDArray[np.float64], seed: int = 1) -> SecondCounts:
    """Poisson arrivals at these rates of single seconds."""
    arrivals = np.random.default_rng(seed).poisson(rates).astype(np.int64)
    return SecondCounts(arrivals=arrivals, prompt_tokens=500.0, output_tokens=100.0)


def step(before_rps: float, after_rps: float, *, duration_s: int = 4800) -> SecondCounts:
    """Traffic that changes after half an hour."""
    return counts(np.where(np.arange(duration_s) < STEP_S, before_rps, after_rps))


def setup(arrivals: SecondCounts, *faults: Fault, initial: int = 6) -> Setup:
    """Replicas of 10 requests/s that start in a minute, and requests of three seconds."""
    return Setup(
        serving=FluidServing(arrivals=arrivals, model=FluidModel(capacity_rps=CAPACITY_RPS, service_s=3.0)),
        slo=Slo(ttft_s=2.0),
        bounds=Bounds(min_replicas=1, max_replicas=30),
        kinds=KINDS,
        initial=initial,
        faults=faults,
    )


def run(arrivals: SecondCounts, *faults: Fault) -> RunResult:
    """The shipped controller on it."""
    return simulate(setup(arrivals, *faults), SHIPPED, seed=1)


def asked(result: RunResult, from_s: float, until_s: float) -> list[int]:
    """Replicas asked for at each look in [from_s, until_s]."""
    line = result.timeline
    return [int(each) for each in line.desired[(line.at_s >= from_s) & (line.at_s <= until_s)]]


def misses(result: RunResult, from_s: float, until_s: float) -> float:
    """Missed requests of that time."""
    line = result.timeline
    return float(line.missed[(line.at_s > from_s) & (line.at_s <= until_s)].sum())


def share(result: RunResult, from_s: float, until_s: float) -> float:
    """Of the requests of that time in SLO."""
    line = result.timeline
    within = (line.at_s > from_s) & (line.at_s <= until_s)
    arrived = float((line.demand_rps[within] * 15.0).sum())
    return 1.0 - misses(result, from_s, until_s) / arrived
