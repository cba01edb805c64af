"""The devices of this machine: found through NVML, and given to replicas one owner at a time."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from autoscaler.domain.cluster import Device
from autoscaler.domain.service import DeviceRequest

_MIG_PROFILE = re.compile(r"\bMIG\s+(\S+)")


class Nvml(Protocol):
    """The part of ``pynvml`` (nvidia-ml-py) that finds devices; every function raises ``NVMLError``."""

    NVMLError: type[Exception]

    def nvmlInit(self) -> None: ...
    def nvmlShutdown(self) -> None: ...
    def nvmlDeviceGetCount(self) -> int: ...
    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any: ...
    def nvmlDeviceGetUUID(self, handle: Any) -> str: ...
    def nvmlDeviceGetName(self, handle: Any) -> str: ...
    def nvmlDeviceGetMigMode(self, handle: Any) -> Sequence[int]: ...
    def nvmlDeviceGetMaxMigDeviceCount(self, handle: Any) -> int: ...
    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: Any, index: int) -> Any: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundDevices:
    """What was found, and in words why it is not more."""

    devices: tuple[Device, ...]
    notes: tuple[str, ...] = ()


def find_devices(nvml: Nvml | None, *, visible: str | None) -> FoundDevices:
    """Every GPU, and in place of a GPU in MIG mode its MIG instances.

    ``visible``: our own CUDA_VISIBLE_DEVICES (indices, UUIDs or beginnings of UUIDs), None where it is not set; other
    devices of the machine belong to somebody else. A GPU is named by its index in PCI order, since several engines
    can't read a UUID there (vllm-project/vllm#13815); a MIG instance has no other name than its UUID.
    A device that NVML can't read is listed as unhealthy. Raises nothing.
    """
    if nvml is None:
        return FoundDevices(devices=(), notes=("no GPU looked for: nvidia-ml-py is not installed",))
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return FoundDevices(devices=(), notes=(f"no NVIDIA GPU found: {error}",))
    try:
        found, notes = _enumerate(nvml)
    except nvml.NVMLError as error:
        return FoundDevices(devices=(), notes=(f"the NVIDIA GPUs can't be listed: {error}",))
    finally:
        nvml.nvmlShutdown()
    if not found:
        notes.append("no NVIDIA GPU found: the driver lists none")
    mine = [device for device, names in found if visible is None or _is_visible(names, visible)]
    if len(mine) < len(found):
        hidden = len(found) - len(mine)
        notes.append(f"{hidden} of {len(found)} devices left alone: not in CUDA_VISIBLE_DEVICES={visible}")
    return FoundDevices(devices=tuple(mine), notes=tuple(notes))


def _enumerate(nvml: Nvml) -> tuple[list[tuple[Device, tuple[str, ...]]], list[str]]:
    """Devices with all names by which CUDA_VISIBLE_DEVICES may call them."""
    found: list[tuple[Device, tuple[str, ...]]] = []
    notes: list[str] = []
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            uuid = nvml.nvmlDeviceGetUUID(handle)
            instances = _mig_instances(nvml, handle)
        except nvml.NVMLError as error:
            notes.append(f"GPU {index} is unusable: {error}")
            found.append((Device(id=str(index), healthy=False), (str(index),)))
            continue
        if instances is None:
            found.append((Device(id=str(index)), (str(index), uuid)))
            continue
        found.extend((device, (device.id,)) for device in instances)
        if not instances:
            notes.append(f"GPU {index} is in MIG mode and has no MIG instance")
    return found, notes


def _mig_instances(nvml: Nvml, handle: Any) -> list[Device] | None:
    """The MIG instances of a GPU in the driver's order, None where MIG mode is off or the GPU has none."""
    try:
        mode = nvml.nvmlDeviceGetMigMode(handle)[0]
    except nvml.NVMLError:  # not supported
        return None
    if not mode:
        return None
    instances = []
    for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            instance = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
        except nvml.NVMLError:  # this slot is empty
            continue
        name = nvml.nvmlDeviceGetName(instance)  # "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
        profile = _MIG_PROFILE.search(name)
        kind = f"mig-{profile.group(1)}" if profile else "mig"
        instances.append(Device(id=nvml.nvmlDeviceGetUUID(instance), kind=kind))
    return instances


def _is_visible(names: Sequence[str], visible: str) -> bool:
    listed = [word.strip() for word in visible.split(",") if word.strip()]
    return any(name == word or (not word.isdigit() and name.startswith(word)) for name in names for word in listed)


def choose_devices(
    devices: Sequence[Device], *, held: Collection[str], request: DeviceRequest
) -> tuple[str, ...] | None:
    """The first ``request.count`` healthy devices of the kind that nobody holds, or None where there are fewer."""
    free = [device.id for device in devices if device.kind == request.kind and device.healthy and device.id not in held]
    return tuple(free[: request.count]) if len(free) >= request.count else None
