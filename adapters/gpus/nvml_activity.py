"""Activity and traffic that NVML's GPM measures between two samples: Hopper and newer, MIG instances as well.

nvml.h, nvmlGpmMetricId_t: percentages from 0 to 100, traffic in MiB/s.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from adapters.gpus.fields import Field
from adapters.gpus.nvml_library import Nvml
from autoscaler.domain.reading import Measured, Unknown, UnknownReason

_MIB = 1024.0 * 1024
_METRICS = {
    1: Field(name="gr_engine_active", series=(), highest=100.0, per=100.0),
    2: Field(name="sm_active", series=(), highest=100.0, per=100.0),
    10: Field(name="dram_active", series=(), highest=100.0, per=100.0),
    20: Field(name="pcie_tx", series=(), highest=1e7, scale=_MIB),
    21: Field(name="pcie_rx", series=(), highest=1e7, scale=_MIB),
    60: Field(name="nvlink_rx", series=(), highest=1e7, scale=_MIB),
    61: Field(name="nvlink_tx", series=(), highest=1e7, scale=_MIB),
}
_FIRST = Unknown(UnknownReason.WARMING_UP, "measured between two looks")

DeviceId = tuple[str, int | None]  # a GPU's UUID and an instance of it


class ActivityMeter:
    """Keeps each device's last sample."""

    def __init__(self, nvml: Nvml) -> None:
        self._nvml = nvml
        self._samples: dict[DeviceId, Any] = {}

    def measure(self, gpu: Any, device: DeviceId) -> dict[str, Measured]:
        """All numbers since this device's last sample, each known or not. ``gpu``: the whole GPU's handle."""
        nvml = self._nvml
        try:
            sample = nvml.nvmlGpmSampleAlloc()
        except nvml.NVMLError as error:
            return _all(_unsupported(error))
        try:
            if device[1] is None:
                nvml.nvmlGpmSampleGet(gpu, sample)
            else:
                nvml.nvmlGpmMigSampleGet(gpu, device[1], sample)
        except nvml.NVMLError as error:
            self._free(sample)
            return _all(_unsupported(error))
        before, self._samples[device] = self._samples.get(device), sample
        if before is None:
            return _all(_FIRST)
        try:
            return self._between(before, sample)
        except nvml.NVMLError as error:
            return _all(_unsupported(error))
        finally:
            self._free(before)

    def close(self) -> None:
        """Free the samples."""
        for sample in self._samples.values():
            self._free(sample)
        self._samples.clear()

    def _between(self, before: Any, after: Any) -> dict[str, Measured]:
        """Raises NVMLError."""
        nvml = self._nvml
        asked = nvml.c_nvmlGpmMetricsGet_t()
        asked.version = nvml.NVML_GPM_METRICS_GET_VERSION
        asked.numMetrics = len(_METRICS)
        asked.sample1, asked.sample2 = before, after
        for index, metric in enumerate(_METRICS):
            asked.metrics[index].metricId = metric
        nvml.nvmlGpmMetricsGet(asked)
        found: dict[str, Measured] = {}
        for index, field in enumerate(_METRICS.values()):
            told = asked.metrics[index]
            missing = Unknown(UnknownReason.NOT_EXPORTED, f"{field.name}: NVML error {told.nvmlReturn}")
            found[field.name] = field.read(told.value) if told.nvmlReturn == 0 else missing
        return found

    def _free(self, sample: Any) -> None:
        release: Callable[[Any], None] = self._nvml.nvmlGpmSampleFree
        with contextlib.suppress(self._nvml.NVMLError):
            release(sample)


def _unsupported(error: Exception) -> Unknown:
    return Unknown(UnknownReason.NOT_EXPORTED, f"GPM: {error}")


def _all(why: Unknown) -> dict[str, Measured]:
    return {field.name: why for field in _METRICS.values()}
