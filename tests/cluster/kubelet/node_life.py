"""One node: its status, its heartbeats, and its loss.

Annotations: ``test.gpu-autoscaler.io/allocatable`` is a JSON object of resources, written into its status once;
``test.gpu-autoscaler.io/lost``, with any value, is a machine without power: no heartbeats, its engines dead.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from tests.cluster.kubelet.api import AWAY, MERGE, KubeApi, RefusedError
from tests.cluster.kubelet.behaviour import PREFIX
from tests.cluster.kubelet.pod_status import now

Json = dict[str, Any]
LOST = f"{PREFIX}lost"
ALLOCATABLE = f"{PREFIX}allocatable"
HEARTBEAT_S = 2.0
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


class NodeLife:
    """One node as its kubelet sees it."""

    def __init__(self, node: Json, api: KubeApi) -> None:
        self.name = str(node["metadata"]["name"])
        self._api = api
        self._node = node

    def update(self, node: Json) -> None:
        """Its object has changed."""
        self._node = node

    @property
    def lost(self) -> bool:
        """The machine is without power."""
        return LOST in self._node["metadata"].get("annotations", {})

    async def beat(self) -> None:
        """One heartbeat, and what node-lifecycle wrote while there was none taken back."""
        if self.lost:
            return
        try:
            await self._renew_lease()
            if "nodeInfo" not in self._node["status"] or not self._node["status"]["nodeInfo"]["kubeletVersion"]:
                await self._patch_status(self._first_status())
            elif not self._is_ready():
                # The conditions alone: what a test has made of the allocatable resources stays.
                await self._patch_status({"conditions": _conditions()})
        except AWAY:
            # The next beat tries again.
            return

    async def _renew_lease(self) -> None:
        renewed = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": self.name, "leaseDurationSeconds": 40, "renewTime": renewed}
        try:
            await self._api.request("PATCH", f"{_LEASES}/{self.name}", {"spec": spec}, content_type=MERGE)
        except RefusedError as error:
            if error.status != 404:
                raise
            lease = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": self.name},
                "spec": spec,
            }
            await self._api.request("POST", _LEASES, lease)

    async def _patch_status(self, status: Json) -> None:
        await self._api.request("PATCH", f"/api/v1/nodes/{self.name}/status", {"status": status}, content_type=MERGE)

    def _is_ready(self) -> bool:
        return any(
            each["type"] == "Ready" and each["status"] == "True" for each in self._node["status"].get("conditions", ())
        )

    def _first_status(self) -> Json:
        told = self._node["metadata"].get("annotations", {}).get(ALLOCATABLE, "{}")
        resources = {"cpu": "64", "memory": "512Gi", "ephemeral-storage": "1Ti", "pods": "110", **json.loads(told)}
        info = ("architecture", "bootID", "containerRuntimeVersion", "kernelVersion", "kubeProxyVersion", "machineID")
        more_info = ("operatingSystem", "osImage", "systemUUID")
        return {
            "capacity": resources,
            "allocatable": resources,
            "conditions": _conditions(),
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": self.name}],
            "nodeInfo": {**dict.fromkeys((*info, *more_info), "test"), "kubeletVersion": "v1.36.3"},
        }


def _conditions() -> list[Json]:
    told = {
        "Ready": ("True", "KubeletReady"),
        "MemoryPressure": ("False", "KubeletHasSufficientMemory"),
        "DiskPressure": ("False", "KubeletHasNoDiskPressure"),
        "PIDPressure": ("False", "KubeletHasSufficientPID"),
    }
    times = {"lastHeartbeatTime": now(), "lastTransitionTime": now()}
    return [
        {"type": kind, "status": status, "reason": reason, "message": reason, **times}
        for kind, (status, reason) in told.items()
    ]
