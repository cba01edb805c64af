"""Devices of this machine that are broken are no capacity."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from autoscaler.domain.cluster import Device
from autoscaler.policy.device_health import BrokenDevice


def with_health(devices: Sequence[Device], broken: Iterable[BrokenDevice]) -> tuple[Device, ...]:
    """The devices, the broken ones as unhealthy and with what is wrong. What was unhealthy before stays so."""
    faults = {name: ", ".join(each.faults) for each in broken for name in each.names}
    return tuple(
        replace(device, healthy=False, detail=faults[device.id]) if device.id in faults else device
        for device in devices
    )
