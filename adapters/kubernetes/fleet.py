"""A variant's replicas, and what they and all others hold of nodes and quotas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from adapters.kubernetes.assignment import Assigned
from adapters.kubernetes.binding import NEVER_PREEMPTS, Bound
from adapters.kubernetes.capacity import Held, Place, held_by, keeps
from adapters.kubernetes.nodes import Heard, NodeView
from adapters.kubernetes.pod_life import Life
from adapters.kubernetes.pods import PodView
from adapters.kubernetes.quotas import QuotaView, Scoped
from adapters.kubernetes.replicas import ReplicaViews
from autoscaler.domain.cluster import Phase, Quota, Replica
from autoscaler.domain.service import ServiceId


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """A bound variant with its replicas.

    ``staying``: how many of them don't go. ``kept``: the pods of those that were asked for, no surplus among them.
    ``held``: devices, by place, of the same number of replicas that have a node.
    """

    bound: Bound
    replicas: Sequence[Replica]
    staying: int
    kept: Sequence[Sequence[PodView]]
    held: Sequence[tuple[Place, int]]


class Fleets:
    """Makes fleets; one whose pods, nodes and target are as before is the one from before."""

    def __init__(self) -> None:
        self._replicas = ReplicaViews()
        self._unheard: frozenset[tuple[str, Heard]] = frozenset()
        self._known: dict[tuple[ServiceId, str], tuple[Sequence[PodView], Fleet]] = {}

    def of(
        self, bound: Sequence[Bound], pods: Sequence[Sequence[PodView]], nodes: Mapping[str, NodeView], *, now_s: float
    ) -> list[Fleet]:
        """One for each bound variant; ``pods``: those of each."""
        unheard = frozenset((node.name, node.heard) for node in nodes.values() if node.heard is not Heard.READY)
        before = self._known if unheard == self._unheard else {}
        self._unheard, self._known = unheard, {}
        self._replicas.begin()
        fleets = []
        for each, mine in zip(bound, pods, strict=True):
            key = each.kind.service, each.variant
            known = before.get(key)
            if known is not None and known[1].bound is each and known[0] == mine:
                fleet = known[1]
            else:
                fleet = _fleet(each, self._replicas.of(each.kind, mine, nodes, now_s=now_s))
            # What an unready pod is depends on the time.
            if not any(pod.lived.life is Life.UNREADY for pod in mine):
                self._known[key] = mine, fleet
            fleets.append(fleet)
        return fleets


def _fleet(bound: Bound, found: Sequence[tuple[Replica, Sequence[PodView]]]) -> Fleet:
    asked, request = bound.view.replicas, bound.kind.devices
    staying = [(replica, members) for replica, members in found if replica.phase is not Phase.DRAINING]
    placed = [members for replica, members in staying if replica.nodes][:asked]
    return Fleet(
        bound=bound,
        replicas=[replica for replica, _ in found],
        staying=len(staying),
        kept=[members for _, members in staying][:asked],
        held=[] if request is None else [each for members in placed for each in keeps(members, request)],
    )


def held_of(fleets: Sequence[Fleet], assigned: Assigned) -> Held:
    """What all pods hold of the nodes' devices."""
    return held_by(
        assigned.holders,
        (each for fleet in fleets for each in fleet.held),
        below=max((fleet.bound.priority for fleet in fleets), default=NEVER_PREEMPTS),
    )


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
