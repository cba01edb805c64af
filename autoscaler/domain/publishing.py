"""A decision -> what others are told of it.

A decision that holds gives no number: whoever asks keeps what there is, and is told why and what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from autoscaler.domain.capacity import ReplicaCapacity
from autoscaler.domain.demand import Demand, Forecast
from autoscaler.domain.plan import Hold, Plan, Reason, ServiceDecision
from autoscaler.domain.publication import Publication
from autoscaler.domain.reading import Measured, Unknown, UnknownReason

_OF_DEMAND: tuple[tuple[str, Callable[[Demand], Measured]], ...] = (
    ("attained_ratio", lambda demand: demand.attained),
    ("backlog_requests", lambda demand: demand.backlog),
    ("coverage_ratio", lambda demand: demand.coverage),
    ("demand_short_rps", lambda demand: demand.short_rps),
    ("demand_stable_rps", lambda demand: demand.stable_rps),
    ("idle_seconds", lambda demand: demand.idle_s),
    ("in_flight_requests", lambda demand: demand.in_flight),
)
_OF_FORECAST: tuple[tuple[str, Callable[[Forecast], Measured]], ...] = (
    ("forecast_median_rps", lambda forecast: forecast.median_rps),
    ("forecast_rps", lambda forecast: forecast.rps),
)
_OF_CAPACITY: tuple[tuple[str, Callable[[ReplicaCapacity], Measured]], ...] = (
    ("replica_capacity_rps", lambda capacity: capacity.rps),
)
_OF_DECISION: tuple[tuple[str, Callable[[ServiceDecision], Measured]], ...] = (
    ("draining_replicas", lambda decision: float(decision.draining)),
    ("failed_replicas", lambda decision: float(decision.failed)),
    ("lead_time_seconds", lambda decision: decision.lead_s),
    ("ready_replicas", lambda decision: float(decision.ready)),
    ("starting_replicas", lambda decision: float(decision.starting)),
)
SIGNALS = tuple(sorted(name for name, _ in (*_OF_DEMAND, *_OF_FORECAST, *_OF_CAPACITY, *_OF_DECISION)))

_REACH = "look whether the pods answer at their metrics port and path (spec.metrics), and whether a policy forbids it"
_PAGE = "look what the metrics page of a replica says (`gpu-autoscaler read URL`), and whether spec.metrics names it"
_ADVICE: Mapping[UnknownReason, str] = {
    UnknownReason.UNREACHABLE: _REACH,
    UnknownReason.TIMEOUT: _REACH,
    UnknownReason.HTTP_ERROR: _PAGE,
    UnknownReason.EMPTY_PAGE: _PAGE,
    UnknownReason.MALFORMED_PAGE: _PAGE,
    UnknownReason.PAGE_TOO_LARGE: _PAGE,
    UnknownReason.WRONG_CONTENT: _PAGE,
    UnknownReason.UNKNOWN_ENGINE: "name the engine (key engine); " + _PAGE,
    UnknownReason.MISSING_SERIES: _PAGE,
    UnknownReason.OUT_OF_RANGE: _PAGE,
    UnknownReason.NOT_A_NUMBER: _PAGE,
    UnknownReason.CONTRADICTION: _PAGE,
    UnknownReason.NOT_EXPORTED: _PAGE,
    UnknownReason.STALE: _REACH,
    UnknownReason.RESET: "it is known again after the next pages",
    UnknownReason.WARMING_UP: "it is known after the next pages",
    UnknownReason.NO_REPLICAS: "with no replica only a gateway's figures tell the demand; send the requests through a "
    "gateway, or set minReplicas to 1 or more",
}
_HOLDS: Mapping[Reason, str] = {
    Reason.FOREIGN_OWNER: "leave the number of replicas to one of the two",
    Reason.SUSPENDED: "it goes on once that is undone",
    Reason.NO_DEVICE_OF_KIND: "add nodes with such devices, or give the service another variant",
    Reason.DEVICES_EXHAUSTED: "add devices, or free some",
    Reason.DEVICES_TAKEN: "add devices, or raise its priority",
    Reason.QUOTA_EXHAUSTED: "raise the quota, or lower maxReplicas",
    Reason.UNSCHEDULABLE: "see the pods' events for what the nodes lack",
    Reason.SERVICE_ERROR: "the log of the controller has the whole error; please report it",
    Reason.INVENTORY_UNAVAILABLE: "look whether the controller may read the cluster, and whether its API answers",
}


def published(
    decision: ServiceDecision,
    *,
    namespace: str,
    name: str,
    labels: Sequence[tuple[str, str]] = (),
    stale_after_s: float,
) -> Publication:
    """What is told of a decision on the service called ``name``; times are whole microseconds, as in the API."""
    outcome = decision.outcome
    return Publication(
        namespace=namespace,
        name=name,
        at_s=round(decision.at_s, 6),
        stale_after_s=stale_after_s,
        desired_replicas=decision.desired if isinstance(outcome, Plan) else held(decision, outcome),
        targets=tuple(sorted((target.variant, target.replicas) for target in outcome.targets))
        if isinstance(outcome, Plan)
        else (),
        signals=signals_of(decision),
        labels=tuple(labels),
    )


def held(decision: ServiceDecision, hold: Hold) -> Unknown:
    """Why a decision that holds gives no number, and what to do."""
    demand = known_demand(decision)
    if hold.reason is Reason.UNKNOWN_DEMAND and isinstance(demand, Unknown):
        return Unknown(demand.reason, _sentence(demand.detail, advice_for(demand.reason)))
    told = f"{hold.reason}: {hold.detail}" if hold.detail else str(hold.reason)
    return Unknown(UnknownReason.HELD, _sentence(told, _HOLDS.get(hold.reason, "")))


def known_demand(decision: ServiceDecision) -> Demand | Unknown:
    """The demand; Unknown where its arrivals are."""
    demand = decision.demand
    if isinstance(demand, Demand) and isinstance(demand.short_rps, Unknown):
        return demand.short_rps
    return demand


def advice_for(reason: UnknownReason) -> str:
    """What a person may do about a value that is unknown for this reason; empty where nothing is to be done."""
    return _ADVICE.get(reason, "")


def signals_of(decision: ServiceDecision) -> tuple[tuple[str, Measured], ...]:
    """Every measured signal of a decision by name, sorted; all of ``SIGNALS``."""
    demand, forecast, capacity = decision.demand, decision.forecast, decision.capacity
    values: dict[str, Measured] = {name: value_of(decision) for name, value_of in _OF_DECISION}
    for name, of_demand in _OF_DEMAND:
        values[name] = demand if isinstance(demand, Unknown) else of_demand(demand)
    for name, of_forecast in _OF_FORECAST:
        values[name] = forecast if isinstance(forecast, Unknown) else of_forecast(forecast)
    for name, of_capacity in _OF_CAPACITY:
        values[name] = capacity if isinstance(capacity, Unknown) else of_capacity(capacity)
    return tuple(sorted(values.items(), key=lambda each: each[0]))


def _sentence(*parts: str) -> str:
    return "; ".join(part for part in parts if part)
