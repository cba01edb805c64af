"""Broken devices are no capacity: of the right kind and node, and not taken off twice."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from adapters.kubernetes.broken_devices import lost_devices
from adapters.kubernetes.gpu_exporters import GpuExporters
from adapters.kubernetes.inventory import KubernetesInventory
from adapters.kubernetes.nodes import NodeView
from autoscaler.domain.gpu_reading import DeviceKey
from autoscaler.policy.device_health import BrokenDevice
from benchmarks.stored_cluster import StoredCluster, deployment, node, pod, ready_status
from tests.adapters_kubernetes.test_inventory import GPU, NOW_S, SLICE, cluster_of, mine, resource


def broken(gi: str = "", profile: str | None = None, uuid: str = "GPU-1", on: str = "node-a") -> BrokenDevice:
    key = DeviceKey(node=on, uuid=uuid, gi=gi)
    return BrokenDevice(key=key, profile=profile, faults=("XID 79 (fallen off)",), seen_s=NOW_S)


TIME_SLICED = {"nvidia.com/gpu.sharing-strategy": "time-slicing", "nvidia.com/gpu.replicas": "4"}


@pytest.mark.parametrize(
    ("device", "view", "expected"),
    [
        pytest.param(broken(), NodeView(name="node-a", devices={GPU: 8}), {GPU: 1}, id="a GPU"),
        pytest.param(
            broken(), NodeView(name="node-a", devices={GPU: 7}, withdrawn={GPU: 1}), {}, id="taken off already"
        ),
        pytest.param(broken(), NodeView(name="node-a", devices={GPU: 0}), {}, id="nothing left to take off"),
        pytest.param(broken(on="node-z"), NodeView(name="node-a", devices={GPU: 8}), {}, id="of another node"),
        pytest.param(broken(), NodeView(name="node-a", devices={"amd.com/gpu": 8}), {"amd.com/gpu": 1}, id="AMD"),
        pytest.param(
            broken("3", "1g.10gb"),
            NodeView(name="node-a", devices={GPU: 0, SLICE: 7}, mig_strategy="mixed"),
            {SLICE: 1},
            id="a MIG instance",
        ),
        pytest.param(
            broken("3", "1g.10gb+me"),
            NodeView(name="node-a", devices={"nvidia.com/mig-1g.10gb.me": 1, SLICE: 6}),
            {"nvidia.com/mig-1g.10gb.me": 1},
            id="one with media extensions",
        ),
        pytest.param(
            broken("3", "1g.10gb"),
            NodeView(name="node-a", devices={GPU: 7}, mig_strategy="single"),
            {GPU: 1},
            id="single",
        ),
        pytest.param(
            broken("3", "1g.99gb"),
            NodeView(name="node-a", devices={GPU: 1, SLICE: 7}, mig_strategy="mixed"),
            {},
            id="#544: a profile that the node does not have",
        ),
        pytest.param(
            broken(), NodeView(name="node-a", devices={GPU: 8}, labels=TIME_SLICED), {GPU: 4}, id="time-sliced by four"
        ),
    ],
)
def test_what_a_node_offers_less(device: BrokenDevice, view: NodeView, expected: Mapping[str, int]) -> None:
    lost = lost_devices([device], {view.name: view})
    assert {kind: count for (_, kind), (count, _) in lost.items()} == expected


def inventory(cluster: StoredCluster, *devices: BrokenDevice) -> KubernetesInventory:
    return KubernetesInventory(
        resources=lambda: [resource("llm")],
        targets=cluster,
        views=cluster.views,
        now_s=lambda: NOW_S,
        broken=lambda: devices,
    )


def test_a_broken_device_is_not_shared_out_and_is_named() -> None:
    cluster = cluster_of(node("node-a", {GPU: 4}), deployment("llm", 1, devices={GPU: 1}), mine("llm-a", "node-a"))
    snapshot = inventory(cluster, broken()).snapshot()
    healthy, unhealthy = sorted(snapshot.devices, key=lambda device: not device.healthy)
    assert (healthy.healthy, healthy.count) == (True, 3)
    assert (unhealthy.healthy, unhealthy.count, unhealthy.kind, unhealthy.node) == (False, 1, GPU, "node-a")
    assert unhealthy.detail == "GPU-1 on node-a: XID 79 (fallen off)"


def test_what_a_device_plugin_found_itself_is_seen_in_the_node() -> None:
    offered = node("node-a", {GPU: 7})
    status = offered["status"]
    assert isinstance(status, dict)
    cluster = cluster_of(
        {**offered, "status": {**status, "capacity": {GPU: "8"}}}, deployment("llm", 1, devices={GPU: 1})
    )
    assert [device.count for device in inventory(cluster, broken()).snapshot().devices] == [7]


OF_A_DAEMON_SET = {"ownerReferences": [{"kind": "DaemonSet", "name": "e", "uid": "u", "controller": True}]}
METRICS = {"name": "metrics", "containerPort": 9401}


@pytest.mark.parametrize(
    ("labels", "ports", "metadata", "url"),
    [
        pytest.param(
            {"app": "nvidia-dcgm-exporter"},
            [METRICS],
            OF_A_DAEMON_SET,
            "http://10.0.0.9:9401/metrics",
            id="GPU Operator",
        ),
        pytest.param(
            {"app.kubernetes.io/name": "dcgm-exporter"}, [], OF_A_DAEMON_SET, "http://10.0.0.9:9400/metrics", id="chart"
        ),
        pytest.param(
            {"app": "x-amdgpu-metrics-exporter"}, [], OF_A_DAEMON_SET, "http://10.0.0.9:5000/metrics", id="AMD"
        ),
        pytest.param({"app": "node-exporter"}, [METRICS], OF_A_DAEMON_SET, None, id="something else"),
        pytest.param({"app": "dcgm-exporter"}, [METRICS], {}, None, id="a pod that only says so"),
    ],
)
def test_exporters_are_found_by_their_labels(
    labels: Mapping[str, str], ports: list[object], metadata: Mapping[str, object], url: str | None
) -> None:
    status = {**ready_status(NOW_S), "podIP": "10.0.0.9"}
    spec = {"containers": [{"name": "exporter", "ports": ports}]}
    exporter = pod("e", labels=labels, node="node-a", created_s=NOW_S, status=status, spec=spec, metadata=metadata)
    views = cluster_of(exporter, node("node-a", {GPU: 1})).views
    pages = GpuExporters(views.pods, views.nodes).pages()
    assert [(page.node, page.url, page.shared) for page in pages] == ([("node-a", url, False)] if url else [])


def test_where_devices_are_shared_their_exporter_says_so() -> None:
    status = {**ready_status(NOW_S), "podIP": "10.0.0.9"}
    labels = {"app": "nvidia-dcgm-exporter"}
    exporter = pod("e", labels=labels, node="node-a", created_s=NOW_S, status=status, metadata=OF_A_DAEMON_SET)
    views = cluster_of(exporter, node("node-a", {GPU: 4}, labels=TIME_SLICED)).views
    assert [page.shared for page in GpuExporters(views.pods, views.nodes).pages()] == [True]
