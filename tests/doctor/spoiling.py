"""Ways to spoil a world, and to look at what is found in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from autoscaler.doctor.examination import examine_cluster
from autoscaler.doctor.finding import Finding, Severity
from autoscaler.doctor.rights import Asked, Right
from tests.doctor.world import (
    NOW_S,
    SCALER_SERVICE,
    Json,
    World,
    api_service,
    meta,
    node,
    right_hpa,
    right_scaled_object,
    stamp,
)

Spoil = Callable[[World], object]
Change = Callable[[Json], object]


def found(world: World) -> list[Finding]:
    return examine_cluster(world.facts)


def bad(findings: list[Finding]) -> list[Finding]:
    return [each for each in findings if each.severity is not Severity.OK]


def hpa_with(change: Change) -> Spoil:
    def spoil(world: World) -> None:
        world.api_service = api_service()
        made = right_hpa(world)
        change(made)
        world.hpas = [made]

    return spoil


def scaled_object_with(change: Change) -> Spoil:
    def spoil(world: World) -> None:
        world.services["gpu-autoscaler/gpu-autoscaler"] = SCALER_SERVICE
        made = right_scaled_object(world)
        change(made)
        world.scaled_objects = [made]

    return spoil


def external(hpa: Json) -> Json:
    found: Json = hpa["spec"]["metrics"][0]["external"]
    return found


def labelled(labels: Mapping[str, str]) -> Spoil:
    """More labels of the one node, without their domain nvidia.com."""

    def spoil(world: World) -> None:
        world.nodes = [node("gpu-0", labels={f"nvidia.com/{name}": value for name, value in labels.items()})]

    return spoil


def set_condition(kind: str, status: str) -> Spoil:
    def spoil(world: World) -> None:
        told = {"type": kind, "status": status, "reason": "Because", "message": "it is so"}
        world.resource["status"]["conditions"] = [told]

    return spoil


def container(world: World) -> Json:
    found: Json = world.deployment["spec"]["template"]["spec"]["containers"][0]
    return found


def each_pod(change: Change) -> Spoil:
    def spoil(world: World) -> None:
        for pod in world.pods:
            change(pod)

    return spoil


def assigned(name: str, value: object) -> Spoil:
    return lambda world: setattr(world, name, value)


def policy(ingress: list[Json]) -> Json:
    spec = {"podSelector": {"matchLabels": {"app": "chat"}}, "policyTypes": ["Ingress"], "ingress": ingress}
    return {"metadata": meta("closed"), "spec": spec}


def refused(verb: str) -> Asked:
    right = Right(group="apps", resource="deployments/scale", verbs=("get", "update"), why="so", namespace="shop")
    return Asked(right=right, account="system:serviceaccount:ops:ours", refused=(verb,))


def lease(**spec: object) -> list[Json]:
    whole = {"holderIdentity": "pod-0", "leaseDurationSeconds": 15, "renewTime": stamp(NOW_S - 1), **spec}
    return [{"metadata": {**meta("gpu-autoscaler"), "namespace": "ops"}, "spec": whole}]


def rival(**metadata: object) -> Json:
    return {
        "metadata": {**meta("rival"), **metadata},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat"},
            "metrics": [{"type": "Resource", "resource": {"name": "cpu"}}],
        },
    }


def quota(resource: str, *, hard: str, used: str) -> list[Json]:
    """One ResourceQuota on one resource."""
    return [{"metadata": meta("small"), "spec": {"hard": {resource: hard}}, "status": {"used": {resource: used}}}]


def both(*spoils: Spoil) -> Spoil:
    """One after the other."""

    def spoil(world: World) -> None:
        for each in spoils:
            each(world)

    return spoil


def nothing(made: Json) -> None:
    """No change."""
