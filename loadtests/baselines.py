"""What other ways to size the fleet would have cost on the same arrivals: computed by a fluid model, not run.

The fluid fleet: replicas that each serve ``capacity_rps`` from one queue in order of arrival; a request is
good when its wait is within the TTFT threshold. Boot is paid from the order to the end, and so is a drain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loadtests.arrivals import Arrivals

_STEP_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """One way to size the fleet. ``share_served``: share of requests whose wait was within the threshold."""

    name: str
    how: str
    peak_replicas: int
    replica_seconds: float
    share_served: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetFacts:
    """What a baseline knows of the replicas. ``drain_s``: how long a replica that is taken away finishes
    its work.
    """

    capacity_rps: float
    startup_s: float
    drain_s: float
    min_replicas: int
    max_replicas: int
    max_wait_s: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.capacity_rps) and self.capacity_rps > 0):
            raise ValueError(f"the capacity must be positive and finite, got {self.capacity_rps}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReactivePolicy:
    """The arithmetic of Kubernetes' HPA on utilisation (kubernetes/kubernetes, pkg/controller/podautoscaler).

    Desired = ceil(load / (target * capacity)) with ``load`` the mean rate of the last ``window_s``; nothing
    within ``tolerance`` of the target; up at once, down to the largest recommendation of the last
    ``down_window_s``.
    """

    target: float = 0.8
    interval_s: float = 15.0
    window_s: float = 60.0
    down_window_s: float = 300.0
    tolerance: float = 0.1


def static_peak(arrivals: Arrivals, *, facts: FleetFacts, busiest_s: float) -> Baseline:
    """Enough replicas for the busiest ``busiest_s`` seconds, held throughout."""
    needed = math.ceil(arrivals.peak_rps(busiest_s) / facts.capacity_rps)
    replicas = max(1, facts.min_replicas, needed)
    fleet = np.full(_step_count(arrivals), float(replicas))
    return Baseline(
        name="static peak",
        how=f"computed: enough for the busiest {busiest_s:g} s at {facts.capacity_rps:.2f} requests/s a replica",
        peak_replicas=replicas,
        replica_seconds=replicas * arrivals.duration_s,
        share_served=_share_served(arrivals, fleet, facts),
    )


def reactive(arrivals: Arrivals, *, facts: FleetFacts, policy: ReactivePolicy) -> Baseline:
    """A reactive policy that holds utilisation at its target and knows the capacity exactly."""
    count = _step_count(arrivals)
    counts = _counts(arrivals, count)
    arrived = np.concatenate([[0.0], np.cumsum(counts)])
    ready, paid = np.zeros(count), np.zeros(count)
    interval = max(1, round(policy.interval_s / _STEP_S))
    window = max(1, round(policy.window_s / _STEP_S))
    startup, drain = round(facts.startup_s / _STEP_S), round(facts.drain_s / _STEP_S)
    wanted = max(1, facts.min_replicas)
    booting: list[int] = []
    draining: list[int] = []
    serving = wanted
    recommended: list[tuple[int, int]] = [(0, wanted)]
    for step in range(count):
        serving += sum(at <= step for at in booting)
        booting = [at for at in booting if at > step]
        draining = [at for at in draining if at > step]
        if step and step % interval == 0:
            span = min(step, window)
            rate = (arrived[step] - arrived[step - span]) / (span * _STEP_S)
            wanted = _recommendation(rate, wanted, facts, policy)
            recommended.append((step, wanted))
            wanted = max(n for at, n in recommended if at >= step - policy.down_window_s / _STEP_S)
            booting += [step + startup] * max(0, wanted - serving - len(booting))
            while serving + len(booting) > wanted:
                if booting:
                    booting.pop()
                else:
                    serving -= 1
                    draining.append(step + drain)
        ready[step] = serving
        paid[step] = serving + len(booting) + len(draining)
    return Baseline(
        name=f"reactive {policy.target:.0%}",
        how=f"computed: utilisation held at {policy.target:.0%} every {policy.interval_s:g} s, the same boot time",
        peak_replicas=int(paid.max()),
        replica_seconds=float(paid.sum()) * _STEP_S,
        share_served=_share_served(arrivals, ready, facts),
    )


def _recommendation(rate_rps: float, current: int, facts: FleetFacts, policy: ReactivePolicy) -> int:
    ratio = rate_rps / (current * facts.capacity_rps) / policy.target
    desired = current if abs(ratio - 1) <= policy.tolerance else math.ceil(current * ratio)
    return min(facts.max_replicas, max(1, facts.min_replicas, desired))


def _step_count(arrivals: Arrivals) -> int:
    return max(1, math.ceil(arrivals.duration_s / _STEP_S))


def _counts(arrivals: Arrivals, count: int) -> NDArray[np.float64]:
    at = np.minimum((arrivals.at_s / _STEP_S).astype(int), count - 1)
    return np.bincount(at, minlength=count).astype(np.float64)


def _share_served(arrivals: Arrivals, ready: NDArray[np.float64], facts: FleetFacts) -> float:
    """Share of arrivals served within ``max_wait_s``. After the plan's end the last fleet serves on."""
    if not len(arrivals):
        return 1.0
    count = len(ready)
    wait = round(facts.max_wait_s / _STEP_S)
    arrived = np.cumsum(_counts(arrivals, count))
    served = np.zeros(count + wait)
    done = 0.0
    for step in range(count + wait):
        at = min(step, count - 1)
        done = min(arrived[at], done + ready[at] * facts.capacity_rps * _STEP_S)
        served[step] = done
    before = np.concatenate([[0.0], arrived[:-1]])
    missed = np.clip(arrived - np.maximum(served[wait:], before), 0.0, None).sum()
    return float(1 - missed / arrived[-1])
