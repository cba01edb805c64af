"""The status of an InferenceAutoscaler: written from a decision, and read back as what HPA and KEDA are told.

Pure: JSON in and out. Every replica of the controller answers from the status, so ``publication_of`` gives exactly the
publication that ``status_of`` wrote.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from adapters.kubernetes.raw_json import (
    JsonObject,
    ShapeError,
    found,
    inner,
    moment_s,
    objects,
    optional_text,
    optional_whole,
    strings,
    text,
    written_moment,
)
from adapters.kubernetes.status_conditions import Circumstances, conditions_of, cut, refused_conditions
from autoscaler.domain.plan import Hold, Plan, ServiceDecision
from autoscaler.domain.publication import Publication
from autoscaler.domain.reading import Measured, Unknown, UnknownReason
from autoscaler.domain.resource import AutoscalerResource, RefusedResource

Status = dict[str, object]

KEPT_DECISIONS: Final = 10
# What changes with time alone. It is written again when the decision's age asks for it, not before.
_PASSING: Final = frozenset({"decidedAt", "leadTimeSeconds", "message"})


def status_of(
    resource: AutoscalerResource,
    decision: ServiceDecision,
    publication: Publication,
    *,
    circumstances: Circumstances,
    previous: JsonObject,
    now_s: float,
) -> Status:
    """The status after a decision. ``publication``: what is told of it; ``previous``: the status so far (or {}).

    Texts are cut at 1024 characters.
    """
    status: Status = {
        "observedGeneration": resource.generation,
        **_published(publication),
        "replicas": sum(target.replicas for target in decision.current),
        "readyReplicas": decision.ready,
        "startingReplicas": decision.starting,
        "drainingReplicas": decision.draining,
        "failedReplicas": decision.failed,
        "targets": _targets(resource, decision, publication),
        "reason": str(_reason(decision)),
        "message": cut(_message(decision)),
        "leadTimeSeconds": decision.lead_s,
        "conditions": conditions_of(
            decision,
            circumstances=circumstances,
            generation=resource.generation,
            previous=previous,
            now_s=now_s,
        ),
    }
    if past := _past_decisions(decision, publication, previous):
        status["lastDecisions"] = past
    return status


def refused_status(refused: RefusedResource, *, previous: JsonObject, stale_after_s: float, now_s: float) -> Status:
    """The status of a resource that can't be used: no number, and why. Its last decisions stay."""
    problems = "; ".join(str(problem) for problem in refused.problems)
    unknown = Unknown(UnknownReason.HELD, f"InvalidSpec: {problems}")
    publication = Publication(
        namespace=refused.namespace,
        name=refused.name,
        at_s=now_s,
        stale_after_s=stale_after_s,
        desired_replicas=unknown,
    )
    status: Status = {
        "observedGeneration": refused.generation,
        **_published(publication),
        "reason": "InvalidSpec",
        "message": cut(problems),
        "conditions": refused_conditions(cut(problems), generation=refused.generation, previous=previous, now_s=now_s),
    }
    if past := _kept_decisions(previous):
        status["lastDecisions"] = past
    return status


def publication_of(resource: JsonObject) -> Publication:
    """What is told of a resource (the whole API object). Raises nothing: what can't be read is unknown, and says so."""
    metadata = inner(resource, "metadata")
    namespace, name = text(metadata, "namespace"), text(metadata, "name")
    labels = tuple(sorted(strings(metadata, "labels").items()))
    try:
        return _read(inner(resource, "status"), namespace, name, labels)
    except ShapeError as error:
        unknown = Unknown(
            UnknownReason.CONTRADICTION,
            f"its status can't be read ({error}); the controller writes it anew at its next decision",
        )
    except _UndecidedError:
        unknown = Unknown(
            UnknownReason.UNDECIDED,
            "no decision has been made on it yet; look whether the controller runs and watches this namespace",
        )
    return Publication(
        namespace=namespace,
        name=name,
        at_s=0.0,
        stale_after_s=math.inf,
        desired_replicas=unknown,
        labels=labels,
    )


def worth_writing(old: JsonObject, new: JsonObject, now_s: float) -> bool:
    """Whether the new status has to replace the old one.

    It has when it says something else, values of signals and texts aside, or when a third of the time has passed after
    which the old one is no answer any more.
    """
    if _lasting(old) != _lasting(new):
        return True
    try:
        decided_s, stale_after_s = moment_s(old, "decidedAt"), _number(old, "staleAfterSeconds")
    except ShapeError:
        return True
    if decided_s is None or stale_after_s is None:
        return True
    return not 0 <= now_s - decided_s < stale_after_s / 3


# Writing


def _published(publication: Publication) -> Status:
    desired = publication.desired_replicas
    told: Status = {"unknown": _unknown(desired)} if isinstance(desired, Unknown) else {"desiredReplicas": desired}
    return {
        "decidedAt": written_moment(publication.at_s),
        "staleAfterSeconds": publication.stale_after_s,
        **told,
        "signals": [{"name": name, **_measured(value)} for name, value in publication.signals],
    }


def _measured(value: Measured) -> Status:
    if isinstance(value, Unknown):
        return {"unknown": _unknown(value)}
    if not math.isfinite(value):  # JSON has no such number
        return {"unknown": _unknown(Unknown(UnknownReason.NOT_A_NUMBER, str(value)))}
    return {"value": value}


def _unknown(unknown: Unknown) -> Status:
    return {"reason": str(unknown.reason), "message": cut(unknown.detail)}


def _targets(resource: AutoscalerResource, decision: ServiceDecision, publication: Publication) -> list[Status]:
    runs = {source.variant: str(source.target) for source in resource.sources}
    current = {target.variant: target.replicas for target in decision.current}
    desired = dict(publication.targets)
    rows: list[Status] = []
    for variant in sorted(runs.keys() | desired.keys()):
        row: Status = {"name": variant, "target": runs.get(variant, ""), "current": current.get(variant, 0)}
        if variant in desired:
            row["desired"] = desired[variant]
        rows.append(row)
    return rows


def _reason(decision: ServiceDecision) -> str:
    return decision.outcome.reason if isinstance(decision.outcome, Hold) else decision.binding


def _message(decision: ServiceDecision) -> str:
    if isinstance(decision.outcome, Hold):
        return f"held: {decision.outcome.detail}" if decision.outcome.detail else "held"
    return next((stage.detail for stage in reversed(decision.stages) if stage.reason == decision.binding), "")


def _kept_decisions(previous: JsonObject) -> list[JsonObject]:
    """Those of the status so far; none where they can't be read, as the API server would not take them again."""
    try:
        return list(objects(previous, "lastDecisions"))
    except ShapeError:
        return []


def _past_decisions(
    decision: ServiceDecision, publication: Publication, previous: JsonObject
) -> list[Mapping[str, object]]:
    """The last changes of the number, the newest first; one more where this decision changes it."""
    try:
        past = list(objects(previous, "lastDecisions"))
        before = optional_whole(past[0], "to") if past else None
        if before is None:
            before = optional_whole(previous, "desiredReplicas")
    except ShapeError:
        past, before = [], None
    if before is None:
        before = sum(target.replicas for target in decision.current)
    if isinstance(decision.outcome, Plan) and decision.desired != before:
        changed: Status = {
            "at": written_moment(publication.at_s),
            "from": before,
            "to": decision.desired,
            "reason": str(decision.binding),
            "message": cut(_message(decision)),
        }
        past.insert(0, changed)
    return past[:KEPT_DECISIONS]


def _lasting(status: JsonObject) -> Mapping[str, object]:
    """What of a status does not pass by itself."""
    lasting = {key: value for key, value in status.items() if key not in _PASSING}
    for key in ("signals", "conditions"):
        rows = status.get(key)
        if isinstance(rows, list):
            lasting[key] = [_lasting_row(row) if isinstance(row, Mapping) else row for row in rows]
    unknown = status.get("unknown")
    if isinstance(unknown, Mapping):
        lasting["unknown"] = unknown.get("reason")
    return lasting


def _lasting_row(row: JsonObject) -> object:
    """A signal: whether it is known. A condition: all but its text."""
    kept = {key: value for key, value in row.items() if key not in ("value", "message")}
    if isinstance(unknown := kept.get("unknown"), Mapping):
        kept["unknown"] = unknown.get("reason")
    return kept


# Reading


class _UndecidedError(Exception):
    """The status holds no decision."""


def _read(status: JsonObject, namespace: str, name: str, labels: tuple[tuple[str, str], ...]) -> Publication:
    at_s, stale_after_s = moment_s(status, "decidedAt"), _number(status, "staleAfterSeconds")
    if at_s is None or stale_after_s is None:
        raise _UndecidedError
    desired = optional_whole(status, "desiredReplicas")
    targets = [
        (text(each, "name"), desired_of)
        for each in objects(status, "targets")
        if (desired_of := optional_whole(each, "desired")) is not None
    ]
    return Publication(
        namespace=namespace,
        name=name,
        at_s=at_s,
        stale_after_s=stale_after_s,
        desired_replicas=_told(inner(status, "unknown")) if desired is None else desired,
        targets=tuple(targets),
        signals=tuple((text(each, "name"), _signal(each)) for each in objects(status, "signals")),
        labels=labels,
    )


def _signal(row: JsonObject) -> Measured:
    value = _number(row, "value")
    return _told(inner(row, "unknown")) if value is None else value


def _told(unknown: JsonObject) -> Unknown:
    reason, message = optional_text(unknown, "reason"), optional_text(unknown, "message") or ""
    if reason not in set(UnknownReason):  # another version's word, or none
        return Unknown(UnknownReason.CONTRADICTION, message or "the status gives neither a number nor a reason")
    return Unknown(UnknownReason(reason), message)


def _number(source: JsonObject, key: str) -> float | None:
    value = found(source, key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ShapeError(f"{key}: wanted a number, got {value!r}")
    return float(value)
