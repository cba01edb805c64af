"""A cluster in memory, of raw objects as the API server gives them: for tests and benchmarks of the inventory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Generic, TypeVar

from adapters.kubernetes.collections import ClusterViews
from adapters.kubernetes.contents import Contents, ObjectKey
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
from adapters.kubernetes.raw_json import JsonObject
from adapters.kubernetes.scalable import Scalable
from adapters.kubernetes.target_kinds import TARGET_KINDS
from adapters.kubernetes.target_view import TargetView
from adapters.kubernetes.targets import Targeted, TargetKey, TargetProblem

T = TypeVar("T")
_KINDS = {kind.kind: kind for kind in TARGET_KINDS}


def written(at_s: float) -> str:
    """A moment as the API writes it, in whole seconds."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Stored(Generic[T]):
    """One collection."""

    def __init__(self, translate: Callable[[JsonObject], T], *, heard_s: float) -> None:
        self.contents = Contents(translate, report=lambda key, reason: None)
        self.heard_s: float | None = heard_s
        self.failure: str | None = None

    def items(self) -> Mapping[ObjectKey, T]:
        """What was put."""
        return self.contents.items()

    def unreadable(self) -> Mapping[ObjectKey, str]:
        """What could not be translated."""
        return self.contents.unreadable()


class StoredCluster:
    """All collections, and the targets as the kinds' own readers see them."""

    def __init__(self, *, now_s: float) -> None:
        self.pods: Stored[PodView] = Stored(pod_view, heard_s=now_s)
        self.nodes: Stored[NodeView] = Stored(node_view, heard_s=now_s)
        self.quotas: Stored[QuotaView] = Stored(quota_view, heard_s=now_s)
        self.limit_ranges: Stored[LimitRangeView] = Stored(limit_range_view, heard_s=now_s)
        self.priority_classes: Stored[PriorityClassView] = Stored(priority_class_view, heard_s=now_s)
        self.workloads: dict[str, Stored[Scalable]] = {
            name: Stored(partial(kind.read, kind), heard_s=now_s) for name, kind in _KINDS.items()
        }

    @property
    def views(self) -> ClusterViews:
        """For the inventory."""
        return ClusterViews(
            pods=self.pods,
            nodes=self.nodes,
            quotas=self.quotas,
            limit_ranges=self.limit_ranges,
            priority_classes=self.priority_classes,
        )

    def put(self, *sources: JsonObject) -> None:
        """Add or update raw objects; their ``kind`` says where."""
        for source in sources:
            self._writes(source)[0](source)

    def remove(self, source: JsonObject) -> None:
        """Delete one."""
        self._writes(source)[1](source)

    def _writes(self, source: JsonObject) -> tuple[Callable[[JsonObject], bool], Callable[[JsonObject], bool]]:
        kind = str(source["kind"])
        writes = {
            "Pod": (self.pods.contents.put, self.pods.contents.remove),
            "Node": (self.nodes.contents.put, self.nodes.contents.remove),
            "ResourceQuota": (self.quotas.contents.put, self.quotas.contents.remove),
            "LimitRange": (self.limit_ranges.contents.put, self.limit_ranges.contents.remove),
            "PriorityClass": (self.priority_classes.contents.put, self.priority_classes.contents.remove),
        }
        if kind in self.workloads:
            contents = self.workloads[kind].contents
            return contents.put, contents.remove
        return writes[kind]

    def refresh(self, wanted: Iterable[TargetKey]) -> Targeted:
        """The targets, each by the reader of its kind."""
        found: dict[TargetKey, TargetView | TargetProblem] = {}
        for namespace, ref in wanted:
            scalable = self.workloads[ref.kind].items().get(ObjectKey(namespace, ref.name))
            found[namespace, ref] = (
                TargetProblem(namespace=namespace, ref=ref, detail=f"there is no {ref}", lasting=True)
                if scalable is None
                else scalable.views[ref.worker_group or ""]
            )
        return found


def node(
    name: str,
    devices: Mapping[str, int],
    *,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    ready: str = "True",
    cordoned: bool = False,
    since_s: float = 0.0,
) -> dict[str, object]:
    """A Node. ``ready``: True, False or Unknown."""
    amounts = {
        "cpu": "128",
        "memory": "2113474636Ki",
        "ephemeral-storage": "7501476528Ki",
        "hugepages-1Gi": "0",
        "pods": "110",
        **{kind: str(count) for kind, count in devices.items()},
    }
    spec: dict[str, object] = {"podCIDR": "10.1.0.0/24"}
    if taints:
        spec["taints"] = list(taints)
    if cordoned:
        spec["unschedulable"] = True
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **(labels or {})},
        },
        "spec": spec,
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [
                {"type": "MemoryPressure", "status": "False"},
                {
                    "type": "Ready",
                    "status": ready,
                    "reason": "KubeletReady" if ready == "True" else "NodeStatusUnknown",
                    "message": "" if ready == "True" else "Kubelet stopped posting node status.",
                    "lastTransitionTime": written(since_s),
                },
            ],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        },
    }


def pod(
    name: str,
    *,
    namespace: str = "models",
    labels: Mapping[str, str] | None = None,
    node: str = "",
    devices: Mapping[str, int] | None = None,
    created_s: float = 0.0,
    status: Mapping[str, object] | None = None,
    spec: Mapping[str, object] | None = None,
    metadata: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """A Pod; with a node and no ``status`` it has been ready since 60 s after its creation."""
    limits = {kind: str(count) for kind, count in (devices or {}).items()}
    resources = {"limits": {"memory": "64Gi", **limits}, "requests": {"cpu": "8", "memory": "64Gi", **limits}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "creationTimestamp": written(created_s),
            "labels": dict(labels or {}),
            **(metadata or {}),
        },
        "spec": {
            "restartPolicy": "Always",
            **({"nodeName": node} if node else {}),
            "containers": [
                {
                    "name": "engine",
                    "image": "registry.example/vllm:v1",
                    "ports": [{"name": "http", "containerPort": 8000, "protocol": "TCP"}],
                    "resources": resources,
                }
            ],
            **(spec or {}),
        },
        "status": status if status is not None else (ready_status(created_s) if node else {"phase": "Pending"}),
    }


def ready_status(created_s: float) -> dict[str, object]:
    """Of a pod that serves."""
    started, ready = written(created_s + 10), written(created_s + 60)
    return {
        "phase": "Running",
        "podIP": "10.1.0.7",
        "qosClass": "Burstable",
        "conditions": [
            {"type": "PodReadyToStartContainers", "status": "True", "lastTransitionTime": written(created_s + 5)},
            {"type": "Initialized", "status": "True", "lastTransitionTime": written(created_s + 2)},
            {"type": "Ready", "status": "True", "lastTransitionTime": ready},
            {"type": "ContainersReady", "status": "True", "lastTransitionTime": ready},
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": written(created_s + 1)},
        ],
        "containerStatuses": [
            {
                "name": "engine",
                "ready": True,
                "started": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": started}},
                "lastState": {},
            }
        ],
    }


def deployment(
    name: str,
    replicas: int,
    *,
    namespace: str = "models",
    devices: Mapping[str, int] | None = None,
    spec: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """A Deployment of pods labelled ``app``. ``spec``: more of the pods' spec."""
    template = pod("template", namespace=namespace, devices=devices, spec=spec)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": "1"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": template["spec"]},
        },
        "status": {"replicas": replicas, "updatedReplicas": replicas},
    }
