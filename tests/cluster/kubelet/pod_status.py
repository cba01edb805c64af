"""The status that a kubelet writes for a pod (k8s.io/api/core/v1/types.go, pkg/kubelet/status/generate.go)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

Json = dict[str, Any]
_DONE = ("Succeeded", "Failed")


def now() -> str:
    """The present moment as the API writes it, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Containers:
    """What all containers of a pod are up to. ``state`` and ``last_state``: as the API has them."""

    state: Json
    last_state: Json
    ready: bool
    restarts: int

    @property
    def started(self) -> bool:
        """They run."""
        return "running" in self.state


def waiting(reason: str, message: str = "") -> Json:
    """A container's state before it runs, or between two runs."""
    return {"waiting": {"reason": reason, **({"message": message} if message else {})}}


def terminated(code: int, started_at: str) -> Json:
    """A container's state after a run."""
    reason = "Completed" if code == 0 else "Error"
    # A shell's convention: 128 and the signal's number.
    told = code if code >= 0 else 128 - code
    return {"terminated": {"exitCode": told, "reason": reason, "startedAt": started_at, "finishedAt": now()}}


def status_of(
    pod: Mapping[str, Any], phase: str, containers: Containers, *, address: str, before: Mapping[str, Any]
) -> Json:
    """The whole status. ``before``: the last one, whose times stay where nothing has changed."""
    pulled = phase not in ("Pending",)
    not_ready = ("PodCompleted", "") if phase in _DONE else ("ContainersNotReady", "containers are not ready")
    ready = ("True", "", "") if containers.ready else ("False", *not_ready)
    told = {
        "PodReadyToStartContainers": ("True" if pulled else "False", "", ""),
        "Initialized": ("True", "", ""),
        "Ready": ready,
        "ContainersReady": ready,
        "PodScheduled": ("True", "", ""),
    }
    status = {
        "phase": phase,
        "hostIP": "127.0.0.1",
        "hostIPs": [{"ip": "127.0.0.1"}],
        "startTime": before.get("startTime", now()),
        "qosClass": pod.get("status", {}).get("qosClass", "BestEffort"),
        "conditions": _conditions(told, before.get("conditions", [])),
        "containerStatuses": [_container(each, containers) for each in pod["spec"]["containers"]],
    }
    if pulled:
        status |= {"podIP": address, "podIPs": [{"ip": address}]}
    return status


def ready_of(status: Mapping[str, Any]) -> str | None:
    """What a status says of its Ready condition."""
    found = [str(each["status"]) for each in status.get("conditions", []) if each["type"] == "Ready"]
    return found[0] if found else None


def _conditions(told: Mapping[str, tuple[str, str, str]], before: list[Json]) -> list[Json]:
    old = {each["type"]: each for each in before}
    made = []
    for kind, (status, reason, message) in told.items():
        unchanged = kind in old and old[kind]["status"] == status
        since = old[kind]["lastTransitionTime"] if unchanged else now()
        condition = {"type": kind, "status": status, "lastProbeTime": None, "lastTransitionTime": since}
        made.append({**condition, **({"reason": reason, "message": message} if reason else {})})
    return made


def _container(spec: Mapping[str, Any], containers: Containers) -> Json:
    told = {
        "name": spec["name"],
        "image": spec["image"],
        "imageID": f"test://{spec['image']}" if containers.started else "",
        "ready": containers.ready,
        "started": containers.started,
        "restartCount": containers.restarts,
        "state": containers.state,
        "lastState": containers.last_state,
    }
    if containers.started:
        told["containerID"] = f"test://{spec['name']}-{containers.restarts}"
    return told
