"""What the nodes offer: allocatable devices, less what others hold.

A device is counted once: it is free, or a replica of ours holds it (and ``Replica.nodes`` says where), or a pod of
somebody else's that may be preempted holds it. What is held for good is not listed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from adapters.kubernetes.nodes import NodeView
from adapters.kubernetes.pod_life import Life
from adapters.kubernetes.pods import PodView
from autoscaler.domain.cluster import Device
from autoscaler.domain.service import DeviceRequest

CLOSED = "closed"  # of nodes that take no more pods; no target names it
NEW_NODES = "new-nodes"
ENDLESS = 1_000_000  # devices on nodes that would be made for whoever needs them


class Place(NamedTuple):
    """Where devices are: the node's name and their kind."""

    node: str
    kind: str


class Held:
    """Devices that pods hold, by place.

    ``kept``: by replicas of ours that packing knows of; ``lost``: by pods of lower priority than some target's, by
    their priority; ``taken``: by all pods together.
    """

    def __init__(self) -> None:
        self.taken: Counter[Place] = Counter()
        self.kept: Counter[Place] = Counter()
        self.preemptible: dict[Place, Counter[int]] = {}

    def keep(self, pods: Iterable[PodView], request: DeviceRequest | None) -> None:
        """A replica of ours that was asked for, its pods with devices first.

        Packing takes what is requested now for it. What a pod of an earlier template holds beyond that is not there
        for others, and other kinds of devices beside it aren't either.
        """
        if request is None:
            return
        holding = [pod for pod in pods if pod.holds][: request.pods]
        for pod in holding:
            if (count := min(pod.devices.get(request.kind, 0), request.count)) > 0:
                self.kept[Place(pod.node, request.kind)] += count

    def take(self, pod: PodView, *, ours: bool, below: int) -> None:
        """Any pod that holds devices. ``below``: the highest priority among the targets that may preempt."""
        leaves = not ours and pod.life is not Life.ENDING and pod.priority < below
        for kind, count in pod.devices.items():
            place = Place(pod.node, kind)
            self.taken[place] += count
            if leaves:
                self.preemptible.setdefault(place, Counter())[pod.priority] += count


def devices_of(
    nodes: Mapping[str, NodeView], held: Held, pools: Mapping[str, str], *, endless: Iterable[str] = ()
) -> tuple[Device, ...]:
    """What packing may share out. ``pools``: that of each node. ``endless``: kinds for which nodes would be made.

    A node that takes no pods, or that is gone, or whose slices are being cut anew, offers what our replicas hold on
    it and nothing else: nobody knows whether that is lost.
    """
    devices: list[Device] = []
    for node in nodes.values():
        if node.takes_pods:
            for kind, allocatable in node.devices.items():
                devices += _offered(Place(node.name, kind), allocatable, held, pools[node.name])
    for place, count in held.kept.items():
        known = nodes.get(place.node)
        if known is None or not known.takes_pods or place.kind not in known.devices:
            devices.append(_device(place, count, CLOSED))
    devices += [Device(id=f"{NEW_NODES}/{kind}", kind=kind, count=ENDLESS, pool=NEW_NODES) for kind in sorted(endless)]
    return tuple(devices)


def _offered(place: Place, allocatable: int, held: Held, pool: str) -> list[Device]:
    kept = held.kept.get(place, 0)
    taken = held.taken.get(place, 0)
    preemptible = held.preemptible.get(place)
    if preemptible is None:
        # What a device plugin takes back stays with the pods that have it.
        return [_device(place, max(0, allocatable - taken) + kept, pool)]
    left = max(0, allocatable - (taken - preemptible.total()))
    free = max(0, left - preemptible.total())
    devices = [_device(place, free + kept, pool)]
    left -= free
    for priority, count in sorted(preemptible.items()):
        if (some := min(count, left)) > 0:
            devices.append(_device(place, some, pool, holder_priority=priority))
            left -= some
    return devices


def _device(place: Place, count: int, pool: str, holder_priority: int | None = None) -> Device:
    holder = "" if holder_priority is None else f"/priority{holder_priority}"
    return Device(
        id=f"{place.node}/{place.kind}{holder}",
        kind=place.kind,
        count=count,
        node=place.node,
        pool=pool,
        holder_priority=holder_priority,
    )
