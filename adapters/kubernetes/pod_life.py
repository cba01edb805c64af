"""Where a pod is in its life, from what the scheduler and the kubelet write into its status."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from adapters.kubernetes.raw_json import (
    JsonObject,
    flag,
    found,
    inner,
    moment_s,
    objects,
    optional_text,
    optional_whole,
    text,
)

# All other reasons of a waiting container are errors that the kubelet tries again after a pause.
_ON_ITS_WAY = frozenset(("", "ContainerCreating", "PodInitializing"))
_SHOWN_CHARACTERS = 300

_Conditions = Mapping[str, JsonObject]


class Life(StrEnum):
    """Where a pod is in its life.

    UNSCHEDULED: no node yet. UNREADY: it was ready since its last start, and is not. ENDING: being deleted.
    FAILED: broken, and still in its place. GONE: ended; whoever made it makes another.
    """

    UNSCHEDULED = "Unscheduled"
    STARTING = "Starting"
    READY = "Ready"
    UNREADY = "Unready"
    ENDING = "Ending"
    FAILED = "Failed"
    GONE = "Gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lived:
    """A pod's life so far, in the words of its status.

    ``detail``: what it waits for or what is wrong. ``since_s``: since when it is ready, unready or without a node;
    None where it doesn't matter. ``unschedulable``: the scheduler has tried, and no node takes it.
    ``started_s``: when the last of its running containers started, None while one of them does not run.
    """

    life: Life
    detail: str = ""
    since_s: float | None = None
    unschedulable: bool = False
    started_s: float | None = None
    restarts: int = 0


def life_of(source: JsonObject) -> Lived:
    """Of a raw Pod. Raises ShapeError."""
    phase = optional_text(source, "status", "phase") or "Pending"
    conditions = {text(each, "type"): each for each in objects(source, "status", "conditions")}
    containers = objects(source, "status", "containerStatuses")
    inits = objects(source, "status", "initContainerStatuses")
    restarts = sum(optional_whole(each, "restartCount") or 0 for each in (*inits, *containers))
    if phase in ("Succeeded", "Failed"):
        return replace(_ended(source, phase, conditions, (*containers, *inits)), restarts=restarts)
    if found(source, "metadata", "deletionTimestamp") is not None:
        return Lived(life=Life.ENDING, started_s=_started_s(containers), restarts=restarts)
    if not optional_text(source, "spec", "nodeName"):
        return _without_node(source, conditions.get("PodScheduled"))
    return replace(_on_node(source, conditions, containers, inits), restarts=restarts)


def _ended(source: JsonObject, phase: str, conditions: _Conditions, statuses: Sequence[JsonObject]) -> Lived:
    """A pod that restarts its containers fails as a whole only where its node refused or evicted it."""
    always = (optional_text(source, "spec", "restartPolicy") or "Always") == "Always"
    disrupted = optional_text(conditions.get("DisruptionTarget", {}), "status") == "True"
    told = _shown(optional_text(source, "status", "message") or optional_text(source, "status", "reason") or "")
    if phase == "Succeeded" or always or disrupted:
        return Lived(life=Life.GONE, detail=told)
    return Lived(life=Life.FAILED, detail=told or _broken(statuses, "container") or "the pod failed")


def _on_node(
    source: JsonObject, conditions: _Conditions, containers: Sequence[JsonObject], inits: Sequence[JsonObject]
) -> Lived:
    """A pod whose containers run, or will."""
    ready, started_s = conditions.get("Ready", {}), _started_s(containers)
    since_s = moment_s(ready, "lastTransitionTime")
    if optional_text(ready, "status") == "True":
        return Lived(life=Life.READY, since_s=since_s, started_s=started_s)
    broken = _broken(containers, "container") or _broken(inits, "init container", may_end_well=True)
    if broken:
        return Lived(life=Life.FAILED, detail=broken)
    # Ready turns False before the containers start, and again only when they were ready in between.
    if started_s is not None and since_s is not None and since_s > started_s:
        told = optional_text(ready, "message") or optional_text(ready, "reason") or "its readiness probe fails"
        return Lived(life=Life.UNREADY, detail=f"no longer ready: {_shown(told)}", since_s=since_s, started_s=started_s)
    detail = _starting(conditions, containers, inits, _sidecars(source))
    if last := _last_failure((*containers, *inits)):
        detail = f"{detail}, started again: {last}"
    return Lived(life=Life.STARTING, detail=detail, started_s=started_s)


def _without_node(source: JsonObject, scheduled: JsonObject | None) -> Lived:
    if scheduled is None or optional_text(scheduled, "status") != "False":
        return Lived(life=Life.UNSCHEDULED, detail="waiting for the scheduler")
    reason, told = optional_text(scheduled, "reason"), optional_text(scheduled, "message") or ""
    since_s = moment_s(scheduled, "lastTransitionTime")
    if reason == "SchedulingGated":
        gates = ", ".join(text(gate, "name") for gate in objects(source, "spec", "schedulingGates"))
        return Lived(life=Life.UNSCHEDULED, detail=f"held back by the scheduling gates {gates}", since_s=since_s)
    detail = f"waiting for a node: {_shown(told or reason or 'none takes it')}"
    if nominated := optional_text(source, "status", "nominatedNodeName"):
        detail = f"waiting for pods of lower priority to leave node {nominated}"
    return Lived(
        life=Life.UNSCHEDULED, detail=detail, since_s=since_s, unschedulable=reason == "Unschedulable" and not nominated
    )


def _started_s(containers: Sequence[JsonObject]) -> float | None:
    """When the last container started, None while not all of them run."""
    started = [moment_s(each, "state", "running", "startedAt") for each in containers]
    known = [at_s for at_s in started if at_s is not None]
    return max(known) if known and len(known) == len(started) else None


def _sidecars(source: JsonObject) -> frozenset[str]:
    return frozenset(
        text(each, "name")
        for each in objects(source, "spec", "initContainers")
        if optional_text(each, "restartPolicy") == "Always"
    )


def _broken(statuses: Iterable[JsonObject], what: str, *, may_end_well: bool = False) -> str:
    """The first container that waits for another try, or has ended; "" where none does."""
    for status in statuses:
        name = f"{what} {text(status, 'name')}"
        waiting = inner(status, "state", "waiting")
        reason = optional_text(waiting, "reason") or ""
        if reason not in _ON_ITS_WAY:
            told = optional_text(waiting, "message") or ""
            last = _last_failure([status]) if reason == "CrashLoopBackOff" else _shown(told)
            return f"{name}: {reason}{f', {last}' if last else ''}"
        ended = found(status, "state", "terminated")
        if ended is not None:
            outcome = _outcome(inner(status, "state", "terminated"))
            if not (may_end_well and optional_whole(status, "state", "terminated", "exitCode") == 0):
                return f"{name} {outcome}"
    return ""


def _last_failure(statuses: Sequence[JsonObject]) -> str:
    for status in statuses:
        if found(status, "lastState", "terminated") is not None:
            return f"{text(status, 'name')} {_outcome(inner(status, 'lastState', 'terminated'))}"
    return ""


def _outcome(terminated: JsonObject) -> str:
    code, signal = optional_whole(terminated, "exitCode"), optional_whole(terminated, "signal")
    how = f"was ended by signal {signal}" if signal else f"exited with code {code}"
    reason = optional_text(terminated, "reason") or ""
    told = optional_text(terminated, "message") or ""
    said = f" ({reason})" if reason not in ("", "Error", "Completed") else ""
    return f"{how}{said}{f': {_shown(told)}' if told else ''}"


def _starting(
    conditions: _Conditions,
    containers: Sequence[JsonObject],
    inits: Sequence[JsonObject],
    sidecars: frozenset[str],
) -> str:
    """What a pod with a node is at."""
    for status in inits:
        name = text(status, "name")
        if found(status, "state", "running") is not None and (name not in sidecars or not flag(status, "started")):
            return f"init container {name} runs"
    if any(found(each, "state", "running") is not None for each in containers):
        if optional_text(conditions.get("ContainersReady", {}), "status") == "True":
            return "its containers are ready; a readiness gate is not"
        loading = [text(each, "name") for each in containers if not flag(each, "ready")]
        return f"loading ({', '.join(loading)} not ready yet)" if len(containers) > 1 else "loading"
    if optional_text(conditions.get("PodReadyToStartContainers", {}), "status") == "True":
        return "pulling the image"
    if not containers:
        return "waiting for its node's kubelet"
    # Which of the two it is the kubelet doesn't say before it reports the pod's sandbox.
    return "pulling the image, or preparing its volumes"


def _shown(told: str) -> str:
    told = " ".join(told.split())
    return told if len(told) <= _SHOWN_CHARACTERS else f"{told[: _SHOWN_CHARACTERS - 3]}..."
