"""Devices as plain values, in a form that stays: what ``gpu-autoscaler read --output json`` prints of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autoscaler.domain.gpu_reading import GpuReading, PodName
from autoscaler.domain.reading import Measured, Unknown

Plain = str | int | float | bool | None | Mapping[str, str] | Sequence[str]

NUMBERS = (
    "gr_engine_active",
    "sm_active",
    "dram_active",
    "gpu_util",
    "fb_used_mib",
    "fb_total_mib",
    "power_w",
    "energy_j",
    "pcie_bytes_per_s",
    "nvlink_bytes_per_s",
    "xid",
    "ecc_uncorrected",
)
_WHOLE = frozenset({"xid", "ecc_uncorrected"})


def plain_device(reading: GpuReading, faults: tuple[str, ...] | Unknown) -> dict[str, Plain]:
    """One device. ``faults``: what is wrong with it.

    ``{"uuid", "gpu", "gi", "profile", "node", "pod", "namespace", NAME: N or {"unknown": WHY}, ..., "faults": [...] or
    {"unknown": WHY}}``; "gi" and "profile" are null for a whole GPU. "pod" and "namespace" are null where no one pod
    has it, and then "holder" is ``{"unknown": WHY}``.
    """
    told: dict[str, Plain] = {
        "uuid": reading.uuid,
        "gpu": reading.index,
        "gi": reading.gi,
        "profile": reading.profile,
        "node": reading.node,
        "pod": None,
        "namespace": None,
    }
    if isinstance(reading.holder, PodName):
        told |= {"pod": reading.holder.name, "namespace": reading.holder.namespace}
    else:
        told["holder"] = _unknown(reading.holder)
    for name in NUMBERS:
        value: Measured = getattr(reading, name)
        if isinstance(value, Unknown):
            told[name] = _unknown(value)
        else:
            told[name] = int(value) if name in _WHOLE else value
    told["faults"] = _unknown(faults) if isinstance(faults, Unknown) else list(faults)
    return told


def _unknown(why: Unknown) -> Mapping[str, str]:
    return {"unknown": f"{why.reason}: {why.detail}" if why.detail else str(why.reason)}
