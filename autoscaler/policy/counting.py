"""What one tick adds: each replica's progress and the gateway's, put together as the service's increment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from autoscaler.domain.cluster import Phase, Replica
from autoscaler.domain.params import Params
from autoscaler.domain.reading import (
    AnyGatewayReading,
    EngineReading,
    ForeignGatewayReading,
    GatewayReading,
    Measured,
    Observations,
    Unknown,
    UnknownReason,
)
from autoscaler.domain.service import Slo
from autoscaler.domain.state import Increment, ReplicaTrack, ServiceState, VariantLoad
from autoscaler.policy.judging import Verdicts, judge
from autoscaler.policy.progress import Progress, is_stuck, observe
from autoscaler.policy.windows import batches


class Seen(NamedTuple):
    """One serving replica at this tick."""

    replica: Replica
    track: ReplicaTrack | None
    done: Progress | Unknown
    verdicts: Verdicts
    stuck: bool
    blocks: bool

    @property
    def reading(self) -> EngineReading | None:
        """Its page of this tick; None where none was usable."""
        if self.track is None or self.track.unobserved_since_s is not None:
            return None
        return self.track.reading


def serves(replica: Replica) -> bool:
    return replica.phase in (Phase.READY, Phase.DRAINING)


def look(
    replica: Replica, slo: Slo, state: ServiceState, observations: Observations, *, now_s: float, params: Params
) -> Seen:
    """What a serving replica tells at this tick."""
    before = state.tracks.get(replica.name)
    track, done = observe(replica, observations.engines.get(replica.name), before, now_s=now_s, params=params)
    verdicts = Verdicts()
    if track is not None and isinstance(done, Progress):
        verdicts = judge(slo, done, late=before.late if before is not None and done.earlier is not None else 0.0)
        if verdicts.late:
            track = replace(track, late=verdicts.late)
    dark_since_s = track.unobserved_since_s if track is not None else replica.ready_s
    dark_long = dark_since_s is not None and now_s - dark_since_s > params.coverage_grace_s
    return Seen(
        replica=replica,
        track=track,
        done=done,
        verdicts=verdicts,
        stuck=is_stuck(track, now_s=now_s, params=params),
        # a replica that is dark for good, or leaving, no longer holds its peers
        blocks=replica.phase is Phase.READY and not (isinstance(done, Unknown) and dark_long),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What the gateway counted over ``span_s``, which is longer than a tick where it was silent meanwhile.

    ``at_least``: as of a ForeignGatewayReading.
    """

    span_s: float
    arrivals: float
    judged: float
    within_slo: float
    at_least: bool


def gateway_progress(
    reading: AnyGatewayReading | Unknown | None, earlier: AnyGatewayReading | None, *, now_s: float, params: Params
) -> Counted | Unknown | None:
    """What the gateway counted since the last tick; None where the service has no gateway."""
    if reading is None or isinstance(reading, Unknown):
        return reading
    if now_s - reading.at_s > params.stale_after_s:
        return Unknown(UnknownReason.STALE, "the gateway's figures are old")
    if earlier is None:
        return Unknown(UnknownReason.WARMING_UP, "first figures of the gateway")
    if earlier.at_s >= reading.at_s:
        return Unknown(UnknownReason.STALE, "no new figures of the gateway since the last tick")
    same = reading.started_s == earlier.started_s and reading.arrivals >= earlier.arrivals
    judged, within_slo = _judged(reading)
    before, within_before = _judged(earlier) if same else (0.0, 0.0)
    # What came in before a new start was counted by nobody: it is unknown, not none.
    since_s = earlier.at_s if same else max(earlier.at_s, reading.started_s)
    if since_s >= reading.at_s:
        return Unknown(UnknownReason.WARMING_UP, "first figures of the gateway since its start")
    return Counted(
        span_s=reading.at_s - since_s,
        arrivals=reading.arrivals - (earlier.arrivals if same else 0.0),
        judged=max(0.0, judged - before),
        within_slo=max(0.0, within_slo - within_before),
        at_least=isinstance(reading, ForeignGatewayReading) and reading.at_least,
    )


def _judged(reading: AnyGatewayReading) -> tuple[float, float]:
    """Requests compared with the SLO, and those within it: a gateway of others compares none."""
    return (reading.judged, reading.within_slo) if isinstance(reading, GatewayReading) else (0.0, 0.0)


def increment(
    seen: Sequence[Seen],
    gateway: AnyGatewayReading | Unknown | None,
    counted: Counted | Unknown | None,
    *,
    now_s: float,
    span_s: float,
) -> Increment | None:
    """This tick's increment; None where nothing at all was counted (a gap, not zero)."""
    observed = [each for each in seen if isinstance(each.done, Progress)]
    if not isinstance(counted, Counted) and not observed:
        return None
    arrivals = sum(_share_of_tick(each.done, span_s) for each in observed if isinstance(each.done, Progress))
    blocking = [each for each in seen if each.blocks]
    gateway_blind = isinstance(gateway, Unknown) or isinstance(counted, Unknown)
    # The gateway judges whole requests, but times to first token only where answers are streamed.
    if isinstance(counted, Counted) and counted.judged > 0:
        judged, within = counted.judged, counted.within_slo
    else:
        judged, within = sum(each.verdicts.judged for each in seen), sum(each.verdicts.within for each in seen)
    if isinstance(counted, Counted):
        at_gateway = _share_of_tick(counted, span_s)
        arrivals = max(arrivals, at_gateway) if counted.at_least else at_gateway
    return Increment(
        end_s=now_s,
        span_s=span_s,
        arrivals=arrivals,
        observed_s=span_s * sum(isinstance(each.done, Progress) for each in blocking),
        live_s=span_s * (len(blocking) + gateway_blind),
        judged=judged,
        within_slo=within,
        # Where it may know of less than came, the replicas are the measure, as long as there are any.
        gateway=isinstance(counted, Counted) and not (counted.at_least and seen),
        loads=_loads(observed),
    )


def _share_of_tick(done: Progress | Counted, span_s: float) -> float:
    """The arrivals that belong to a tick of ``span_s``: of what was dark for longer, only its share."""
    return done.arrivals * min(1.0, span_s / done.span_s)


def _loads(observed: Sequence[Seen]) -> tuple[VariantLoad, ...]:
    """Each variant's load over its healthy, awake, serving replicas."""
    groups: dict[str, list[Progress]] = {}
    for each in observed:
        if isinstance(each.done, Unknown) or each.replica.phase is not Phase.READY:
            continue
        if not each.stuck and not each.done.reading.asleep:
            groups.setdefault(each.replica.variant, []).append(each.done)
    return tuple([_load(variant, groups[variant]) for variant in sorted(groups)])


def _load(variant: str, group: Sequence[Progress]) -> VariantLoad:
    arrivals = completed = prompt_tokens = running = waiting = 0.0
    itl_sum_s = itl_count = e2e_sum_s = e2e_count = kv_tokens = kv_empty = 0.0
    saturated = True
    for done in group:
        arrivals += done.arrivals
        completed += done.completed or 0.0
        prompt_tokens += done.prompt_tokens or 0.0
        if done.itl is not None:
            itl_count, itl_sum_s = itl_count + done.itl.number, itl_sum_s + done.itl.total
        if done.e2e is not None:
            e2e_count, e2e_sum_s = e2e_count + done.e2e.number, e2e_sum_s + done.e2e.total
        running += or_none(done.reading.running)
        held = done.reading.kv_held
        if held is not None:
            kv_tokens, kv_empty = kv_tokens + held[0], kv_empty + held[1]
        queued = or_none(done.reading.waiting)
        waiting += queued
        # One look finds a request that waits for its prefill, now and then; a queue that lasts is there at both ends.
        before = 0.0 if done.earlier is None else or_none(done.earlier.waiting)
        saturated = saturated and queued > 0 and before > 0
    return VariantLoad(
        variant=variant,
        replicas=len(group),
        arrivals=arrivals,
        completed=completed,
        prompt_tokens=prompt_tokens,
        itl_sum_s=itl_sum_s,
        itl_count=itl_count,
        e2e_sum_s=e2e_sum_s,
        e2e_count=e2e_count,
        running=running,
        waiting=waiting,
        saturated=saturated,
        batches=batches([done.batches for done in group]),
        kv_tokens=kv_tokens,
        kv_empty=kv_empty,
    )


def or_none(value: Measured) -> float:
    """A gauge for sums in which an unknown part adds nothing (growth only ever rests on what is known)."""
    return 0.0 if isinstance(value, Unknown) else value
