"""What the nodes offer: allocatable devices, less what others hold.

A device is counted once: it is free, or a replica of ours holds it (and ``Replica.nodes`` says where), or a pod of
somebody else's that may be preempted holds it. What is held for good is not listed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from adapters.kubernetes.nodes import NodeView
from adapters.kubernetes.pod_life import Life
from adapters.kubernetes.pods import PodView
from autoscaler.domain.cluster import Device
from autoscaler.domain.service import DeviceRequest

CLOSED = "closed"  # of nodes that take no more pods; no target names it
NEW_NODES = "new-nodes"
ENDLESS = 1_000_000  # devices on nodes that would be made for whoever needs them


Place = tuple[str, str]  # a node's name and a kind of device


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Devices that pods hold, by place.

    ``taken``: by all pods together; ``kept``: by the replicas of ours that packing knows of; ``preemptible``: by pods
    of somebody else's that one of ours may push out, by their priority.
    """

    taken: Mapping[Place, int]
    kept: Mapping[Place, int]
    preemptible: Mapping[Place, Counter[int]]


def keeps(pods: Iterable[PodView], request: DeviceRequest) -> list[tuple[Place, int]]:
    """What a replica of ours that was asked for holds, for packing to take for it again.

    Packing takes what is requested now. What a pod of an earlier template holds beyond that is not there for others,
    and other kinds of devices beside it aren't either.
    """
    holding = [pod for pod in pods if pod.holds][: request.pods]
    found = [((pod.node, request.kind), min(pod.devices.get(request.kind, 0), request.count)) for pod in holding]
    return [(place, count) for place, count in found if count > 0]


def held_by(holders: Iterable[tuple[PodView, bool]], kept: Iterable[tuple[Place, int]], *, below: int) -> Held:
    """What all pods hold. ``holders``: pods with devices, and whether they are a service's of ours.

    ``below``: the highest priority among the targets.
    """
    taken: dict[Place, int] = {}
    preemptible: dict[Place, Counter[int]] = {}
    gone, ending = Life.GONE, Life.ENDING  # ten thousand pods come by here in every tick
    for pod, ours in holders:
        life, node = pod.lived.life, pod.node
        if not node or life is gone:
            continue
        leaves = not ours and pod.priority < below and life is not ending
        for kind, count in pod.devices.items():
            place = node, kind
            taken[place] = taken.get(place, 0) + count
            if leaves:
                preemptible.setdefault(place, Counter())[pod.priority] += count
    again: dict[Place, int] = {}
    for place, count in kept:
        again[place] = again.get(place, 0) + count
    return Held(taken=taken, kept=again, preemptible=preemptible)


def devices_of(
    nodes: Mapping[str, NodeView],
    held: Held,
    pools: Mapping[str, str],
    *,
    endless: Iterable[str] = (),
    broken: Mapping[Place, tuple[int, str]] | None = None,
) -> tuple[Device, ...]:
    """What packing may share out. ``pools``: that of each node. ``endless``: kinds for which nodes would be made.

    ``broken``: devices that are offered and no capacity, and what is wrong with them; they are listed as unhealthy.

    A node that takes no pods, or that is gone, or whose slices are being cut anew, offers what our replicas hold on
    it and nothing else: nobody knows whether that is lost.
    """
    devices: list[Device] = []
    for node in nodes.values():
        if node.takes_pods:
            for kind, allocatable in node.devices.items():
                count, why = broken.get((node.name, kind), (0, "")) if broken else (0, "")
                devices += _offered((node.name, kind), allocatable - count, held, pools[node.name])
                if count:
                    devices.append(_broken((node.name, kind), count, why, pools[node.name]))
    for place, count in held.kept.items():
        known = nodes.get(place[0])
        if known is None or not known.takes_pods or place[1] not in known.devices:
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


def _broken(place: Place, count: int, why: str, pool: str) -> Device:
    node, kind = place
    return Device(id=f"{node}/{kind}/broken", kind=kind, healthy=False, count=count, node=node, pool=pool, detail=why)


def _device(place: Place, count: int, pool: str, holder_priority: int | None = None) -> Device:
    node, kind = place
    holder = "" if holder_priority is None else f"/priority{holder_priority}"
    return Device(
        id=f"{node}/{kind}{holder}",
        kind=kind,
        count=count,
        node=node,
        pool=pool,
        holder_priority=holder_priority,
    )
