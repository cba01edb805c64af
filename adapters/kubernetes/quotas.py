"""What a namespace lets its pods have: ResourceQuota and LimitRange, and the values of PriorityClasses.

Rules: Kubernetes docs, "Resource Quotas" (scopes, scopeSelector, requests.RESOURCE, count/pods) and "Limit Ranges".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from adapters.kubernetes.label_matching import Operator
from adapters.kubernetes.quantities import quantity
from adapters.kubernetes.raw_json import (
    JsonObject,
    ShapeError,
    flag,
    found,
    inner,
    objects,
    optional_text,
    text,
    whole,
)
from adapters.kubernetes.target_view import PodNeeds, is_extended


@dataclass(frozen=True, slots=True, kw_only=True)
class Scoped:
    """What the scopes of a quota look at in a pod."""

    priority_class: str = ""
    best_effort: bool = False
    has_deadline: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaScope:
    """One condition on the pods that a quota counts."""

    name: str
    operator: Operator = Operator.EXISTS
    values: tuple[str, ...] = ()

    def counts(self, pod: Scoped) -> bool:
        """Whether a pod is counted. Scopes that look at anything else count none of ours."""
        match self.name:
            case "Terminating":
                return pod.has_deadline
            case "NotTerminating":
                return not pod.has_deadline
            case "BestEffort":
                return pod.best_effort
            case "NotBestEffort":
                return not pod.best_effort
            case "PriorityClass":
                return self._names(pod.priority_class)
        return False

    def _names(self, priority_class: str) -> bool:
        match self.operator:
            case Operator.IN:
                return priority_class in self.values
            case Operator.NOT_IN:
                return priority_class not in self.values
            case Operator.DOES_NOT_EXIST:
                return not priority_class
        return bool(priority_class)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaView:
    """One ResourceQuota. ``hard``/``used``: amounts by resource ("requests.nvidia.com/gpu", "pods", "limits.cpu").

    ``used``: None until the cluster has counted.
    """

    namespace: str
    name: str
    hard: Mapping[str, float] = field(default_factory=dict)
    used: Mapping[str, float] | None = None
    scopes: tuple[QuotaScope, ...] = ()

    def counts(self, pod: Scoped) -> bool:
        """Whether it counts such a pod."""
        return all(scope.counts(pod) for scope in self.scopes)

    @property
    def devices(self) -> Mapping[str, int]:
        """Limits on extended resources, by kind."""
        found: dict[str, int] = {}
        for resource, hard in self.hard.items():
            which, _, kind = resource.partition(".")
            if which in ("requests", "limits") and is_extended(kind):
                found[kind] = min(found.get(kind, int(hard)), int(hard))
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRangeView:
    """One LimitRange: the most that a container or a pod may have, and what a container gets that asks for nothing."""

    namespace: str
    name: str
    container_max: Mapping[str, float] = field(default_factory=dict)
    pod_max: Mapping[str, float] = field(default_factory=dict)
    default_requests: Mapping[str, float] = field(default_factory=dict)
    default_limits: Mapping[str, float] = field(default_factory=dict)

    def refusal(self, needs: PodNeeds) -> str | None:
        """Why no pod of this template can be created, None where it can."""
        for what, most, wanted in (
            ("a container", self.container_max, needs.largest_limits),
            ("a pod", self.pod_max, needs.limits),
        ):
            for resource, allowed in most.items():
                if wanted.get(resource, 0.0) > allowed:
                    return (
                        f"limit range {self.name} allows {what} {allowed:g} {resource}, "
                        f"the template asks for {wanted[resource]:g}"
                    )
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityClassView:
    """One PriorityClass. ``preempts``: its pods may push out others. ``default``: of pods that name none."""

    name: str
    value: int
    preempts: bool = True
    default: bool = False


def quota_view(source: JsonObject) -> QuotaView:
    """A raw ResourceQuota. Raises ShapeError."""
    used = inner(source, "status", "used")
    listed = found(source, "spec", "scopes")
    scopes = [QuotaScope(name=str(name)) for name in listed] if isinstance(listed, list) else []
    return QuotaView(
        namespace=text(source, "metadata", "namespace"),
        name=text(source, "metadata", "name"),
        hard=_amounts(inner(source, "spec", "hard"), "spec.hard"),
        used=_amounts(used, "status.used") if used else None,
        scopes=(*scopes, *(_scope(each) for each in objects(source, "spec", "scopeSelector", "matchExpressions"))),
    )


def limit_range_view(source: JsonObject) -> LimitRangeView:
    """A raw LimitRange. Raises ShapeError."""
    container_max: dict[str, float] = {}
    pod_max: dict[str, float] = {}
    requests: dict[str, float] = {}
    limits: dict[str, float] = {}
    for item in objects(source, "spec", "limits"):
        kind = text(item, "type")
        most = container_max if kind == "Container" else pod_max
        if kind not in ("Container", "Pod"):
            continue
        for resource, amount in _amounts(inner(item, "max"), "max").items():
            most[resource] = min(most.get(resource, amount), amount)
        requests.update(_amounts(inner(item, "defaultRequest"), "defaultRequest"))
        limits.update(_amounts(inner(item, "default"), "default"))
    return LimitRangeView(
        namespace=text(source, "metadata", "namespace"),
        name=text(source, "metadata", "name"),
        container_max=container_max,
        pod_max=pod_max,
        default_requests={**container_max, **limits, **requests},
        default_limits={**container_max, **limits},
    )


def priority_class_view(source: JsonObject) -> PriorityClassView:
    """A raw PriorityClass. Raises ShapeError."""
    return PriorityClassView(
        name=text(source, "metadata", "name"),
        value=whole(source, "value"),
        preempts=optional_text(source, "preemptionPolicy") != "Never",
        default=flag(source, "globalDefault"),
    )


def _scope(source: JsonObject) -> QuotaScope:
    values = found(source, "values")
    written = text(source, "operator")
    if written not in set(Operator):
        raise ShapeError(f"spec.scopeSelector: unknown operator {written!r}")
    return QuotaScope(
        name=text(source, "scopeName"),
        operator=Operator(written),
        values=tuple(str(value) for value in values) if isinstance(values, list) else (),
    )


def _amounts(source: JsonObject, path: str) -> dict[str, float]:
    amounts: dict[str, float] = {}
    for resource, written in source.items():
        if not isinstance(written, str):
            raise ShapeError(f"{path}.{resource}: wanted a quantity, got {written!r}")
        amounts[resource] = quantity(written, path=f"{path}.{resource}")
    return amounts
