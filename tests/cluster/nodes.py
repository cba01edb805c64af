"""Nodes of a test cluster: with GPUs, with MIG slices, lost and returned."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tests.cluster.api import ApiClient, Json
from tests.cluster.kubelet.node_life import ALLOCATABLE, LOST
from tests.cluster.processes import wait_for

_HOSTNAME = "kubernetes.io/hostname"


def gpu_labels(
    product: str, *, count: int, mig_strategy: str | None = None, mig_config: str | None = None
) -> dict[str, str]:
    """Labels as the GPU Operator's feature discovery writes them, for ``count`` whole GPUs of a product.

    ``mig_strategy``: none, single or mixed; None: a GPU without MIG. ``mig_config``: what the MIG manager has applied.
    Names: NVIDIA/k8s-device-plugin, docs/gpu-feature-discovery, and NVIDIA/mig-parted.
    """
    labels = {
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": product,
        "nvidia.com/gpu.count": str(count),
        "nvidia.com/gpu.replicas": "1",
        "nvidia.com/gpu.sharing-strategy": "none",
        "nvidia.com/mig.capable": "true" if mig_strategy is not None else "false",
    }
    if mig_strategy is not None:
        labels["nvidia.com/mig.strategy"] = mig_strategy
    if mig_config is not None:
        labels |= {"nvidia.com/mig.config": mig_config, "nvidia.com/mig.config.state": "success"}
    return labels


class Nodes:
    """The nodes of one cluster."""

    def __init__(self, api: ApiClient) -> None:
        self._api = api

    def add(
        self,
        name: str,
        *,
        resources: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        taints: tuple[Json, ...] = (),
    ) -> None:
        """Add a node; returns when pods can be scheduled on it.

        ``resources``: allocatable ones, added to 64 CPUs, 512 GiB, 110 pods, such as {"nvidia.com/gpu": "8"}.
        """
        annotations = {ALLOCATABLE: json.dumps(dict(resources or {}))}
        metadata = {"name": name, "labels": {_HOSTNAME: name, **(labels or {})}, "annotations": annotations}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"taints": list(taints)}}
        self._api.post("/api/v1/nodes", node)
        self.await_ready(name)

    def remove(self, name: str) -> None:
        """Delete a node; its engines die, its pods are left to the cluster's controllers."""
        self._api.delete(_path(name))

    @contextmanager
    def added(
        self, name: str, *, resources: Mapping[str, str] | None = None, labels: Mapping[str, str] | None = None
    ) -> Iterator[str]:
        """A node for the length of a block."""
        self.add(name, resources=resources, labels=labels)
        try:
            yield name
        finally:
            self.remove(name)

    def lose(self, name: str) -> None:
        """Cut its power: its engines are dead at once, the cluster notices when heartbeats fail to come."""
        self._annotate(name, "true")

    def restore(self, name: str) -> None:
        """Power is back: its pods start again."""
        self._annotate(name, None)

    def set_allocatable(self, name: str, resources: Mapping[str, str | None]) -> None:
        """Change resources, as a device plugin does; None takes one away."""
        body = {"status": {"allocatable": dict(resources), "capacity": dict(resources)}}
        self._api.patch(f"{_path(name)}/status", body)

    def is_ready(self, name: str) -> bool:
        """As the cluster sees it: Ready, and without taints of the cluster's own."""
        node = self._api.find(_path(name)) or {}
        conditions = node.get("status", {}).get("conditions", [])
        taints = [each["key"] for each in node.get("spec", {}).get("taints", [])]
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions) and not any(
            key.startswith("node.kubernetes.io/") for key in taints
        )

    def await_ready(self, name: str) -> None:
        """Return once ``is_ready``. Raises NotReadyError."""
        wait_for(lambda: self.is_ready(name), f"node {name} is ready")

    def await_lost(self, name: str) -> None:
        """Return once the cluster has noticed. Raises NotReadyError."""
        wait_for(lambda: not self.is_ready(name), f"node {name} is noticed to be lost")

    def _annotate(self, name: str, value: str | None) -> None:
        self._api.patch(_path(name), {"metadata": {"annotations": {LOST: value}}})


def _path(name: str) -> str:
    return f"/api/v1/nodes/{name}"
