"""Devices that are broken, as what a node offers less.

Resource names: NVIDIA device plugin (nvidia.com/gpu, nvidia.com/gpu.shared, nvidia.com/mig-PROFILE with "." for the
profile's "+"), AMD device plugin (amd.com/gpu). Under the MIG strategy "single" an instance is an nvidia.com/gpu.
A shared device is offered ``nvidia.com/gpu.replicas`` times (GPU Feature Discovery).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from adapters.kubernetes.capacity import Place
from adapters.kubernetes.nodes import NodeView
from autoscaler.policy.device_health import BrokenDevice

_SHARED = "nvidia.com/gpu.shared"
_WHOLE = ("nvidia.com/gpu", _SHARED, "amd.com/gpu")
_SHARING = "nvidia.com/gpu.sharing-strategy"
_REPLICAS = "nvidia.com/gpu.replicas"


def lost_devices(broken: Iterable[BrokenDevice], nodes: Mapping[str, NodeView]) -> Mapping[Place, tuple[int, str]]:
    """How many devices of a place are no capacity although it offers them, and which and why, for a person.

    What a device plugin took back itself is not taken off twice. A device is left out where it can't be told what its
    node offers it as.
    """
    found: dict[Place, list[BrokenDevice]] = {}
    for each in broken:
        node = nodes.get(each.key.node)
        kind = None if node is None else _kind(each, node)
        if kind is not None:
            found.setdefault((each.key.node, kind), []).append(each)
    lost: dict[Place, tuple[int, str]] = {}
    for (name, kind), devices in found.items():
        node = nodes[name]
        count = min(len(devices) * _times(node, kind) - node.withdrawn.get(kind, 0), node.devices[kind])
        if count > 0:
            lost[name, kind] = count, "; ".join(sorted(map(str, devices)))
    return lost


def _kind(device: BrokenDevice, node: NodeView) -> str | None:
    """What the node offers it as; None where that can't be told."""
    if device.key.gi and device.profile is not None:
        slices = f"nvidia.com/mig-{device.profile.replace('+', '.')}"
        if slices in node.devices:
            return slices
        if node.mig_strategy == "mixed":
            return None  # the profile that the exporter names is not there
    offered = [kind for kind in _WHOLE if kind in node.devices]
    return offered[0] if len(offered) == 1 else next((kind for kind in offered if node.devices[kind]), None)


def shares_devices(node: NodeView) -> bool:
    """Whether its device plugin gives a device to several pods."""
    return _SHARED in node.devices or node.labels.get(_SHARING, "none") != "none"


def _times(node: NodeView, kind: str) -> int:
    shared = kind == _SHARED or node.labels.get(_SHARING, "none") != "none"
    replicas = node.labels.get(_REPLICAS, "1")
    return max(1, int(replicas)) if shared and replicas.isdecimal() else 1
