"""What is read of devices, as Prometheus metrics of the controller's own.

What is not known is absent. ``service`` and ``replica`` are empty where no one replica has the device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from autoscaler.domain.gpu_reading import GpuReading, OwnedDevice
from autoscaler.domain.reading import Measured, is_known

_PREFIX = "gpu_autoscaler_device"
_LABELS = ("node", "gpu", "uuid", "gi", "profile", "service", "replica")
_MIB = 1024.0 * 1024
_GAUGES: tuple[tuple[str, str, Callable[[GpuReading], Measured], float], ...] = (
    ("engine_active_ratio", "Share of time in which the graphics engine works.", lambda r: r.gr_engine_active, 1.0),
    ("sm_active_ratio", "Share of time in which a multiprocessor works.", lambda r: r.sm_active, 1.0),
    ("dram_active_ratio", "Share of time in which memory is read or written.", lambda r: r.dram_active, 1.0),
    ("utilization_ratio", "Share of time in which a kernel runs; no head-room.", lambda r: r.gpu_util, 1.0),
    ("memory_used_bytes", "Memory in use.", lambda r: r.fb_used_mib, _MIB),
    ("memory_total_bytes", "Memory.", lambda r: r.fb_total_mib, _MIB),
    ("power_watts", "Power draw.", lambda r: r.power_w, 1.0),
    ("pcie_bytes_per_second", "PCIe traffic of both directions.", lambda r: r.pcie_bytes_per_s, 1.0),
    ("nvlink_bytes_per_second", "NVLink traffic of both directions.", lambda r: r.nvlink_bytes_per_s, 1.0),
    ("last_xid", "The last XID error, 0 for none.", lambda r: r.xid, 1.0),
)


class DeviceCollector(Collector):
    """The devices' metrics at the moment of the scrape."""

    def __init__(self, devices: Callable[[], Sequence[OwnedDevice]]) -> None:
        self._devices = devices

    def collect(self) -> Iterator[Metric]:
        """One look at the devices, as metric families."""
        devices = [(each, _labels(each)) for each in self._devices()]
        for name, text, value_of, unit in _GAUGES:
            family = GaugeMetricFamily(f"{_PREFIX}_{name}", text, labels=_LABELS)
            for each, labels in devices:
                value = value_of(each.reading)
                if is_known(value):
                    family.add_metric(labels, value * unit)
            yield family
        energy = CounterMetricFamily(f"{_PREFIX}_energy_joules", "Energy since the driver was loaded.", labels=_LABELS)
        broken = GaugeMetricFamily(f"{_PREFIX}_broken", "1 where the device is no capacity.", labels=_LABELS)
        for each, labels in devices:
            if is_known(each.reading.energy_j):
                energy.add_metric(labels, each.reading.energy_j)
            broken.add_metric(labels, float(bool(each.faults)))
        yield from (energy, broken)


def _labels(device: OwnedDevice) -> list[str]:
    reading = device.reading
    return [
        reading.node,
        reading.index,
        reading.uuid,
        reading.gi or "",
        reading.profile or "",
        device.service,
        device.replica,
    ]
