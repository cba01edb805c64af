"""Which devices' readings are a replica's: by the pod that has them, or by the names of the devices it was given.

A value of a device that several share is nobody's: it is never split by guess.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from autoscaler.domain.cluster import Replica
from autoscaler.domain.gpu_reading import DeviceKey, GpuReading, OwnedDevice, PodName
from autoscaler.domain.reading import Unknown, UnknownReason
from autoscaler.policy.device_health import BrokenDevice


@dataclass(frozen=True, slots=True, kw_only=True)
class Allotment:
    """What is known of a replica's devices: ``pod`` in a cluster, ``devices`` where they have names.

    ``devices``: indices, UUIDs of GPUs or MIG instances, or "UUID/GI". ``count``: how many it has, None if not known.
    """

    pod: PodName | None = None
    devices: Collection[str] = ()
    count: int | None = None


def unshared(readings: Iterable[GpuReading], sharing_nodes: Collection[str]) -> tuple[GpuReading, ...]:
    """The readings, without the one pod that a time-sliced device's row names where others have it as well.

    ``sharing_nodes``: nodes whose device plugin gives a device to several pods (time-slicing, MPS).
    """
    return tuple(
        replace(each, holder=Unknown(UnknownReason.SHARED, f"{each.node} gives its devices to several pods"))
        if each.node in sharing_nodes
        else each
        for each in readings
    )


def devices_of(allotment: Allotment, readings: Iterable[GpuReading]) -> tuple[GpuReading, ...] | Unknown:
    """The replica's devices.

    Unknown(SHARED) where one of them is also somebody else's, Unknown(MISSING_SERIES) where fewer are told of than it
    has: means over some of a replica's devices are wrong (dcgm-exporter#250).
    """
    found: dict[str, GpuReading] = {}
    for each in readings:
        named = each.names & set(allotment.devices)
        if not named and (allotment.pod is None or each.holder != allotment.pod):
            continue
        if isinstance(each.holder, Unknown) and each.holder.reason is UnknownReason.SHARED:
            return each.holder
        if named and allotment.pod is not None and isinstance(each.holder, PodName) and each.holder != allotment.pod:
            return Unknown(UnknownReason.CONTRADICTION, f"{each.key} is said to be {each.holder}'s")
        found[str(each.key)] = each
    if not found or (allotment.count is not None and len(found) < allotment.count):
        wanted = "any" if allotment.count is None else str(allotment.count)
        return Unknown(UnknownReason.MISSING_SERIES, f"{len(found)} devices are told of, not {wanted}")
    return tuple(found.values())


def owned(
    readings: Sequence[GpuReading], replicas: Iterable[Replica], broken: Iterable[BrokenDevice]
) -> tuple[OwnedDevice, ...]:
    """The devices with the replicas that were given them by name, and what is wrong with them."""
    owners: dict[DeviceKey, Replica] = {}
    for replica in replicas:
        found = devices_of(Allotment(devices=replica.devices), readings) if replica.devices else ()
        if not isinstance(found, Unknown):
            owners |= dict.fromkeys((each.key for each in found), replica)
    faults = {each.key: each.faults for each in broken}
    return tuple(
        OwnedDevice(
            reading=each,
            service=owners[each.key].service if each.key in owners else "",
            replica=owners[each.key].name if each.key in owners else "",
            faults=faults.get(each.key, ()),
        )
        for each in readings
    )
