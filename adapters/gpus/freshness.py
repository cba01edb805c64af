"""Values that stand still: an exporter that lost its host engine, or a profiler that lost the GPU, repeats the last.

A running GPU's energy counter moves with every sample, and what is measured of a working one never comes twice to the
last digit. dcgm-exporter takes a sample every 30 s by default, so that the same page is right for that long.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from autoscaler.domain.gpu_reading import DeviceKey, DevicesRead, GpuReading
from autoscaler.domain.reading import Measured, Unknown, UnknownReason, is_known

STALE_AFTER_S = 120.0


@dataclass(frozen=True, slots=True)
class _Still:
    """A value and since when it is so."""

    value: tuple[Measured, ...]
    since_s: float


class Freshness:
    """Compares each device with what it was before. Not for use from two threads at once."""

    def __init__(self, *, stale_after_s: float = STALE_AFTER_S) -> None:
        self._stale_after_s = stale_after_s
        self._energy: dict[DeviceKey, _Still] = {}
        self._activity: dict[DeviceKey, _Still] = {}

    def checked(self, read: DevicesRead) -> DevicesRead:
        """The same devices, Unknown(STALE) in place of values that stand still for too long."""
        energy, activity = self._energy, self._activity
        self._energy, self._activity = {}, {}
        for each in read.devices:
            self._activity[each.key] = _since(activity.get(each.key), _activity(each), each.at_s)
            if each.gi is None:
                self._energy[each.key] = _since(energy.get(each.key), (each.energy_j,), each.at_s)
        return replace(read, devices=tuple(self._device(each) for each in read.devices))

    def _device(self, reading: GpuReading) -> GpuReading:
        energy = self._energy.get(replace(reading.key, gi=""))
        if energy is not None and is_known(energy.value[0]) and self._stands(energy, reading):
            stale = self._stale("energy", energy, reading)
            return replace(
                reading,
                gr_engine_active=stale,
                sm_active=stale,
                dram_active=stale,
                gpu_util=stale,
                fb_used_mib=stale,
                power_w=stale,
                energy_j=stale,
                pcie_bytes_per_s=stale,
                nvlink_bytes_per_s=stale,
            )
        activity = self._activity[reading.key]
        works = any(is_known(value) and 0 < value < 1 for value in activity.value)
        if works and self._stands(activity, reading):
            stale = self._stale("profiled activity", activity, reading)
            return replace(reading, gr_engine_active=stale, sm_active=stale, dram_active=stale)
        return reading

    def _stands(self, still: _Still, reading: GpuReading) -> bool:
        return reading.at_s - still.since_s >= self._stale_after_s

    @staticmethod
    def _stale(what: str, still: _Still, reading: GpuReading) -> Unknown:
        lasted_s = reading.at_s - still.since_s
        return Unknown(UnknownReason.STALE, f"{what} the same to the last digit for {lasted_s:.0f} s")


def _since(before: _Still | None, value: tuple[Measured, ...], at_s: float) -> _Still:
    return before if before is not None and before.value == value else _Still(value, at_s)


def _activity(reading: GpuReading) -> tuple[Measured, ...]:
    return reading.gr_engine_active, reading.sm_active, reading.dram_active
