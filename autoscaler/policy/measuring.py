"""Stage 1: how much is asked of a service now.

Arrivals are counted, not completions: by the gateway where there is one, else by what each engine's page shows.
A replica without a page counts as idle for growing and as loaded for shrinking; nothing unknown becomes zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autoscaler.domain.cluster import Phase, Replica
from autoscaler.domain.demand import Demand, DemandSource
from autoscaler.domain.judgement import JudgedReplica, Judgement, judged
from autoscaler.domain.params import Params
from autoscaler.domain.reading import (
    AnyGatewayReading,
    EngineReading,
    Measured,
    Observations,
    Unknown,
    UnknownReason,
    is_known,
)
from autoscaler.domain.service import Service, Slo
from autoscaler.domain.state import Increment, LengthSums, ReplicaTrack, ServiceState
from autoscaler.policy import lengths
from autoscaler.policy.counting import Seen, gateway_progress, increment, look, or_none, serves
from autoscaler.policy.lasting import felt_rps, lasts_s, load_rps
from autoscaler.policy.progress import Progress
from autoscaler.policy.windows import burst_rps, recent, window


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The demand, and the memory that the next measurement needs."""

    demand: Demand
    tracks: Mapping[str, ReplicaTrack]
    gateway: AnyGatewayReading | None
    increments: tuple[Increment, ...]
    lengths: LengthSums
    idle_since_s: float | None


def measure(
    *,
    now_s: float,
    service: Service,
    state: ServiceState,
    replicas: Sequence[Replica],
    observations: Observations,
    params: Params,
) -> Measurement:
    """Demand of ``service`` at ``now_s`` from this tick's observations and the increments before it."""
    span_s = now_s - state.seen_s
    continuous = 0 < span_s <= params.stale_after_s
    seen = [
        look(each, service.slo, state, observations, now_s=now_s, params=params) for each in replicas if serves(each)
    ]
    gateway = observations.gateways.get(service.id)
    counted = gateway_progress(gateway, state.gateway, now_s=now_s, params=params)
    sums = lengths.decayed(state.lengths, span_s=max(0.0, span_s), half_life_s=params.length_half_life_s)
    sums = lengths.added(sums, (each.done for each in seen if isinstance(each.done, Progress)))

    added = increment(seen, gateway, counted, now_s=now_s, span_s=span_s) if continuous else None
    kept = recent(state.increments, now_s=now_s, window_s=params.stable_window_s)
    increments = (*kept, added) if added is not None else kept

    demand, idle_since_s = _demand(
        seen,
        gateway,
        increments,
        added,
        sums=sums,
        state=state,
        slo=service.slo,
        now_s=now_s,
        span_s=span_s,
        params=params,
    )
    return Measurement(
        demand=demand,
        tracks={each.replica.name: each.track for each in seen if each.track is not None},
        gateway=state.gateway if gateway is None or isinstance(gateway, Unknown) else gateway,
        increments=increments,
        lengths=sums,
        idle_since_s=idle_since_s,
    )


def _demand(
    seen: Sequence[Seen],
    gateway: AnyGatewayReading | Unknown | None,
    increments: tuple[Increment, ...],
    added: Increment | None,
    *,
    sums: LengthSums,
    state: ServiceState,
    slo: Slo,
    now_s: float,
    span_s: float,
    params: Params,
) -> tuple[Demand, float | None]:
    short = window(increments, now_s=now_s, window_s=params.short_window_s)
    stable = window(increments, now_s=now_s, window_s=params.stable_window_s)
    serving = [each for each in seen if each.replica.phase is Phase.READY]
    unobserved = [each for each in serving if isinstance(each.done, Unknown)]
    counted = added is not None and (added.gateway or any(isinstance(each.done, Progress) for each in serving))
    nothing = _why_nothing(seen, gateway, state)
    short_rps: Measured = short.arrivals / short.span_s if counted and short.span_s > 0 else nothing
    burst: Measured = burst_rps(increments, now_s=now_s, window_s=params.short_window_s) if counted else nothing
    stable_rps: Measured = stable.arrivals / stable.span_s if counted and stable.span_s > 0 else nothing
    whole = added is not None and (added.gateway or added.observed_s >= added.live_s)
    tick_rps: Measured = (
        max(0.0, added.arrivals) / added.span_s
        if added is not None and whole
        else nothing
        if not counted
        else Unknown(UnknownReason.UNREACHABLE, "not every replica was observed")
    )
    pages = [(each, each.reading) for each in seen if each.reading is not None]
    held = nothing if gateway is None or isinstance(gateway, Unknown) else gateway.waiting
    backlog: Measured = or_none(held) + _engine_backlog(pages) if pages or is_known(held) else held
    in_flight = nothing if gateway is None or isinstance(gateway, Unknown) else gateway.in_flight
    if isinstance(in_flight, Unknown) and pages:
        in_flight = sum(or_none(page.waiting) + or_none(page.running) for _, page in pages)
    shape = lengths.shape(sums)
    lasting_s = lasts_s(slo, shape)
    felt = felt_rps(state.felt_rps, tick_rps=tick_rps, span_s=span_s, in_flight=in_flight, lasting_s=lasting_s)
    load = load_rps(
        short,
        felt,
        short_rps=short_rps,
        running=sum(or_none(page.running) for _, page in pages),
        lasting_s=lasting_s,
        window_s=params.short_window_s,
    )
    idle_since_s = _idle_since(state, added, tick_rps, in_flight, now_s=now_s, span_s=span_s)
    demand = Demand(
        at_s=now_s,
        source=DemandSource.GATEWAY if added is not None and added.gateway else DemandSource.ENGINES,
        short_rps=short_rps,
        burst_rps=burst,
        stable_rps=stable_rps,
        high_rps=_high(load, unobserved, serving, from_gateway=added is not None and added.gateway),
        tick_rps=tick_rps,
        tick_span_s=span_s,
        felt_rps=felt,
        load_rps=load,
        backlog=backlog,
        in_flight=in_flight,
        shape=shape,
        coverage=stable.coverage if increments else 0.0,
        window_full=stable.full,
        attained=stable.within_slo / stable.judged
        if stable.judged > 0
        else Unknown(UnknownReason.NO_OBSERVATIONS, "no request was judged in the window"),
        arrived=added.judged if added is not None else nothing,
        missed=added.judged - added.within_slo if added is not None else nothing,
        idle_s=now_s - idle_since_s if idle_since_s is not None else 0.0,
        stuck=tuple(sorted(each.replica.name for each in serving if each.stuck)),
        unobserved=tuple(sorted(f"{each.replica.name}: {each.done}" for each in unobserved)),
        judgements=_not_ok(serving),
        asleep=tuple(sorted(each.replica.name for each, page in pages if page.asleep)),
    )
    return demand, idle_since_s


def _not_ok(serving: Sequence[Seen]) -> tuple[JudgedReplica, ...]:
    """The replicas with which anything is wrong, by name."""
    found = []
    for each in serving:
        counted = each.done if isinstance(each.done, Unknown) else each.done.reading
        judgement, detail = judged(counted, stuck=each.stuck, failing_probe=each.replica.failing_probe)
        if judgement is not Judgement.OK:
            found.append(JudgedReplica(replica=each.replica.name, judgement=judgement, detail=detail))
    return tuple(sorted(found, key=lambda each: each.replica))


def _why_nothing(seen: Sequence[Seen], gateway: AnyGatewayReading | Unknown | None, state: ServiceState) -> Unknown:
    """The reason to give where no arrivals could be counted."""
    if isinstance(gateway, Unknown) and not seen:
        return gateway
    reasons = [each.done for each in seen if isinstance(each.done, Unknown)]
    if reasons:
        return reasons[0]
    if not seen and gateway is None:
        return Unknown(UnknownReason.NO_REPLICAS, "no replica and no gateway to observe")
    first = "first tick" if not state.increments else "first tick after a gap"
    return Unknown(UnknownReason.WARMING_UP, first)


def _engine_backlog(pages: Sequence[tuple[Seen, EngineReading]]) -> float:
    """Requests waiting in engines; a stuck replica's count no more than a healthy one's mean (or one)."""
    healthy = [or_none(page.waiting) for each, page in pages if not each.stuck]
    usual = sum(healthy) / len(healthy) if healthy else 1.0
    stuck = [min(or_none(page.waiting), max(1.0, usual)) for each, page in pages if each.stuck]
    return sum(healthy) + sum(stuck)


def _high(rps: Measured, unobserved: Sequence[Seen], serving: Sequence[Seen], *, from_gateway: bool) -> Measured:
    """The rate with the unobserved taken as loaded: as last seen, or as the mean of the observed."""
    if from_gateway or isinstance(rps, Unknown) or not unobserved:
        return rps
    observed = len(serving) - len(unobserved)
    mean = rps / observed if observed > 0 else 0.0
    return rps + sum(max(mean, each.track.rate_rps if each.track else 0.0) for each in unobserved)


def _idle_since(
    state: ServiceState,
    added: Increment | None,
    tick_rps: Measured,
    in_flight: Measured,
    *,
    now_s: float,
    span_s: float,
) -> float | None:
    """Since when there was provably no request; unknown time ends it."""
    if added is None or isinstance(tick_rps, Unknown) or isinstance(in_flight, Unknown):
        return None
    if tick_rps > 0 or in_flight > 0:
        return None
    return state.idle_since_s if state.idle_since_s is not None else now_s - span_s
