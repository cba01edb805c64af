"""Stage 4: how many replicas the demand needs.

need = max(measured rate, forecast quantile at the lead time) + backlog / drain time, over the rate of one replica at
the SLO, rounded up. Two numbers come out: ``up`` takes what is unknown as idle; ``down`` takes it as loaded, and a
higher quantile of the forecast (policy/tuning.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from autoscaler.domain.capacity import ReplicaCapacity
from autoscaler.domain.demand import Demand, Forecast
from autoscaler.domain.params import Params
from autoscaler.domain.plan import Reason, Stage, StageResult
from autoscaler.domain.reading import Measured, Unknown
from autoscaler.domain.service import Service, Variant

# A forecast of less than half a request within the time that a replica is worth keeping needs no replica.
_HALF_A_REQUEST = 0.5

_IN_USE = 0.9

_MANY_WAITING = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Replicas of a service by what they are worth now, and the count last asked for.

    ``asked``: all variants together, in replicas of the preferred one; as ``serving``: ready, awake and not stuck.
    ``broken``: to be replaced, and ``comes``: more would come (policy/supply.py).
    ``up_s``: how long the service has been above zero, None where it is at zero.
    """

    asked: int
    serving: float
    starting: int
    broken: int
    comes: bool
    up_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """Replicas needed: ``up`` to grow to, ``down`` to keep, and the measured need for the soft cap.

    ``needed``: of ``up``, without those that replace others. Where more than ``down`` are there, up to ``further`` of
    those below it go as well: to the middle between both, so that small moves of the demand need no change.
    """

    up: int
    down: int
    measured_rps: float
    result: StageResult
    needed: int
    further: int = 0


def preferred(
    service: Service, capacities: Mapping[str, ReplicaCapacity | Unknown], asked: Mapping[str, int]
) -> tuple[Variant, ...]:
    """The variants, cheapest per request first; those of unknown capacity last, as the user lists them.

    One that is in use is left only for one that is cheaper by more than a tenth: estimates waver.
    """

    def price(variant: Variant) -> float:
        capacity = capacities[variant.name]
        if isinstance(capacity, Unknown):
            return math.inf
        return variant.cost / capacity.rps * (_IN_USE if asked.get(variant.name, 0) > 0 else 1.0)

    return tuple(sorted(service.variants, key=price))


def size(
    *,
    service: Service,
    demand: Demand,
    forecast: Forecast | Unknown,
    capacity: ReplicaCapacity | Unknown,
    fleet: Fleet,
    peak_rps: float,
    lead_s: float,
    params: Params,
) -> Requirement:
    """Replicas of the preferred variant that the demand needs, and why.

    ``peak_rps``: the largest need measured in seven days; a forecast may exceed it only by the soft cap's margin.
    """
    backlog_rps = _known(demand.backlog) / params.backlog_drain_s
    asked_of = max(_known(demand.load_rps), _known(demand.burst_rps))
    measured_rps = asked_of + backlog_rps
    high_rps = _known(demand.high_rps) + backlog_rps
    foreseen_rps, kept_rps, foreseen_reason = _foreseen(
        service,
        demand,
        forecast,
        at_zero=fleet.asked == 0 and not _asks(demand, measured_rps),
        peak_rps=peak_rps,
        lead_s=lead_s,
        params=params,
    )
    inputs: list[tuple[str, float | str]] = [
        ("measured_rps", asked_of),
        ("backlog", _known(demand.backlog)),
        ("foreseen_rps", foreseen_rps),
        ("kept_rps", kept_rps),
        ("peak_rps", peak_rps),
    ]
    if isinstance(capacity, Unknown):
        return _without_capacity(
            service, fleet, demand, capacity, lead_s=lead_s, measured_rps=measured_rps, inputs=tuple(inputs)
        )
    inputs.append(("replica_rps", capacity.rps))

    up = _replicas(max(measured_rps, foreseen_rps + backlog_rps * (foreseen_rps > 0)), capacity.rps)
    without_backlog = _replicas(max(asked_of, foreseen_rps), capacity.rps)
    kept = max(up, _replicas(kept_rps + backlog_rps * (kept_rps > 0), capacity.rps))
    loaded = _replicas(high_rps, capacity.rps)
    down = max(kept, loaded)
    further = max(0, min((kept - up) // 2, kept - loaded))
    if foreseen_rps > asked_of and foreseen_rps + backlog_rps > measured_rps:
        reason = foreseen_reason
    else:
        reason = Reason.BACKLOG if backlog_rps > asked_of else Reason.MEASURED_LOAD
    if not fleet.comes and without_backlog < up:
        up, measured_rps, reason = without_backlog, asked_of, Reason.STARTS_FAIL
    if _asks(demand, measured_rps):
        up, down = max(1, up), max(1, down)
        if fleet.asked == 0 and up == 1:
            reason = Reason.WAKE_FROM_ZERO
    if service.bounds.spare > 0 and up > 0:
        up, down = up + service.bounds.spare, down + service.bounds.spare
        reason = Reason.SPARE
    elif service.bounds.spare > 0 and fleet.asked > 0 and _known(demand.idle_s) < service.idle.after_s:
        # Between two requests a service is still in use: its spare ones wait for the next as its others do.
        down, reason = max(1, down) + service.bounds.spare, Reason.SPARE
    needed = up
    if fleet.serving > 0 and fleet.broken > 0 and up > 0:
        # Once: no more than are lacking, so that a replacement that breaks as well isn't replaced again; one that is
        # there is kept. As many again at the most: where most replicas break, more of them would break too.
        extra = max(0, min(fleet.broken, up, math.ceil(max(up - fleet.serving, fleet.asked - up) - 1e-9)))
        up, down, reason = up + extra, down + extra, Reason.REPLACE_FAILED
    detail = (
        f"max(measured {asked_of:.3g}, foreseen {foreseen_rps:.3g}) + backlog {backlog_rps:.3g} req/s "
        f"over {capacity.rps:.3g} req/s a replica ({capacity.limit} limit, {capacity.source})"
    )
    if isinstance(demand.short_rps, Unknown) and up <= fleet.asked:
        up, down, reason = fleet.asked, fleet.asked, Reason.UNKNOWN_DEMAND
        detail = f"arrivals {demand.short_rps}"
    if max(up, down) == 0 and fleet.asked > 0 and service.bounds.min_replicas == 0:
        down, reason, detail = _to_zero(service, demand, fleet, lead_s=lead_s)
    result = StageResult(stage=Stage.SIZE, replicas=up, reason=reason, detail=detail, inputs=tuple(inputs))
    return Requirement(up=up, down=down, measured_rps=measured_rps, result=result, needed=needed, further=further)


def _foreseen(
    service: Service,
    demand: Demand,
    forecast: Forecast | Unknown,
    *,
    at_zero: bool,
    peak_rps: float,
    lead_s: float,
    params: Params,
) -> tuple[float, float, Reason]:
    """The forecast's rates to grow to and to keep, under the soft cap, or 0 where there is none.

    A service ``at_zero`` for which nobody is seen to ask has been idle, even where its demand can't be seen just now.
    """
    if isinstance(forecast, Unknown):
        return 0.0, 0.0, Reason.NO_FORECAST
    worth_keeping_s = lead_s + service.idle.after_s
    if at_zero or (isinstance(demand.idle_s, float) and demand.idle_s >= service.idle.after_s):
        expected = forecast.median_rps * worth_keeping_s
        if expected < _HALF_A_REQUEST:
            return 0.0, 0.0, Reason.IDLE
    cap_rps = peak_rps * params.soft_cap_margin
    kept_rps = min(cap_rps, max(forecast.further_rps))
    if forecast.rps > cap_rps:
        return cap_rps, kept_rps, Reason.SOFT_CAP
    return forecast.rps, kept_rps, Reason.FORECAST_LOAD


def _without_capacity(
    service: Service,
    fleet: Fleet,
    demand: Demand,
    capacity: Unknown,
    *,
    lead_s: float,
    measured_rps: float,
    inputs: tuple[tuple[str, float | str], ...],
) -> Requirement:
    """Nothing is known of what a replica can do: keep what there is, wake from zero, give up what is idle.

    Where several requests wait for each replica, one more is tried, and the next only when that is there.
    """
    detail = f"capacity of a replica {capacity}"
    if isinstance(demand.idle_s, float) and demand.idle_s > 0:
        up, down, reason = 0, 0, Reason.IDLE
        if fleet.asked > 0 and service.bounds.min_replicas == 0:
            down, reason, detail = _to_zero(service, demand, fleet, lead_s=lead_s)
    else:
        up = down = max(fleet.asked, 1 if _asks(demand, measured_rps) else 0)
        reason = Reason.WAKE_FROM_ZERO if up > fleet.asked else Reason.CAPACITY_UNKNOWN
        settled = fleet.starting == 0 and fleet.serving >= fleet.asked > 0
        if settled and _known(demand.backlog) > _MANY_WAITING * fleet.serving:
            up, down, reason = up + 1, down + 1, Reason.BACKLOG
    result = StageResult(stage=Stage.SIZE, replicas=up, reason=reason, detail=detail, inputs=inputs)
    return Requirement(up=up, down=down, measured_rps=measured_rps, result=result, needed=up)


def _asks(demand: Demand, measured_rps: float) -> bool:
    """Somebody wants an answer."""
    return measured_rps > 0 or _known(demand.in_flight) > 0


def _to_zero(service: Service, demand: Demand, fleet: Fleet, *, lead_s: float) -> tuple[int, Reason, str]:
    """The last replica goes only after the idle time, and not before it was worth its start."""
    idle_s = _known(demand.idle_s)
    if idle_s < service.idle.after_s:
        return 1, Reason.IDLE_TOO_SHORT, f"idle for {idle_s:.0f} s of {service.idle.after_s:.0f} s"
    least_s = service.idle.min_uptime_factor * lead_s
    if fleet.up_s is not None and fleet.up_s < least_s:
        text = f"up for {fleet.up_s:.0f} s; a start of {lead_s:.0f} s pays after {least_s:.0f} s"
        return 1, Reason.MINIMUM_UPTIME, text
    return 0, Reason.SCALE_TO_ZERO, f"idle for {idle_s:.0f} s"


def _replicas(rps: float, replica_rps: float) -> int:
    return math.ceil(rps / replica_rps - 1e-9)


def _known(value: Measured) -> float:
    """For ``up``: what is not known asks for nothing. Shrinking is barred elsewhere while anything is unknown."""
    return 0.0 if isinstance(value, Unknown) else value
