"""A variant's replicas, and what they and all others hold of nodes and quotas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from adapters.kubernetes.assignment import NOBODY, Assigned
from adapters.kubernetes.binding import NEVER_PREEMPTS, Bound
from adapters.kubernetes.capacity import Held
from adapters.kubernetes.pod_life import Life
from adapters.kubernetes.pods import PodView
from adapters.kubernetes.quotas import QuotaView, Scoped
from autoscaler.domain.cluster import Quota, Replica


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """A bound variant with its replicas.

    ``kept``: the pods of the replicas that were asked for, no surplus among them and none that goes. ``placed``: of
    those that have a node, up to the same number.
    """

    bound: Bound
    replicas: Sequence[Replica]
    kept: Sequence[Sequence[PodView]]
    placed: Sequence[Sequence[PodView]]


def held_of(fleets: Sequence[Fleet], assigned: Assigned) -> Held:
    """What all pods hold of the nodes' devices."""
    held = Held()
    for fleet in fleets:
        for members in fleet.placed:
            held.keep(members, fleet.bound.kind.devices)
    below = max((fleet.bound.priority for fleet in fleets), default=NEVER_PREEMPTS)
    for pod, owner in assigned.holders:
        if pod.holds:
            held.take(pod, ours=owner != NOBODY, below=below)
    return held


def device_quotas(
    quotas: Mapping[str, Sequence[QuotaView]], fleets: Sequence[Fleet], assigned: Assigned
) -> tuple[Quota, ...]:
    """Limits on devices, less what others hold; what packing counts for replicas of ours is not taken off.

    What is held is counted from the pods, because ``status.used`` lags behind them.
    """
    found: list[Quota] = []
    for namespace, views in quotas.items():
        mine = [fleet for fleet in fleets if fleet.bound.view.namespace == namespace]
        holders = [pod for pod, _ in assigned.holders if pod.namespace == namespace and pod.life is not Life.GONE]
        for view in views:
            counted = [fleet for fleet in mine if view.counts(fleet.bound.scoped)]
            held: Counter[str] = Counter()
            for pod in holders:
                if view.counts(_scoped(pod)):
                    held.update(pod.devices)
            for fleet in counted:
                held.subtract(_counted_by_packing(fleet))
            for kind, hard in view.devices.items():
                if services := {fleet.bound.resource.service.id for fleet in counted if _uses(fleet.bound, kind)}:
                    name = view.name if len(view.devices) == 1 else f"{view.name} ({kind})"
                    found.append(
                        Quota(
                            name=f"{namespace}/{name}",
                            kind=kind,
                            devices=max(0, hard - max(0, held[kind])),
                            services=tuple(sorted(services)),
                        )
                    )
    return tuple(found)


def _counted_by_packing(fleet: Fleet) -> Counter[str]:
    taken: Counter[str] = Counter()
    request = fleet.bound.kind.devices
    if request is not None:
        for members in fleet.kept:
            for pod in [pod for pod in members if pod.devices][: request.pods]:
                taken[request.kind] += min(request.count, pod.devices.get(request.kind, 0))
    return taken


def _uses(bound: Bound, kind: str) -> bool:
    return bound.kind.devices is not None and bound.kind.devices.kind == kind


def _scoped(pod: PodView) -> Scoped:
    return Scoped(priority_class=pod.priority_class, best_effort=pod.best_effort, has_deadline=pod.has_deadline)
