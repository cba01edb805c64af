"""The collections that the inventory is made of, each kept current by a watch of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Protocol, TypeVar

from adapters.kubernetes.connection import Collection, KubernetesApi
from adapters.kubernetes.contents import ObjectKey
from adapters.kubernetes.nodes import NodeView, node_view
from adapters.kubernetes.pods import PodView, pod_view
from adapters.kubernetes.quotas import (
    LimitRangeView,
    PriorityClassView,
    QuotaView,
    limit_range_view,
    priority_class_view,
    quota_view,
)
from adapters.kubernetes.watching import Watched

T_co = TypeVar("T_co", covariant=True)
_log = logging.getLogger(__name__)

PODS = Collection(group="", version="v1", plural="pods")
NODES = Collection(group="", version="v1", plural="nodes")
QUOTAS = Collection(group="", version="v1", plural="resourcequotas")
LIMIT_RANGES = Collection(group="", version="v1", plural="limitranges")
PRIORITY_CLASSES = Collection(group="scheduling.k8s.io", version="v1", plural="priorityclasses")


class Kept(Protocol[T_co]):
    """A collection in memory: see ``Watched``."""

    def items(self) -> Mapping[ObjectKey, T_co]:
        """What it holds; the same mapping until something changes. Raises UnavailableError before all is known."""
        ...

    def unreadable(self) -> Mapping[ObjectKey, str]:
        """Objects that can't be read, with the reason."""
        ...

    @property
    def heard_s(self) -> float | None:
        """When the server last said anything of it; None: never."""
        ...

    @property
    def failure(self) -> str | None:
        """What the last attempt failed of; None while all is well."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterViews:
    """What a cluster holds, as far as it matters to what may be placed where."""

    pods: Kept[PodView]
    nodes: Kept[NodeView]
    quotas: Kept[QuotaView]
    limit_ranges: Kept[LimitRangeView]
    priority_classes: Kept[PriorityClassView]

    def named(self) -> tuple[tuple[str, Kept[object]], ...]:
        """Each collection with its name for a person."""
        return (
            ("pods", self.pods),
            ("nodes", self.nodes),
            ("resource quotas", self.quotas),
            ("limit ranges", self.limit_ranges),
            ("priority classes", self.priority_classes),
        )


class WatchedCluster:
    """The watches behind ``views``. All namespaces: pods of others hold the devices that ours don't get."""

    def __init__(
        self, api: KubernetesApi, *, now_s: Callable[[], float], changed: Callable[[], None] = lambda: None
    ) -> None:
        """``changed`` is called after each change, in the thread of a watch: it should only wake somebody."""
        pods = Watched(api, PODS, pod_view, now_s=now_s, on_unreadable=_telling("pod"))
        nodes = Watched(api, NODES, node_view, now_s=now_s, on_unreadable=_telling("node"))
        quotas = Watched(api, QUOTAS, quota_view, now_s=now_s, on_unreadable=_telling("resource quota"))
        limit_ranges = Watched(api, LIMIT_RANGES, limit_range_view, now_s=now_s, on_unreadable=_telling("limit range"))
        classes = Watched(
            api, PRIORITY_CLASSES, priority_class_view, now_s=now_s, on_unreadable=_telling("priority class")
        )
        self.views = ClusterViews(
            pods=pods, nodes=nodes, quotas=quotas, limit_ranges=limit_ranges, priority_classes=classes
        )
        self._watches = (pods, nodes, quotas, limit_ranges, classes)
        for watch in self._watches:
            watch.subscribe(changed)

    def start(self) -> None:
        """Begin to follow all of them."""
        for watch in self._watches:
            watch.start()

    def wait_synced(self, timeout_s: float) -> bool:
        """Wait until all are known; whether they are."""
        ends_s = monotonic() + timeout_s
        return all(watch.wait_synced(max(0.0, ends_s - monotonic())) for watch in self._watches)

    def close(self) -> None:
        """End the watches."""
        for watch in self._watches:
            watch.close()


def _telling(kind: str) -> Callable[[ObjectKey, str], None]:
    def tell(key: ObjectKey, reason: str) -> None:
        _log.warning("%s %s can't be read and is left out: %s", kind, key, reason)

    return tell
