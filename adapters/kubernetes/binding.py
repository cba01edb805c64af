"""Resources bound to what they name: for each variant its target, how its pods are found, and what those need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from adapters.kubernetes.assignment import Scope
from adapters.kubernetes.contents import ObjectKey
from adapters.kubernetes.pools import Placement, placement_of
from adapters.kubernetes.quotas import PriorityClassView, Scoped
from adapters.kubernetes.replicas import ReplicaKind
from adapters.kubernetes.target_view import PodGroup, TargetView
from adapters.kubernetes.targets import Targeted, TargetKey, TargetProblem
from autoscaler.domain.resource import AutoscalerResource
from autoscaler.domain.service import DeviceRequest, Service, ServiceId

NEVER_PREEMPTS = -(2**31)  # no pod's priority is lower (API: PriorityClass.value is an int32)


class TargetSource(Protocol):
    """Who knows the targets: see ``Targets``."""

    def refresh(self, wanted: Iterable[TargetKey]) -> Targeted:
        """The targets as they are now."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Whether a target may be scaled by us: see ``Target``."""

    foreign_owner: str | None = None
    suspended: str | None = None


JudgeStanding = Callable[[AutoscalerResource, str, TargetView], Standing]


def stands_as_viewed(resource: AutoscalerResource, variant: str, view: TargetView) -> Standing:
    """As the object itself says."""
    return Standing(suspended=view.refusal)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """One variant of one resource with its target.

    ``view``: its last known one, where ``problem`` says why there is none now. ``placements``: of its pods that need
    devices, None where its template isn't known. ``priority``: of its pods, NEVER_PREEMPTS where they push nobody out.
    """

    resource: AutoscalerResource
    variant: str
    view: TargetView
    kind: ReplicaKind
    placements: frozenset[Placement] | None
    priority: int
    scoped: Scoped
    problem: str | None = None

    @property
    def scope(self) -> Scope:
        """Where its pods are."""
        return Scope(self.view.namespace, self.view.selector)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bindings:
    """``services``: with the devices that their pod templates ask for. A service with a target that was never seen is
    left out, because nobody knows its count; ``problems`` says so. ``awaited``: what is missing of targets that may
    only not have been heard of yet.
    """

    bound: tuple[Bound, ...]
    services: tuple[Service, ...]
    problems: Mapping[ServiceId, tuple[str, ...]]
    awaited: tuple[str, ...] = ()


class Binder:
    """Binds resources; what was made of a target is kept until it changes."""

    def __init__(self) -> None:
        self._known: dict[tuple[ServiceId, str], Bound] = {}
        self._classes: Mapping[ObjectKey, PriorityClassView] = {}
        self._services: dict[ServiceId, tuple[Service, tuple[DeviceRequest | None, ...], Service]] = {}

    def bind(
        self,
        resources: Sequence[AutoscalerResource],
        targeted: Targeted,
        classes: Mapping[ObjectKey, PriorityClassView],
    ) -> Bindings:
        """All resources, in the order of their names."""
        if classes is not self._classes:
            self._classes, self._known = classes, {}
        bound: dict[tuple[ServiceId, str], Bound] = {}
        services: list[Service] = []
        problems: dict[ServiceId, tuple[str, ...]] = {}
        for resource in sorted(resources, key=lambda each: each.service.id):
            mine, told = self._bind_one(resource, targeted)
            if told:
                problems[resource.service.id] = tuple(told)
            if len(mine) == len(resource.sources):
                bound.update({(resource.service.id, each.variant): each for each in mine})
                services.append(self._with_devices(resource.service, mine))
        self._known = bound
        self._services = {each.id: self._services[each.id] for each in services}
        return Bindings(
            bound=tuple(bound.values()),
            services=tuple(services),
            problems=problems,
            awaited=tuple(
                each.detail
                for each in targeted.values()
                if isinstance(each, TargetProblem) and each.last is None and not each.lasting
            ),
        )

    def _bind_one(self, resource: AutoscalerResource, targeted: Targeted) -> tuple[list[Bound], list[str]]:
        mine: list[Bound] = []
        told: list[str] = []
        for source in resource.sources:
            found = targeted.get((resource.namespace, source.target))
            view = found.last if isinstance(found, TargetProblem) else found
            problem = found.detail if isinstance(found, TargetProblem) else None
            if view is not None and view.selector is None and problem is None:
                problem = f"nothing tells which pods are those of {source.target}"
            if view is None:
                told.append(problem or f"{source.target} is not known yet")
                continue
            if problem is not None:
                told.append(problem)
            mine.append(self._bound(resource, source.variant, view, problem))
        return mine, told

    def _bound(self, resource: AutoscalerResource, variant: str, view: TargetView, problem: str | None) -> Bound:
        known = self._known.get((resource.service.id, variant))
        if known is None or known.resource is not resource or not _looks_alike(known.view, view):
            return _bound(resource, variant, view, problem, self._classes)
        if known.view is view and known.problem == problem:
            return known
        return replace(known, view=view, problem=problem)

    def _with_devices(self, service: Service, bound: Sequence[Bound]) -> Service:
        """``bound``: one for each variant, in their order."""
        devices = tuple(each.kind.devices for each in bound)
        known = self._services.get(service.id)
        if known is not None and known[0] is service and known[1] == devices:
            return known[2]
        variants = (
            replace(variant, devices=request) for variant, request in zip(service.variants, devices, strict=True)
        )
        filled = replace(service, variants=tuple(variants))
        self._services[service.id] = service, devices, filled
        return filled


def _looks_alike(before: TargetView, now: TargetView) -> bool:
    """Whether all but the counts is as it was; parts that didn't change are the same objects."""
    return (
        now.uid == before.uid
        and now.selector is before.selector
        and now.leader is before.leader
        and now.groups is before.groups
    )


def _bound(
    resource: AutoscalerResource,
    variant: str,
    view: TargetView,
    problem: str | None,
    classes: Mapping[ObjectKey, PriorityClassView],
) -> Bound:
    request = view.device_request
    groups = view.groups or ()
    holding = [group for group in groups if group.needs.devices] or list(groups)
    priority = min((_priority(group, classes) for group in holding), default=NEVER_PREEMPTS)
    return Bound(
        resource=resource,
        variant=variant,
        view=view,
        kind=ReplicaKind(
            service=resource.service.id,
            variant=variant,
            target=view.scaled.name,
            endpoint=resource.metrics,
            devices=request,
            group_label=view.group_label,
            leader=view.leader,
            pods=view.pods_per_replica,
        ),
        placements=None if view.groups is None else frozenset(placement_of(group.needs) for group in holding),
        priority=priority,
        scoped=_scoped(holding, classes),
        problem=problem,
    )


def _class_of(group: PodGroup, classes: Mapping[ObjectKey, PriorityClassView]) -> PriorityClassView | None:
    """The one it names, else the one of all that name none."""
    if group.needs.priority_class:
        return classes.get(ObjectKey("", group.needs.priority_class))
    return next((each for each in classes.values() if each.default), None)


def _priority(group: PodGroup, classes: Mapping[ObjectKey, PriorityClassView]) -> int:
    found = _class_of(group, classes)
    if found is None:
        return group.needs.priority or 0
    return found.value if found.preempts else NEVER_PREEMPTS


def _scoped(holding: Sequence[PodGroup], classes: Mapping[ObjectKey, PriorityClassView]) -> Scoped:
    if not holding:
        return Scoped()
    needs, found = holding[0].needs, _class_of(holding[0], classes)
    computes = any(name in amounts for amounts in (needs.requests, needs.limits) for name in ("cpu", "memory"))
    return Scoped(
        priority_class=needs.priority_class or (found.name if found is not None else ""), best_effort=not computes
    )
