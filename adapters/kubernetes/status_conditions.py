"""The conditions of an InferenceAutoscaler, as ``metav1.Condition`` has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from adapters.kubernetes.raw_json import JsonObject, ShapeError, objects, optional_text, written_moment
from autoscaler.domain.plan import Hold, Reason, ServiceDecision, StageResult
from autoscaler.domain.publishing import advice_for, held, known_demand
from autoscaler.domain.reading import Unknown

_LONGEST_MESSAGE: Final = 1024


class ConditionType(StrEnum):
    """The aspects. READY: the spec is valid, its targets exist. ACTIVE: replicas are wanted. LIMITED: something other
    than the demand holds the number. METRICS_KNOWN: the demand is. OWNER_CONFLICT: somebody else writes the number too.
    TARGET_SCHEDULABLE: no pod waits in vain for a node.
    """

    READY = "Ready"
    ACTIVE = "Active"
    LIMITED = "Limited"
    METRICS_KNOWN = "MetricsKnown"
    OWNER_CONFLICT = "OwnerConflict"
    TARGET_SCHEDULABLE = "TargetSchedulable"


class ConditionStatus(StrEnum):
    """Whether it holds."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What the cluster shows of a resource's targets, each as a sentence; empty where all is well.

    ``unusable``: targets that do not exist or can't be scaled. ``conflicts``: who else writes a target's number, by
    name. ``unschedulable``: pods that no node takes.
    """

    unusable: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    unschedulable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Verdict:
    status: ConditionStatus
    reason: str
    message: str


_LIMITS: Final = frozenset(
    {
        Reason.MIN_REPLICAS,
        Reason.MAX_REPLICAS,
        Reason.SOFT_CAP,
        Reason.RATE_LIMITED,
        Reason.DEVICES_EXHAUSTED,
        Reason.DEVICES_TAKEN,
        Reason.DEVICES_WAITED_FOR,
        Reason.NO_DEVICE_OF_KIND,
        Reason.QUOTA_EXHAUSTED,
        Reason.UNSCHEDULABLE,
        Reason.INFEASIBLE,
    }
)


def conditions_of(
    decision: ServiceDecision, *, circumstances: Circumstances, generation: int, previous: JsonObject, now_s: float
) -> list[dict[str, object]]:
    """All conditions after a decision; one whose status stays keeps its ``lastTransitionTime``."""
    verdicts = {
        ConditionType.READY: _ready(circumstances),
        ConditionType.ACTIVE: _active(decision),
        ConditionType.LIMITED: _limited(decision),
        ConditionType.METRICS_KNOWN: _metrics_known(decision),
        ConditionType.OWNER_CONFLICT: _owner_conflict(decision, circumstances),
        ConditionType.TARGET_SCHEDULABLE: _schedulable(decision, circumstances),
    }
    return _written(verdicts, generation, previous, now_s)


def refused_conditions(
    problems: str, *, generation: int, previous: JsonObject, now_s: float
) -> list[dict[str, object]]:
    """Those of a resource whose spec can't be used."""
    none = _Verdict(ConditionStatus.UNKNOWN, "InvalidSpec", "the spec can't be used, so nothing is looked at")
    verdicts = dict.fromkeys(ConditionType, none)
    verdicts[ConditionType.READY] = _Verdict(ConditionStatus.FALSE, "InvalidSpec", problems)
    return _written(verdicts, generation, previous, now_s)


def cut(message: str) -> str:
    """A text as long as the status may hold: 1024 characters."""
    return message if len(message) <= _LONGEST_MESSAGE else message[: _LONGEST_MESSAGE - 1] + "…"


def _ready(circumstances: Circumstances) -> _Verdict:
    if circumstances.unusable:
        return _Verdict(ConditionStatus.FALSE, "TargetUnusable", "; ".join(circumstances.unusable))
    return _Verdict(ConditionStatus.TRUE, "Valid", "the spec is valid and its targets exist")


def _active(decision: ServiceDecision) -> _Verdict:
    if isinstance(decision.outcome, Hold):
        message = "no number of replicas is given: " + held(decision, decision.outcome).detail
        return _Verdict(ConditionStatus.UNKNOWN, str(decision.outcome.reason), message)
    if decision.desired > 0:
        return _Verdict(ConditionStatus.TRUE, "ReplicasWanted", f"{decision.desired} replicas are wanted")
    return _Verdict(ConditionStatus.FALSE, "ScaledToZero", "no replica is wanted")


def _limited(decision: ServiceDecision) -> _Verdict:
    stage = _limiting(decision.stages)
    if stage is None:
        return _Verdict(ConditionStatus.FALSE, "NotLimited", "nothing but the demand decides")
    return _Verdict(ConditionStatus.TRUE, str(stage.reason), stage.detail or str(stage.reason))


def _limiting(stages: Sequence[StageResult]) -> StageResult | None:
    """The last stage whose result is a limit."""
    return next((stage for stage in reversed(stages) if stage.reason in _LIMITS), None)


def _metrics_known(decision: ServiceDecision) -> _Verdict:
    demand = known_demand(decision)
    if isinstance(demand, Unknown):
        advice = advice_for(demand.reason)
        parts = [part for part in (demand.detail, advice) if part]
        return _Verdict(ConditionStatus.FALSE, str(demand.reason), "; ".join(parts) or str(demand.reason))
    if demand.unobserved:
        message = f"known, but not every replica is observed: {'; '.join(demand.unobserved)}"
        return _Verdict(ConditionStatus.TRUE, str(Reason.PARTIAL_COVERAGE), message)
    return _Verdict(ConditionStatus.TRUE, str(Reason.MEASURED), f"counted by the {demand.source.lower()}")


def _owner_conflict(decision: ServiceDecision, circumstances: Circumstances) -> _Verdict:
    names = "; ".join(circumstances.conflicts)
    outcome = decision.outcome
    if not names and isinstance(outcome, Hold) and outcome.reason is Reason.FOREIGN_OWNER:
        names = outcome.detail
    if not names:
        return _Verdict(ConditionStatus.FALSE, "SoleOwner", "nobody else writes the number of replicas")
    message = f"{names}; nothing is changed until only one of them is left"
    return _Verdict(ConditionStatus.TRUE, str(Reason.FOREIGN_OWNER), message)


def _schedulable(decision: ServiceDecision, circumstances: Circumstances) -> _Verdict:
    told = "; ".join(circumstances.unschedulable)
    stage = next((stage for stage in decision.stages if stage.reason is Reason.UNSCHEDULABLE), None)
    if not told and stage is not None:
        told = stage.detail or "pods wait for a node"
    if told:
        return _Verdict(ConditionStatus.FALSE, str(Reason.UNSCHEDULABLE), told)
    return _Verdict(ConditionStatus.TRUE, str(Reason.PLACED), "no pod waits in vain for a node")


def _written(
    verdicts: dict[ConditionType, _Verdict], generation: int, previous: JsonObject, now_s: float
) -> list[dict[str, object]]:
    since = _transitions(previous)
    return [
        {
            "type": str(kind),
            "status": str(verdict.status),
            "observedGeneration": generation,
            "lastTransitionTime": since.get((str(kind), str(verdict.status)), written_moment(now_s)),
            "reason": verdict.reason,
            "message": cut(verdict.message),
        }
        for kind, verdict in verdicts.items()
    ]


def _transitions(previous: JsonObject) -> dict[tuple[str | None, str | None], str]:
    """Since when each condition has its status; nothing where the old status can't be read."""
    try:
        rows = objects(previous, "conditions")
        return {
            (optional_text(row, "type"), optional_text(row, "status")): since
            for row in rows
            if (since := optional_text(row, "lastTransitionTime")) is not None
        }
    except ShapeError:
        return {}
