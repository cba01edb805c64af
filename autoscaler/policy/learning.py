"""What one service's memory takes in at each tick: demand, start-up times, capacity, attained share, requirements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from autoscaler.domain.capacity import LoadSample, RequestShape
from autoscaler.domain.cluster import Phase, Replica
from autoscaler.domain.demand import Demand
from autoscaler.domain.learned import Learned
from autoscaler.domain.params import Params
from autoscaler.domain.reading import Measured, Unknown, UnknownReason
from autoscaler.domain.service import Service
from autoscaler.domain.state import Increment, LengthSums, ServiceState, VariantLoad
from autoscaler.policy import tuning
from autoscaler.policy.measuring import Measurement
from autoscaler.policy.sizing import Requirement
from autoscaler.policy.windows import recent, replica_seconds, variant_load
from autoscaler.ports import MeasuredRate, Models

_HOURS = 168
_HOUR_S = 3600.0
# A KV cache that holds less than this part of what its requests' lengths come to holds something for several of them.
_NOTHING_IN_COMMON = 0.7
# With a larger part in half-empty blocks it does not tell contexts. But what goes beyond so many times what the lengths
# come to is no rounding: its requests last longer than those that have ended.
_FINE, _BEYOND_ROUNDING = 0.05, 1.5


def fresh(service: Service, models: Models, params: Params) -> ServiceState:
    """The memory of a service that was never seen."""
    return ServiceState(
        seen_s=0.0,
        tracks={},
        gateway=None,
        increments=(),
        lengths=LengthSums(),
        forecaster=models.forecaster.start(),
        capacities={variant.name: models.capacity.start() for variant in service.variants},
        theta=tuning.initial_theta(params),
        day_arrivals=0.0,
        peaks_rps=np.zeros(_HOURS),
        peak_hour=0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Starts:
    """Start-up times measured so far, who is starting since when, how long a start usually takes, and the time from
    asking for a replica to having it (lead time), with those under way.
    """

    starts_s: tuple[float, ...]
    starting: Mapping[str, float]
    usual_s: float
    lead_s: float


def starts(
    *, now_s: float, service: Service, state: ServiceState, replicas: Sequence[Replica], models: Models, params: Params
) -> Starts:
    """With the replicas that became ready since the last tick. Failed starts teach nothing."""
    starts_s = list(state.starts_s)
    for replica in replicas:
        created_s = state.starting.get(replica.name)
        if created_s is not None and replica.phase is Phase.READY and replica.ready_s is not None:
            starts_s.append(max(0.0, replica.ready_s - created_s))
    kept_s = tuple(starts_s[-params.kept_starts :])
    starting = {each.name: each.created_s for each in replicas if each.phase is Phase.STARTING}
    usual_s = next_s = models.startup.lead_time_s(starts_s=kept_s, still_starting_s=(), assumed_s=service.startup_s)
    if starting:
        ages_s = [max(0.0, now_s - created_s) for created_s in starting.values()]
        next_s = models.startup.lead_time_s(starts_s=kept_s, still_starting_s=ages_s, assumed_s=service.startup_s)
    return Starts(starts_s=kept_s, starting=starting, usual_s=usual_s, lead_s=params.interval_s + next_s)


def forecasters(
    *, now_s: float, states: Sequence[ServiceState], demands: Sequence[Demand], leads_s: Sequence[float], models: Models
) -> list[Learned]:
    """Each service's forecaster with this tick's demand, where that is known."""
    memories = [state.forecaster for state in states]
    told, rates = [], []
    for place, (demand, lead_s) in enumerate(zip(demands, leads_s, strict=True)):
        if not isinstance(demand.felt_rps, Unknown):
            told.append(place)
            rates.append(MeasuredRate(end_s=now_s, span_s=demand.tick_span_s, rate_rps=demand.felt_rps, lead_s=lead_s))
    learned = models.forecaster.learn_all([memories[place] for place in told], rates)
    for place, memory in zip(told, learned, strict=True):
        memories[place] = memory
    return memories


def learn(
    *,
    now_s: float,
    service: Service,
    state: ServiceState,
    asked: int,
    measurement: Measurement,
    started: Starts,
    forecaster: Learned,
    models: Models,
    params: Params,
) -> ServiceState:
    """The memory after this tick's measurement, with what the starts and the ``forecaster`` have taken in."""
    demand = measurement.demand
    a_day = state.day_arrivals
    if demand.window_full:
        a_day = tuning.day_arrivals(a_day, rate_rps=demand.stable_rps, span_s=demand.tick_span_s)
    capacities, sampled_s = _sampled(
        service,
        state,
        measurement.increments,
        demand.shape,
        now_s=now_s,
        models=models,
        params=params,
    )
    theta, debt = state.theta, state.debt
    if state.shortage is None:
        theta, debt = tuning.tune(
            theta,
            debt,
            judged=demand.arrived,
            missed=demand.missed,
            span_s=demand.tick_span_s,
            share=service.slo.share,
            a_day=a_day,
            params=params,
        )
    return replace(
        state,
        seen_s=now_s,
        tracks=measurement.tracks,
        gateway=measurement.gateway,
        increments=measurement.increments,
        lengths=measurement.lengths,
        idle_since_s=measurement.idle_since_s,
        forecaster=forecaster,
        day_arrivals=a_day,
        theta=theta,
        debt=debt,
        felt_rps=state.felt_rps if isinstance(demand.felt_rps, Unknown) else demand.felt_rps,
        starts_s=started.starts_s,
        starting=started.starting,
        woken_s=None if asked == 0 else state.woken_s if state.woken_s is not None else now_s,
        capacities=capacities,
        sampled_s=sampled_s,
    )


def without_future(state: ServiceState) -> ServiceState:
    """The memory of a run whose clock was ahead: what bears no times stays, the rest begins anew.

    A forecaster places what it has learned by itself: what lies a little ahead it keeps, so that a successor whose
    clock is seconds behind does not forget a week.
    """
    return replace(
        state,
        seen_s=0.0,
        tracks={},
        gateway=None,
        increments=(),
        starting={},
        requirements=(),
        changes=(),
        idle_since_s=None,
        woken_s=None,
        denied_since_s=None,
        unplaceable={},
        shortage=None,
        asked=(),
        sampled_s=None,
        trial=None,
    )


def peak(state: ServiceState) -> float:
    """The largest measured need of the last seven days, requests per second."""
    return float(state.peaks_rps.max())


def remember_requirement(now_s: float, state: ServiceState, requirement: Requirement, *, kept_s: float) -> ServiceState:
    """With this tick's need, for the down window and the soft cap. The newest entry before the window stays too."""
    entries = (*state.requirements, (now_s, requirement.down))
    older = [at_s for at_s, _ in entries if at_s <= now_s - kept_s]
    keep_from_s = max(older, default=float("-inf"))
    hour = int(now_s // _HOUR_S)
    peaks = state.peaks_rps.copy()
    passed = min(hour - state.peak_hour, _HOURS)
    for step in range(passed):
        peaks[(hour - step) % _HOURS] = 0.0
    peaks[hour % _HOURS] = max(peaks[hour % _HOURS], requirement.measured_rps)
    return replace(
        state,
        requirements=tuple(entry for entry in entries if entry[0] >= keep_from_s),
        peaks_rps=peaks,
        peak_hour=max(hour, state.peak_hour),
    )


def remember_change(now_s: float, state: ServiceState, delta: int, *, kept_s: float) -> ServiceState:
    """With a change of the target, for the rate policies."""
    if not delta and not state.changes:
        return state
    changes = tuple(change for change in state.changes if change[0] > now_s - kept_s)
    return replace(state, changes=(*changes, (now_s, delta)) if delta else changes)


def _sampled(
    service: Service,
    state: ServiceState,
    increments: tuple[Increment, ...],
    shape: RequestShape | Unknown,
    *,
    now_s: float,
    models: Models,
    params: Params,
) -> tuple[Mapping[str, Learned], float | None]:
    """The capacity models with one more load sample a variant, at most one each short window, and when that was."""
    due = state.sampled_s is None or now_s < state.sampled_s or now_s - state.sampled_s >= params.short_window_s - 1e-6
    capacities = {
        variant.name: state.capacities.get(variant.name) or models.capacity.start() for variant in service.variants
    }
    within = recent(increments, now_s=now_s, window_s=params.short_window_s) if due else ()
    if not within:
        return capacities, state.sampled_s
    for variant in service.variants:
        total = variant_load(within, variant.name)
        if total is None:
            continue
        load, span_s = total
        none = Unknown(UnknownReason.NO_OBSERVATIONS)
        running = load.running / load.replicas
        context: Measured = none
        if not isinstance(shape, Unknown):
            context = _context(load, running * shape.context)
        sample = LoadSample(
            at_s=now_s,
            itl_s=load.itl_sum_s / load.itl_count if load.itl_count > 0 else none,
            running=running,
            context_tokens=context,
            prefill_tps=load.prompt_tokens / span_s / load.replicas,
            arrival_rps=load.arrivals / span_s / load.replicas,
            completed_rps=load.completed / span_s / load.replicas,
            e2e_s=load.e2e_sum_s / load.e2e_count if load.e2e_count > 0 else none,
            waiting=load.waiting / load.replicas,
            saturated=load.saturated,
        )
        executed = load.batches
        if executed is not None and executed.executions > 0 and executed.requests > 0:
            exec_s = (
                executed.exec_sum_s / executed.requests
                if executed.exec_time_s is None
                else executed.exec_time_s / executed.executions
            )
            sample = replace(
                sample,
                batch=executed.items / executed.executions,
                exec_s=exec_s,
                executing=exec_s * executed.executions / replica_seconds(within, variant.name),
            )
        capacities[variant.name] = models.capacity.learn(capacities[variant.name], sample)
    return capacities, now_s


def _context(load: VariantLoad, by_lengths: float) -> float:
    """Tokens in the batch of a replica: the cache tells what is in it now, lengths (``by_lengths``) only what was in
    requests that have ended.
    """
    held, empty = load.kv_tokens / load.replicas, load.kv_empty / load.replicas
    if empty <= _FINE * held:
        return held - empty if held - empty > _NOTHING_IN_COMMON * by_lengths else by_lengths
    return held if held > _BEYOND_ROUNDING * by_lengths else by_lengths
