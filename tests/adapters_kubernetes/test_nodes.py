"""Nodes as the API server gives them."""

from __future__ import annotations

import pytest

from adapters.kubernetes.nodes import Heard, Taint, node_view
from adapters.kubernetes.raw_json import ShapeError
from benchmarks.stored_cluster import node

GPU = "nvidia.com/gpu"


@pytest.mark.parametrize(
    "devices",
    [
        pytest.param({GPU: 8}, id="gpus"),
        pytest.param({"nvidia.com/mig-1g.10gb": 7, "nvidia.com/mig-1g.10gb.me": 1, GPU: 1}, id="mixed slices"),
        pytest.param({"nvidia.com/gpu.shared": 32}, id="shared"),
        pytest.param({"amd.com/gpu": 4}, id="amd"),
        pytest.param({"habana.ai/gaudi": 8, "rdma/hca": 2}, id="others"),
        pytest.param({}, id="none"),
    ],
)
def test_extended_resources_alone_are_devices(devices: dict[str, int]) -> None:
    assert node_view(node("node-a", devices)).devices == devices


@pytest.mark.parametrize(
    ("ready", "heard"),
    [
        pytest.param("True", Heard.READY, id="ready"),
        pytest.param("False", Heard.NOT_READY, id="not ready"),
        pytest.param("Unknown", Heard.SILENT, id="silent"),
    ],
)
def test_whether_it_is_heard_of(ready: str, heard: Heard) -> None:
    found = node_view(node("node-a", {GPU: 1}, ready=ready, since_s=100.0))
    assert (found.heard, found.heard_s, found.takes_pods) == (heard, 100.0, heard is Heard.READY)


def test_a_node_that_never_reported_is_not_ready() -> None:
    found = node_view({"metadata": {"name": "node-a"}, "spec": {}})
    assert (found.heard, found.takes_pods, found.devices) == (Heard.NOT_READY, False, {})


def test_a_cordoned_node_takes_no_pods() -> None:
    assert not node_view(node("node-a", {GPU: 1}, cordoned=True)).takes_pods


@pytest.mark.parametrize(
    ("state", "changing"),
    [
        pytest.param("pending", True, id="pending"),
        pytest.param("rebooting", True, id="rebooting"),
        pytest.param("success", False, id="done"),
        pytest.param("failed", False, id="failed"),
    ],
)
def test_slices_that_are_being_cut_anew(state: str, *, changing: bool) -> None:
    labels = {
        "nvidia.com/mig.config.state": state,
        "nvidia.com/mig.strategy": "mixed",
        "nvidia.com/gpu.product": "H100",
    }
    found = node_view(node("node-a", {"nvidia.com/mig-1g.10gb": 7}, labels=labels))
    assert (found.geometry_changing, found.takes_pods) == (changing, not changing)
    assert (found.mig_strategy, found.product) == ("mixed", "H100")


def test_taints_that_repeat_its_state_are_left_out() -> None:
    taints = [
        {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"},
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
        {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
    ]
    assert node_view(node("node-a", {}, taints=taints)).taints == (
        Taint(key="nvidia.com/gpu", value="present", effect="NoSchedule"),
    )


@pytest.mark.parametrize(
    ("allocatable", "named"),
    [
        pytest.param({GPU: "eight"}, "status.allocatable.nvidia.com/gpu", id="no number"),
        pytest.param({GPU: 8}, "status.allocatable.nvidia.com/gpu", id="not as text"),
    ],
)
def test_bad_amounts_are_named(allocatable: dict[str, object], named: str) -> None:
    source = {**node("node-a", {}), "status": {"allocatable": allocatable}}
    with pytest.raises(ShapeError, match=named):
        node_view(source)
