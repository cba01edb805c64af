"""The rate of a replica, corrected by what the fleet was seen to serve.

A capacity model may be wrong by a tenth or two, and the forecast's quantile would absorb that only within days. But
windows in which a fleet is offered about its rate tell on which side the truth lies. With c the logarithm of the true
rate over the model's,

    c += step  where a fleet without a queue was offered more than c says, and served it in time;
    c -= step  where a queue was there all the time, and less was served than c says;
    c -= step  where a fleet without a queue was offered less than c says, and served it late:

stochastic approximation of the load that divides the good windows from the bad (Robbins & Monro, A stochastic
approximation method, 1951). A queue that only came up within a window tells nothing: a burst makes one as well. Short
queues at both its ends tell nothing either: those of two bursts, with idle replicas in between. Far from c a window
tells nothing: what is lightly loaded misses for other reasons. c is bounded, and unknown figures leave it as it is.

While requests grow longer or shorter a model is late, since lengths are told at a request's end, and not wrong. So c
stays as well while the models' rate is not what it was in the last ten minutes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from autoscaler.domain.capacity import ReplicaCapacity
from autoscaler.domain.cluster import Phase, Replica
from autoscaler.domain.demand import Demand
from autoscaler.domain.params import Params
from autoscaler.domain.reading import Unknown
from autoscaler.domain.service import Service
from autoscaler.domain.state import CapacityTrial, ServiceState

# Of log rate, a window. Fifteen windows correct an error of 15 %: at 15 s and one window in twenty near the limit,
# within two hours.
_STEP = 0.01
# No correction goes beyond a third either way: what is further off is another fault.
LARGEST = 0.3
# Work in the queue, in seconds of what the fleet serves: up to the first it counts as empty, from the second on a
# window is bad.
_EMPTY_S, _QUEUED_S = 0.25, 0.5
# A queue of so much at both ends of a window was there all the time. It may be gone for a moment all the same, so that
# much less must have been served to tell.
_LASTING_S, _LEAST_SHORTFALL = 2.0, 0.03
# A window in which this many times the allowed share was missed, and so many deviations of chance besides, is bad: with
# fewer, chance alone would make many so.
_MISSED_TIMES, _MISSED_DEVIATIONS = 2.0, 3.0
# Of the usual rate of a replica; how far from it (in its logarithm) the models are settled.
_USUAL_S, _SETTLED = 600.0, 0.05
# Fewer requests tell little of a rate; a window waits for them, but not for ever.
_LEAST_ARRIVALS = 20.0
_LONGEST_S = 300.0
_FULL_COVERAGE = 0.999


def corrected(capacity: ReplicaCapacity | Unknown, correction: float) -> ReplicaCapacity | Unknown:
    """The capacity times exp(``correction``)."""
    if isinstance(capacity, Unknown) or not correction:
        return capacity
    factor = math.exp(correction)
    told = f"times {factor:.2f} by what was attained"
    detail = f"{capacity.detail}, {told}" if capacity.detail else told
    return replace(capacity, rps=capacity.rps * factor, detail=detail)


def correct(
    state: ServiceState,
    *,
    now_s: float,
    service: Service,
    demand: Demand,
    replicas: Sequence[Replica],
    capacities: Mapping[str, ReplicaCapacity | Unknown],
    params: Params,
) -> ServiceState:
    """The memory after what this tick tells; ``capacities``: by variant, as the models have them."""
    ready = Counter(each.variant for each in replicas if each.phase is Phase.READY)
    correction, trial = state.correction, None
    fleet_rps, seen = _served_rps(ready, capacities), _seen(demand)
    usual_rps, settled = state.usual_rps, False
    if fleet_rps is not None:
        usual_rps, settled = _usual(usual_rps, fleet_rps / ready.total(), span_s=demand.tick_span_s)
    if fleet_rps is not None and seen is not None and settled:
        correction, trial = _tried(
            state, seen, now_s=now_s, ready=ready.total(), fleet_rps=fleet_rps, share=service.slo.share, params=params
        )
    if trial is None and state.trial is None and usual_rps == state.usual_rps:
        return state
    return replace(state, correction=correction, trial=trial, usual_rps=usual_rps)


def _usual(known_rps: float | None, replica_rps: float, *, span_s: float) -> tuple[float, bool]:
    """The mean (of logarithms, decaying) of what the models said of a replica, and whether they say the same now."""
    if known_rps is None:
        return replica_rps, True
    moved = math.log(replica_rps / known_rps)
    if not moved:
        return known_rps, True
    usual_rps = known_rps * math.exp(moved * -math.expm1(-max(0.0, span_s) / _USUAL_S))
    return usual_rps, abs(moved) <= _SETTLED


class _Seen(NamedTuple):
    """This tick's figures, all known."""

    span_s: float
    tick_rps: float
    felt_rps: float
    judged: float
    missed: float
    backlog: float


def _tried(
    state: ServiceState, seen: _Seen, *, now_s: float, ready: int, fleet_rps: float, share: float, params: Params
) -> tuple[float, CapacityTrial | None]:
    correction, trial = state.correction, state.trial
    queued_s = seen.backlog / (fleet_rps * math.exp(correction))
    if trial is not None and trial.replicas == ready:
        trial = replace(
            trial,
            arrivals=trial.arrivals + seen.tick_rps * seen.span_s,
            felt=trial.felt + seen.felt_rps * seen.span_s,
            offered=trial.offered + fleet_rps * seen.span_s,
            judged=trial.judged + seen.judged,
            missed=trial.missed + seen.missed,
        )
        lasted_s = now_s - trial.since_s
        few = trial.arrivals < _LEAST_ARRIVALS
        if lasted_s < params.short_window_s - 1e-6 or (few and lasted_s < _LONGEST_S and queued_s <= _QUEUED_S):
            return correction, trial
        if not few:
            correction += _told(correction, trial, backlog=seen.backlog, queued_s=queued_s, share=share)
    began = CapacityTrial(since_s=now_s, replicas=ready, backlog=seen.backlog, queued=queued_s > _EMPTY_S)
    return min(LARGEST, max(-LARGEST, correction)), began


def _told(correction: float, trial: CapacityTrial, *, backlog: float, queued_s: float, share: float) -> float:
    """The step that a finished window asks for."""
    queued = queued_s > _QUEUED_S
    if trial.queued:
        lasting = queued and queued_s * min(1.0, trial.backlog / backlog) >= _LASTING_S
        served = trial.arrivals + trial.backlog - backlog
        short = math.log(trial.offered / served) + correction if served > 0 else math.inf
        return -_STEP if lasting and _LEAST_SHORTFALL < short <= LARGEST else 0.0
    beyond = math.log(trial.felt / trial.offered) - correction if trial.felt > 0 else -math.inf
    allowed = (1 - share) * trial.judged
    missed = trial.missed > _MISSED_TIMES * allowed + _MISSED_DEVIATIONS * math.sqrt(allowed)
    if beyond < 0:
        return -_STEP if missed and queued_s <= _EMPTY_S and beyond >= -LARGEST else 0.0
    return _STEP if not missed and not queued and 0 < beyond <= LARGEST else 0.0


def _served_rps(ready: Counter[str], capacities: Mapping[str, ReplicaCapacity | Unknown]) -> float | None:
    """What the ready replicas (by variant) serve together by the models; None where one variant's rate is unknown."""
    total_rps = 0.0
    for variant, count in ready.items():
        capacity = capacities.get(variant)
        if capacity is None or isinstance(capacity, Unknown):
            return None
        total_rps += count * capacity.rps
    return total_rps if total_rps > 0 else None


def _seen(demand: Demand) -> _Seen | None:
    figures = (demand.tick_span_s, demand.tick_rps, demand.felt_rps, demand.arrived, demand.missed, demand.backlog)
    known = [each for each in figures if not isinstance(each, Unknown)]
    whole = demand.coverage >= _FULL_COVERAGE and not demand.stuck and not demand.asleep
    return _Seen(*known) if whole and len(known) == len(figures) else None
