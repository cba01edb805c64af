"""What exists in the cluster, as one snapshot: from memory alone, without a call to the API server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from time import monotonic

from adapters.kubernetes.assignment import Assignment
from adapters.kubernetes.binding import (
    Binder,
    Bindings,
    Bound,
    JudgeStanding,
    TargetSource,
    stands_as_viewed,
)
from adapters.kubernetes.broken_devices import lost_devices
from adapters.kubernetes.capacity import NEW_NODES, devices_of
from adapters.kubernetes.collections import ClusterViews, Kept
from adapters.kubernetes.fleet import Fleet, Fleets, device_quotas, held_of
from adapters.kubernetes.pools import NodePools, PoolMap
from adapters.kubernetes.quota_limits import most_replicas
from adapters.kubernetes.quotas import LimitRangeView, QuotaView
from autoscaler.domain.cluster import ClusterSnapshot, Target
from autoscaler.domain.resource import AutoscalerResource
from autoscaler.domain.service import Service, ServiceId
from autoscaler.policy.device_health import BrokenDevice
from autoscaler.ports import UnavailableError

STALE_AFTER_S = 120.0
# Targets that were never heard of hold up all others for so long after the start: a service that is left out of a
# decision is forgotten, and nothing should be forgotten because a watch has just begun.
SETTLING_S = 30.0
_LOOK_S = 0.05


class KubernetesInventory:
    """Inventory of a cluster, for one thread.

    Ask for ``services`` and then for the ``snapshot``: both see the same targets.
    """

    def __init__(
        self,
        *,
        resources: Callable[[], Sequence[AutoscalerResource]],
        targets: TargetSource,
        views: ClusterViews,
        now_s: Callable[[], float],
        standing: JudgeStanding = stands_as_viewed,
        node_autoscaling: bool = False,
        stale_after_s: float = STALE_AFTER_S,
        broken: Callable[[], Iterable[BrokenDevice]] = tuple,
    ) -> None:
        """``standing``: who else writes a target, and what stands against writing it.

        ``node_autoscaling``: nodes are made for pods that wait for one, so that no kind of device runs out.
        ``stale_after_s``: a collection that was not heard of for longer is no longer believed.
        ``broken``: devices that are no capacity, though their nodes offer them.
        """
        self._resources = resources
        self._targets = targets
        self._views = views
        self._now_s = now_s
        self._standing = standing
        self._node_autoscaling = node_autoscaling
        self._stale_after_s = stale_after_s
        self._broken = broken
        self._binder = Binder()
        self._fresh: Bindings | UnavailableError | None = None
        self._begun_s: float | None = None
        self._assignment = Assignment()
        self._fleets = Fleets()
        self._pools = NodePools()
        self._unbound: Mapping[ServiceId, tuple[str, ...]] = {}
        self._seen: Mapping[ServiceId, tuple[str, ...]] = {}

    def services(self) -> tuple[Service, ...]:
        """The services that can be decided on, with the devices of their pod templates.

        Empty before all is known; the snapshot after that raises UnavailableError.
        """
        try:
            bindings = self._bind()
        except UnavailableError as error:
            self._fresh = error
            return ()
        self._fresh = bindings
        return bindings.services

    def await_targets(self, timeout_s: float) -> bool:
        """Wait until all targets were heard of, or are known to be missing; whether they are."""
        ends_s, pause = monotonic() + timeout_s, threading.Event()
        while True:
            try:
                if not self._bound_now().awaited:
                    return True
            except UnavailableError:
                pass
            if monotonic() >= ends_s:
                return False
            pause.wait(_LOOK_S)

    def problems(self, service: ServiceId) -> tuple[str, ...]:
        """What is wrong with what it names, sentences for a person; as of the last ``services`` and snapshot."""
        return (*self._unbound.get(service, ()), *self._seen.get(service, ()))

    def snapshot(self) -> ClusterSnapshot:
        """Devices, replicas, targets and quotas now.

        Raises UnavailableError while a collection is not known, or was not heard of for too long.
        """
        now_s = self._now_s()
        for name, collection in self._views.named():
            self._check_heard(name, collection, now_s)
        fresh, self._fresh = self._fresh, None
        if isinstance(fresh, UnavailableError):
            raise fresh
        bindings = self._bind() if fresh is None else fresh
        nodes = {node.name: node for node in self._views.nodes.items().values()}
        assigned = self._assignment.of(self._views.pods.items(), [each.scope for each in bindings.bound])
        fleets = self._fleets.of(bindings.bound, assigned.pods, nodes, now_s=now_s)
        needing = [bound for bound in bindings.bound if bound.kind.devices is not None]
        pools = self._pools.of(nodes.values(), {each for bound in needing for each in bound.placements or ()})
        quotas, limit_ranges = _quotas_by_namespace(self._views.quotas), _limits_by_namespace(self._views.limit_ranges)
        targets = [self._target(fleet, pools, quotas, limit_ranges) for fleet in fleets]
        self._seen = self._told(bindings, targets)
        return ClusterSnapshot(
            at_s=now_s,
            devices=devices_of(
                nodes,
                held_of(fleets, assigned),
                pools.pool,
                endless=self._endless(needing),
                broken=lost_devices(self._broken(), nodes),
            ),
            replicas=tuple(replica for fleet in fleets for replica in fleet.replicas),
            targets=tuple(targets),
            quotas=device_quotas(quotas, fleets, assigned),
        )

    def _bind(self) -> Bindings:
        """Raises UnavailableError."""
        bindings = self._bound_now()
        self._unbound = bindings.problems
        now_s = self._now_s()
        self._begun_s = now_s if self._begun_s is None else self._begun_s
        if bindings.awaited and now_s - self._begun_s < SETTLING_S:
            raise UnavailableError(f"targets are not known yet: {'; '.join(sorted(set(bindings.awaited)))}")
        return bindings

    def _bound_now(self) -> Bindings:
        resources = self._resources()
        wanted = [(resource.namespace, source.target) for resource in resources for source in resource.sources]
        return self._binder.bind(resources, self._targets.refresh(wanted), self._views.priority_classes.items())

    def _check_heard(self, name: str, collection: Kept[object], now_s: float) -> None:
        collection.items()  # raises while it was never known
        heard_s = collection.heard_s
        if heard_s is None or now_s - heard_s > self._stale_after_s:
            since = "ever" if heard_s is None else f"for {now_s - heard_s:.0f} s"
            failure = f": {collection.failure}" if collection.failure else ""
            raise UnavailableError(f"the {name} of the cluster were not heard of {since}{failure}")

    def _target(
        self,
        fleet: Fleet,
        pools: PoolMap,
        quotas: Mapping[str, Sequence[QuotaView]],
        limit_ranges: Mapping[str, Sequence[LimitRangeView]],
    ) -> Target:
        bound, view = fleet.bound, fleet.bound.view
        standing = self._standing(bound.resource, bound.variant, view)
        named: tuple[str, ...] | None = None
        if bound.kind.devices is not None and bound.placements is not None:
            named = pools.carrying(bound.placements)
            if self._node_autoscaling:
                named = (*named, NEW_NODES)
        most = None
        if view.namespace in quotas or view.namespace in limit_ranges:
            most = most_replicas(
                [(group.needs, group.pods) for group in view.groups or ()],
                existing=fleet.staying,
                quotas=[quota for quota in quotas.get(view.namespace, ()) if quota.counts(bound.scoped)],
                limit_ranges=limit_ranges.get(view.namespace, ()),
            )
        return Target(
            service=bound.resource.service.id,
            variant=bound.variant,
            replicas=view.replicas,
            foreign_owner=standing.foreign_owner,
            suspended=bound.problem or standing.suspended,
            pools=named,
            priority=bound.priority,
            most=None if most is None else most.replicas,
            most_detail="" if most is None else most.detail,
        )

    def _endless(self, needing: Sequence[Bound]) -> frozenset[str]:
        if not self._node_autoscaling:
            return frozenset()
        return frozenset(bound.kind.devices.kind for bound in needing if bound.kind.devices is not None)

    def _told(self, bindings: Bindings, targets: Sequence[Target]) -> Mapping[ServiceId, tuple[str, ...]]:
        """Bad pods of namespaces that have services, and targets whose pods no node admits."""
        problems: dict[ServiceId, list[str]] = {}
        spaces: dict[str, set[ServiceId]] = {}
        for bound, target in zip(bindings.bound, targets, strict=True):
            spaces.setdefault(bound.view.namespace, set()).add(target.service)
            if target.pools == ():
                told = f"no node admits the pods of {bound.view.ref}: its selectors and tolerations match none"
                problems.setdefault(target.service, []).append(told)
        for key, reason in self._views.pods.unreadable().items():
            for service in spaces.get(key.namespace, ()):
                problems.setdefault(service, []).append(f"pod {key.name} can't be read and is left out: {reason}")
        return {service: tuple(told) for service, told in problems.items()}


def _quotas_by_namespace(kept: Kept[QuotaView]) -> dict[str, list[QuotaView]]:
    found: dict[str, list[QuotaView]] = {}
    for key, view in sorted(kept.items().items()):
        found.setdefault(key.namespace, []).append(view)
    return found


def _limits_by_namespace(kept: Kept[LimitRangeView]) -> dict[str, list[LimitRangeView]]:
    found: dict[str, list[LimitRangeView]] = {}
    for key, view in sorted(kept.items().items()):
        found.setdefault(key.namespace, []).append(view)
    return found
