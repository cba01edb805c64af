"""Stage 1: how much is asked of a service now.

Arrivals are counted, not completions: by the gateway where there is one, else by what each engine's page shows.
A replica without a page counts as idle for growing and as loaded for shrinking; nothing unknown becomes zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autoscaler.domain.cluster import Phase, Replica
from autoscaler.domain.demand import Demand, DemandSource
from autoscaler.domain.reading import (
    EngineReading,
    GatewayReading,
    Measured,
    Observations,
    Unknown,
    UnknownReason,
)
from autoscaler.domain.service import Service, Slo
from autoscaler.domain.state import Increment, LengthSums, ReplicaTrack, ServiceState, VariantLoad
from autoscaler.policy import lengths
from autoscaler.policy.params import Params
from autoscaler.policy.progress import Progress, is_stuck, observe
from autoscaler.policy.windows import recent, window


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The demand, and the memory that the next measurement needs."""

    demand: Demand
    tracks: Mapping[str, ReplicaTrack]
    gateway: GatewayReading | None
    increments: tuple[Increment, ...]
    lengths: LengthSums
    idle_since_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """One serving replica at this tick."""

    replica: Replica
    track: ReplicaTrack | None
    done: Progress | Unknown
    stuck: bool
    blocks: bool

    @property
    def reading(self) -> EngineReading | None:
        """Its page of this tick; None where none was usable."""
        if self.track is None or self.track.unobserved_since_s is not None:
            return None
        return self.track.reading


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
    seen = [_look(replica, state, observations, now_s, params) for replica in replicas if _serves(replica)]
    gateway = observations.gateways.get(service.id)
    counted = _gateway_progress(gateway, state.gateway, now_s=now_s, params=params)
    sums = lengths.decayed(state.lengths, span_s=max(0.0, span_s), half_life_s=params.length_half_life_s)
    for each in seen:
        if isinstance(each.done, Progress):
            sums = lengths.added(sums, each.done)

    increment = _increment(service.slo, seen, gateway, counted, now_s=now_s, span_s=span_s) if continuous else None
    kept = recent(state.increments, now_s=now_s, window_s=params.stable_window_s)
    increments = (*kept, increment) if increment is not None else kept

    demand, idle_since_s = _demand(
        seen, gateway, increments, increment, sums=sums, state=state, now_s=now_s, span_s=span_s, params=params
    )
    return Measurement(
        demand=demand,
        tracks={each.replica.name: each.track for each in seen if each.track is not None},
        gateway=gateway if isinstance(gateway, GatewayReading) else state.gateway,
        increments=increments,
        lengths=sums,
        idle_since_s=idle_since_s,
    )


def _serves(replica: Replica) -> bool:
    return replica.phase in (Phase.READY, Phase.DRAINING)


def _look(replica: Replica, state: ServiceState, observations: Observations, now_s: float, params: Params) -> _Seen:
    track, done = observe(
        replica,
        observations.engines.get(replica.name),
        state.tracks.get(replica.name),
        now_s=now_s,
        params=params,
    )
    dark_since_s = track.unobserved_since_s if track is not None else replica.ready_s
    dark_long = dark_since_s is not None and now_s - dark_since_s > params.coverage_grace_s
    return _Seen(
        replica=replica,
        track=track,
        done=done,
        stuck=is_stuck(track, now_s=now_s, params=params),
        # a replica that is dark for good, or leaving, no longer holds its peers
        blocks=replica.phase is Phase.READY and not (isinstance(done, Unknown) and dark_long),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counted:
    arrivals: float
    judged: float
    within_slo: float


def _gateway_progress(
    reading: GatewayReading | Unknown | None, earlier: GatewayReading | None, *, now_s: float, params: Params
) -> _Counted | Unknown | None:
    """What the gateway counted since the last tick; None where the service has no gateway."""
    if reading is None or isinstance(reading, Unknown):
        return reading
    if now_s - reading.at_s > params.stale_after_s:
        return Unknown(UnknownReason.STALE, "the gateway's figures are old")
    if earlier is None:
        return Unknown(UnknownReason.WARMING_UP, "first figures of the gateway")
    same = reading.started_s == earlier.started_s and reading.arrivals >= earlier.arrivals
    return _Counted(
        arrivals=reading.arrivals - (earlier.arrivals if same else 0.0),
        judged=max(0.0, reading.judged - (earlier.judged if same else 0.0)),
        within_slo=max(0.0, reading.within_slo - (earlier.within_slo if same else 0.0)),
    )


def _increment(
    slo: Slo,
    seen: Sequence[_Seen],
    gateway: GatewayReading | Unknown | None,
    counted: _Counted | Unknown | None,
    *,
    now_s: float,
    span_s: float,
) -> Increment | None:
    """This tick's increment; None where nothing at all was counted (a gap, not zero)."""
    observed = [each for each in seen if isinstance(each.done, Progress)]
    if not isinstance(counted, _Counted) and not observed:
        return None
    arrivals = sum(_in_tick(each.done, span_s) for each in observed if isinstance(each.done, Progress))
    blocking = [each for each in seen if each.blocks]
    gateway_blind = isinstance(gateway, Unknown) or isinstance(counted, Unknown)
    judged, within = (counted.judged, counted.within_slo) if isinstance(counted, _Counted) else _judge(slo, observed)
    return Increment(
        end_s=now_s,
        span_s=span_s,
        arrivals=counted.arrivals if isinstance(counted, _Counted) else arrivals,
        observed_s=span_s * sum(isinstance(each.done, Progress) for each in blocking),
        live_s=span_s * (len(blocking) + gateway_blind),
        judged=judged,
        within_slo=within,
        gateway=isinstance(counted, _Counted),
        loads=_loads(observed),
    )


def _in_tick(done: Progress, span_s: float) -> float:
    """The arrivals that belong to a tick of ``span_s``: of a replica that was dark for longer, only its share."""
    return done.arrivals * min(1.0, span_s / done.span_s)


def _judge(slo: Slo, observed: Sequence[_Seen]) -> tuple[float, float]:
    """Requests that reached their first token in the tick, and how many of them (and of the tokens) were in time."""
    judged = within = 0.0
    for each in observed:
        if not isinstance(each.done, Progress) or each.done.ttft is None or each.done.ttft.count <= 0:
            continue
        share = 1.0
        for histogram, threshold in (
            (each.done.ttft, slo.ttft_s),
            (each.done.itl, slo.itl_s),
            (each.done.e2e, slo.e2e_s),
        ):
            if histogram is not None and threshold is not None:
                part = histogram.share_within(threshold)
                share = share if isinstance(part, Unknown) else min(share, part)
        judged += each.done.ttft.count
        within += each.done.ttft.count * share
    return judged, within


def _loads(observed: Sequence[_Seen]) -> tuple[VariantLoad, ...]:
    """Each variant's load over its healthy, awake, serving replicas."""
    loads = []
    for variant in sorted({each.replica.variant for each in observed}):
        group = [
            (each.done, each.track.reading)
            for each in observed
            if each.replica.variant == variant
            and each.replica.phase is Phase.READY
            and isinstance(each.done, Progress)
            and each.track is not None
            and not each.stuck
            and not each.track.reading.asleep
        ]
        if not group:
            continue
        loads.append(
            VariantLoad(
                variant=variant,
                replicas=len(group),
                arrivals=sum(done.arrivals for done, _ in group),
                completed=sum(done.completed or 0.0 for done, _ in group),
                prompt_tokens=sum(done.prompt_tokens or 0.0 for done, _ in group),
                itl_sum_s=sum(done.itl.total for done, _ in group if done.itl),
                itl_count=sum(done.itl.count for done, _ in group if done.itl),
                e2e_sum_s=sum(done.e2e.total for done, _ in group if done.e2e),
                e2e_count=sum(done.e2e.count for done, _ in group if done.e2e),
                running=sum(_or_none(reading.running) for _, reading in group),
                waiting=sum(_or_none(reading.waiting) for _, reading in group),
                saturated=all(_or_none(reading.waiting) > 0 for _, reading in group),
            )
        )
    return tuple(loads)


def _demand(
    seen: Sequence[_Seen],
    gateway: GatewayReading | Unknown | None,
    increments: tuple[Increment, ...],
    increment: Increment | None,
    *,
    sums: LengthSums,
    state: ServiceState,
    now_s: float,
    span_s: float,
    params: Params,
) -> tuple[Demand, float | None]:
    short = window(increments, now_s=now_s, window_s=params.short_window_s)
    stable = window(increments, now_s=now_s, window_s=params.stable_window_s)
    serving = [each for each in seen if each.replica.phase is Phase.READY]
    unobserved = [each for each in serving if isinstance(each.done, Unknown)]
    counted = increment is not None and (increment.gateway or any(isinstance(each.done, Progress) for each in serving))
    nothing = _why_nothing(seen, gateway, state)
    short_rps: Measured = short.arrivals / short.span_s if counted and short.span_s > 0 else nothing
    stable_rps: Measured = stable.arrivals / stable.span_s if counted and stable.span_s > 0 else nothing
    whole = increment is not None and (increment.gateway or increment.observed_s >= increment.live_s)
    tick_rps: Measured = (
        max(0.0, increment.arrivals) / increment.span_s
        if increment is not None and whole
        else nothing
        if not counted
        else Unknown(UnknownReason.UNREACHABLE, "not every replica was observed")
    )
    held = gateway.waiting if isinstance(gateway, GatewayReading) else 0.0
    pages = [(each, each.reading) for each in seen if each.reading is not None]
    known = isinstance(gateway, GatewayReading) or bool(pages)
    backlog: Measured = held + _engine_backlog(pages) if known else nothing
    in_flight: Measured = (
        gateway.in_flight
        if isinstance(gateway, GatewayReading)
        else sum(_or_none(page.waiting) + _or_none(page.running) for _, page in pages)
        if known
        else nothing
    )
    idle_since_s = _idle_since(state, increment, tick_rps, in_flight, now_s=now_s, span_s=span_s)
    demand = Demand(
        at_s=now_s,
        source=DemandSource.GATEWAY if increment is not None and increment.gateway else DemandSource.ENGINES,
        short_rps=short_rps,
        stable_rps=stable_rps,
        high_rps=_high(short_rps, unobserved, serving, from_gateway=increment is not None and increment.gateway),
        tick_rps=tick_rps,
        tick_span_s=span_s,
        backlog=backlog,
        in_flight=in_flight,
        shape=lengths.shape(sums),
        coverage=stable.coverage if increments else 0.0,
        window_full=stable.full,
        attained=stable.within_slo / stable.judged
        if stable.judged > 0
        else Unknown(UnknownReason.NO_OBSERVATIONS, "no request was judged in the window"),
        arrived=increment.judged if increment is not None else nothing,
        missed=increment.judged - increment.within_slo if increment is not None else nothing,
        idle_s=now_s - idle_since_s if idle_since_s is not None else 0.0,
        stuck=tuple(sorted(each.replica.name for each in serving if each.stuck)),
        unobserved=tuple(sorted(f"{each.replica.name}: {each.done}" for each in unobserved)),
        asleep=tuple(sorted(each.replica.name for each, page in pages if page.asleep)),
    )
    return demand, idle_since_s


def _why_nothing(seen: Sequence[_Seen], gateway: GatewayReading | Unknown | None, state: ServiceState) -> Unknown:
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


def _engine_backlog(pages: Sequence[tuple[_Seen, EngineReading]]) -> float:
    """Requests waiting in engines; a stuck replica's count no more than a healthy one's mean (or one)."""
    healthy = [_or_none(page.waiting) for each, page in pages if not each.stuck]
    usual = sum(healthy) / len(healthy) if healthy else 1.0
    stuck = [min(_or_none(page.waiting), max(1.0, usual)) for each, page in pages if each.stuck]
    return sum(healthy) + sum(stuck)


def _high(
    short_rps: Measured, unobserved: Sequence[_Seen], serving: Sequence[_Seen], *, from_gateway: bool
) -> Measured:
    """The rate with the unobserved taken as loaded: as last seen, or as the mean of the observed."""
    if from_gateway or isinstance(short_rps, Unknown) or not unobserved:
        return short_rps
    observed = len(serving) - len(unobserved)
    mean = short_rps / observed if observed > 0 else 0.0
    return short_rps + sum(max(mean, each.track.rate_rps if each.track else 0.0) for each in unobserved)


def _idle_since(
    state: ServiceState,
    increment: Increment | None,
    tick_rps: Measured,
    in_flight: Measured,
    *,
    now_s: float,
    span_s: float,
) -> float | None:
    """Since when there was provably no request; unknown time ends it."""
    if increment is None or isinstance(tick_rps, Unknown) or isinstance(in_flight, Unknown):
        return None
    if tick_rps > 0 or in_flight > 0:
        return None
    return state.idle_since_s if state.idle_since_s is not None else now_s - span_s


def _or_none(value: Measured) -> float:
    """A gauge for sums in which an unknown part adds nothing (growth only ever rests on what is known)."""
    return 0.0 if isinstance(value, Unknown) else value
