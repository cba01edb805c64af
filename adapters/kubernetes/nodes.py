"""Nodes: which devices they offer, whether they take pods, and what the GPU Operator says of them.

Labels: NVIDIA GPU Feature Discovery (nvidia.com/gpu.product, nvidia.com/mig.strategy) and the GPU Operator's MIG
manager (nvidia.com/mig.config, nvidia.com/mig.config.state: pending, rebooting, success or failed).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from adapters.kubernetes.quantities import quantity
from adapters.kubernetes.raw_json import (
    JsonObject,
    ShapeError,
    flag,
    inner,
    moment_s,
    objects,
    optional_text,
    strings,
    text,
)
from adapters.kubernetes.target_view import is_extended

# Set by the node controller and by cordoning; they say again what ``heard`` and ``cordoned`` say.
_STATE_TAINTS = frozenset(
    ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "node.kubernetes.io/unschedulable")
)
_MIG_STATE = "nvidia.com/mig.config.state"
_MIG_CHANGING = frozenset(("pending", "rebooting"))


class Heard(StrEnum):
    """What a node's kubelet says of it; SILENT: nothing any more, so nobody knows."""

    READY = "Ready"
    NOT_READY = "NotReady"
    SILENT = "Silent"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Taint:
    """What keeps pods away that don't tolerate it. ``effect``: NoSchedule, PreferNoSchedule or NoExecute."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """One node.

    ``devices``: allocatable extended resources by name; ``withdrawn``: how many fewer than there are, which a device
    plugin found broken. ``taints``: without those that only repeat ``heard`` and
    ``cordoned``. ``heard_s``: since when it is so. ``product``: of its GPUs, "" where no label tells.
    ``mig_strategy``: "none", "single", "mixed" or "". ``geometry_changing``: its slices are being cut anew, so that
    ``devices`` is of the past or of the future.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    devices: Mapping[str, int] = field(default_factory=dict)
    withdrawn: Mapping[str, int] = field(default_factory=dict)
    heard: Heard = Heard.READY
    heard_s: float | None = None
    detail: str = ""
    cordoned: bool = False
    product: str = ""
    mig_strategy: str = ""
    geometry_changing: bool = False

    @property
    def takes_pods(self) -> bool:
        """Whether the scheduler would put another pod there, and what it offers is known."""
        return self.heard is Heard.READY and not self.cordoned and not self.geometry_changing


def node_view(source: JsonObject) -> NodeView:
    """A raw Node. Raises ShapeError."""
    labels = strings(source, "metadata", "labels")
    heard, heard_s, detail = _heard(source)
    devices = _devices(source, "allocatable")
    capacity = _devices(source, "capacity")
    return NodeView(
        name=text(source, "metadata", "name"),
        labels=labels,
        taints=_taints(source),
        devices=devices,
        withdrawn={name: count - devices[name] for name, count in capacity.items() if count > devices.get(name, count)},
        heard=heard,
        heard_s=heard_s,
        detail=detail,
        cordoned=flag(source, "spec", "unschedulable"),
        product=labels.get("nvidia.com/gpu.product", ""),
        mig_strategy=labels.get("nvidia.com/mig.strategy", ""),
        geometry_changing=labels.get(_MIG_STATE, "") in _MIG_CHANGING,
    )


def _devices(source: JsonObject, which: str) -> dict[str, int]:
    return {
        name: _count(which, name, value) for name, value in inner(source, "status", which).items() if is_extended(name)
    }


def _count(which: str, name: str, value: object) -> int:
    if not isinstance(value, str):
        raise ShapeError(f"status.{which}.{name}: wanted a quantity, got {value!r}")
    return int(quantity(value, path=f"status.{which}.{name}"))


def _heard(source: JsonObject) -> tuple[Heard, float | None, str]:
    """A node that never said anything is not ready, rather than silent: it has no pods yet."""
    for condition in objects(source, "status", "conditions"):
        if text(condition, "type") != "Ready":
            continue
        status = text(condition, "status")
        since_s = moment_s(condition, "lastTransitionTime")
        if status == "True":
            return Heard.READY, since_s, ""
        detail = optional_text(condition, "message") or optional_text(condition, "reason") or ""
        return (Heard.SILENT if status == "Unknown" else Heard.NOT_READY), since_s, detail
    return Heard.NOT_READY, None, "it has not reported yet"


def _taints(source: JsonObject) -> tuple[Taint, ...]:
    taints = (
        Taint(key=text(each, "key"), value=optional_text(each, "value") or "", effect=text(each, "effect"))
        for each in objects(source, "spec", "taints")
    )
    return tuple(sorted(each for each in taints if each.key not in _STATE_TAINTS))
