"""What a pod template asks of the scheduler.

The effective request: Kubernetes docs, "Sidecar Containers" (resource sharing within containers) and "Init Containers";
requests that follow limits: "Resource Management for Pods and Containers"; pod-level resources: the same page.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from adapters.kubernetes.label_matching import NodeTerm, requirement_of
from adapters.kubernetes.quantities import quantity
from adapters.kubernetes.raw_json import (
    JsonObject,
    ShapeError,
    inner,
    objects,
    optional_text,
    optional_whole,
    strings,
)
from adapters.kubernetes.target_view import PodNeeds, Toleration

_DEFAULT_GRACE_S = 30


def needs_of(template: JsonObject) -> PodNeeds:
    """Of a PodTemplateSpec (or a pod: it has the same ``spec``). Raises ShapeError."""
    spec = inner(template, "spec")
    grace_s = optional_whole(spec, "terminationGracePeriodSeconds")
    return PodNeeds(
        requests=_effective(spec, "requests"),
        limits=_effective(spec, "limits"),
        largest_limits=_largest(spec, "limits"),
        node_selector=dict(strings(spec, "nodeSelector")),
        node_terms=tuple(_node_term(each) for each in objects(spec, *_REQUIRED_NODES)),
        tolerations=tuple(_toleration(each) for each in objects(spec, "tolerations")),
        priority_class=optional_text(spec, "priorityClassName") or "",
        priority=optional_whole(spec, "priority"),
        grace_s=float(_DEFAULT_GRACE_S if grace_s is None else grace_s),
    )


_REQUIRED_NODES = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")


def _effective(spec: JsonObject, which: str) -> Mapping[str, float]:
    """Containers and sidecars run together; an init container runs with the sidecars that were started before it."""
    together = _sum(_amounts(each, which) for each in objects(spec, "containers"))
    sidecars: Mapping[str, float] = {}
    highest: Mapping[str, float] = {}
    for container in objects(spec, "initContainers"):
        amounts = _amounts(container, which)
        if optional_text(container, "restartPolicy") == "Always":
            sidecars = _sum((sidecars, amounts))
            amounts = sidecars
        else:
            amounts = _sum((sidecars, amounts))
        highest = _larger(highest, amounts)
    effective = dict(_larger(_sum((together, sidecars)), highest))
    effective.update(_amounts(spec, which))  # what the pod as a whole is given replaces the sum of its parts
    return _sum((effective, _quantities(spec, "overhead")))


def _largest(spec: JsonObject, which: str) -> Mapping[str, float]:
    highest: dict[str, float] = {}
    for container in (*objects(spec, "containers"), *objects(spec, "initContainers")):
        highest = _larger(highest, _amounts(container, which))
    return highest


def _amounts(container: JsonObject, which: str) -> Mapping[str, float]:
    limits = _quantities(container, "resources", "limits")
    if which == "limits":
        return limits
    return {**limits, **_quantities(container, "resources", "requests")}


def _quantities(source: JsonObject, *path: str) -> Mapping[str, float]:
    amounts = {}
    for name, written in inner(source, *path).items():
        if not isinstance(written, str | int) or isinstance(written, bool):
            raise ShapeError(f"{'.'.join(path)}.{name}: wanted a quantity, got {written!r}")
        amounts[name] = quantity(str(written), path=f"{'.'.join(path)}.{name}")
    return amounts


def _sum(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, 0.0) + amount
    return total


def _larger(first: Mapping[str, float], second: Mapping[str, float]) -> dict[str, float]:
    return {name: max(first.get(name, 0.0), second.get(name, 0.0)) for name in {**first, **second}}


def _node_term(source: JsonObject) -> NodeTerm:
    return NodeTerm(
        labels=tuple(requirement_of(each) for each in objects(source, "matchExpressions")),
        fields=tuple(requirement_of(each) for each in objects(source, "matchFields")),
    )


def _toleration(source: JsonObject) -> Toleration:
    return Toleration(
        key=optional_text(source, "key") or "",
        operator=optional_text(source, "operator") or "Equal",
        value=optional_text(source, "value") or "",
        effect=optional_text(source, "effect") or "",
    )
