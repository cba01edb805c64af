"""What the API says of a service: its latest figures with their age, in fields that stay."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from adapters.serving.store import Board, Change, Entry, why
from adapters.serving.timeline import Point, finite
from autoscaler.domain.plan import Hold, Reason, ServiceDecision
from autoscaler.domain.reading import Measured, Unknown, UnknownReason
from autoscaler.domain.service import Bounds, ServiceId, Slo

NO_DECISION = Unknown(UnknownReason.NO_OBSERVATIONS, "no decision has been made yet")
NO_TICK = Unknown(UnknownReason.NO_OBSERVATIONS, "the control loop has not finished a round yet")
_NOT_CONFIGURED = Unknown(UnknownReason.NOT_EXPORTED, "the service is not in the configuration")


class Condition(StrEnum):
    """A service's state in one word, the first that fits."""

    WAITING = "Waiting"
    HOLDING = "Holding"
    GROWING = "Growing"
    SHRINKING = "Shrinking"
    ASLEEP = "Asleep"
    STEADY = "Steady"


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One service in a list. ``latest``: its newest point. ``stale``: older than the board's limit, or none yet.

    ``slo_share``: the share of requests that should be within the SLO. ``reason`` and ``detail``: what binds, and the
    sentence that says so. ``replica_hours`` and ``cost``: spent since this process started.
    """

    service: ServiceId
    at_s: Measured
    age_s: Measured
    stale: bool
    condition: Condition
    reason: Reason | None
    detail: str
    slo_share: Measured
    lead_s: Measured
    latest: Point | Unknown
    replica_hours: float
    cost: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceList:
    """Services by name. ``at_s`` and ``age_s`` are those of the last round of the control loop.

    ``complete``: all services of the board are listed; False in a live update that brings only what changed.
    ``decided_by``: which other replica of the controller decides, and so has the figures; None where this one does.
    """

    at_s: Measured
    age_s: Measured
    stale: bool
    stale_after_s: float
    complete: bool
    decided_by: str | None
    services: tuple[Summary, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceDetail:
    """One service in full. ``changes``: newest first."""

    at_s: Measured
    age_s: Measured
    stale: bool
    summary: Summary
    slo: Slo | Unknown
    bounds: Bounds | Unknown
    changes: tuple[Change, ...]
    decision: ServiceDecision | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionList:
    """Past decisions, oldest first."""

    at_s: Measured
    age_s: Measured
    stale: bool
    service: ServiceId
    decisions: tuple[ServiceDecision, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineView:
    """Points, oldest first, at least ``spacing_s`` apart on average where there were too many to keep."""

    at_s: Measured
    age_s: Measured
    stale: bool
    service: ServiceId
    spacing_s: float
    points: tuple[Point, ...]


def age_of(at_s: float, now_s: float) -> float:
    """Seconds since ``at_s``, never negative."""
    return max(0.0, now_s - at_s)


def condition_of(decision: ServiceDecision) -> Condition:
    """The word for a decision."""
    coming = decision.ready + decision.starting
    if isinstance(decision.outcome, Hold):
        return Condition.HOLDING
    if decision.starting > 0 or decision.desired > coming:
        return Condition.GROWING
    if decision.draining > 0 or decision.desired < coming:
        return Condition.SHRINKING
    return Condition.ASLEEP if decision.desired == 0 else Condition.STEADY


def summary_of(name: ServiceId, entry: Entry, *, now_s: float, stale_after_s: float) -> Summary:
    """One service's line."""
    decision = entry.decision
    share = entry.service.slo.share if entry.service else _NOT_CONFIGURED
    spent_h, cost = entry.totals.replica_s / 3600, entry.totals.cost
    if decision is None:
        return Summary(
            service=name,
            at_s=NO_DECISION,
            age_s=NO_DECISION,
            stale=True,
            condition=Condition.WAITING,
            reason=None,
            detail=NO_DECISION.detail,
            slo_share=share,
            lead_s=NO_DECISION,
            latest=NO_DECISION,
            replica_hours=spent_h,
            cost=cost,
        )
    age_s = age_of(decision.at_s, now_s)
    latest = entry.timeline.points[-1]
    return Summary(
        service=name,
        at_s=decision.at_s,
        age_s=age_s,
        stale=age_s > stale_after_s,
        condition=condition_of(decision),
        reason=latest.held or latest.binding,
        detail=why(decision),
        slo_share=share,
        lead_s=finite(decision.lead_s),
        latest=latest,
        replica_hours=spent_h,
        cost=cost,
    )


def list_of(board: Board, *, now_s: float, newer_than: int = -1) -> ServiceList:
    """The services whose entries changed after the board's version ``newer_than``, by name."""
    age_s = NO_TICK if board.last_tick_s is None else age_of(board.last_tick_s, now_s)
    listed = [(name, entry) for name, entry in sorted(board.entries.items()) if entry.version > newer_than]
    return ServiceList(
        at_s=NO_TICK if board.last_tick_s is None else board.last_tick_s,
        age_s=age_s,
        stale=isinstance(age_s, Unknown) or age_s > board.stale_after_s,
        stale_after_s=board.stale_after_s,
        complete=len(listed) == len(board.entries),
        decided_by=board.decided_by,
        services=tuple(
            summary_of(name, entry, now_s=now_s, stale_after_s=board.stale_after_s) for name, entry in listed
        ),
    )


def detail_of(name: ServiceId, entry: Entry, *, now_s: float, stale_after_s: float) -> ServiceDetail:
    """One service in full."""
    summary = summary_of(name, entry, now_s=now_s, stale_after_s=stale_after_s)
    return ServiceDetail(
        at_s=summary.at_s,
        age_s=summary.age_s,
        stale=summary.stale,
        summary=summary,
        slo=entry.service.slo if entry.service else _NOT_CONFIGURED,
        bounds=entry.service.bounds if entry.service else _NOT_CONFIGURED,
        changes=entry.changes,
        decision=NO_DECISION if entry.decision is None else entry.decision,
    )
