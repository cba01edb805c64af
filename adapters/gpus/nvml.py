"""The GPUs of this machine, through NVML as nvidia-ml-py gives it.

Units (nvml.h): memory in bytes, power in mW, energy in mJ, PCIe throughput in KB/s. A GPU in MIG mode has no
utilisation; GPM measures its instances where the GPU has it (Hopper and newer).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypedDict

from adapters.gpus.fields import Field, added, used_within
from adapters.gpus.nvml_activity import ActivityMeter
from adapters.gpus.nvml_errors import XidListener
from adapters.gpus.nvml_library import Nvml
from autoscaler.domain.gpu_reading import DevicesRead, GpuReading
from autoscaler.domain.reading import Measured, Unknown, UnknownReason, is_known

_UNCORRECTED = 1  # NVML_MEMORY_ERROR_TYPE_UNCORRECTED
_VOLATILE = 0  # NVML_VOLATILE_ECC: since the driver was loaded
_TX, _RX = 0, 1  # NVML_PCIE_UTIL_TX_BYTES, NVML_PCIE_UTIL_RX_BYTES

_UTIL = Field(name="gpu_util", series=(), highest=100.0, per=100.0)
_BYTES = Field(name="memory", series=(), per=1024.0 * 1024)
_POWER = Field(name="power_w", series=(), highest=1e7, per=1000.0)
_ENERGY = Field(name="energy_j", series=(), per=1000.0)
_PCIE = Field(name="pcie_bytes_per_s", series=(), highest=1e10, scale=1000.0)
_ERRORS = Field(name="ecc_uncorrected", series=(), whole=True)
_NOT_UNDER_MIG = Unknown(UnknownReason.NOT_EXPORTED, "not measured under MIG; gr_engine_active is, where GPM is")
_OF_AN_INSTANCE = Unknown(UnknownReason.SHARED, "known of the whole GPU only, which its instances share")
_NO_PODS = Unknown(UnknownReason.NOT_EXPORTED, "the driver knows no pods")


class _OfTheGpu(TypedDict):
    power_w: Measured
    energy_j: Measured
    pcie_bytes_per_s: Measured
    nvlink_bytes_per_s: Measured


class _Memory(TypedDict):
    fb_used_mib: Measured
    fb_total_mib: Measured


@dataclass(frozen=True, slots=True)
class _Instance:
    handle: Any
    number: int
    profile: str


@dataclass(frozen=True, slots=True)
class _Gpu:
    """``instances``: None where it is not in MIG mode."""

    handle: Any
    uuid: str
    index: str
    instances: tuple[_Instance, ...] | None


class NvmlReader:
    """Reads all GPUs of the machine. Keeps the library open until ``close``. For one thread."""

    def __init__(self, nvml: Nvml) -> None:
        self._nvml = nvml
        self._open = False
        self._meter = ActivityMeter(nvml)
        self._xids = XidListener(nvml)

    def read(self, *, at_s: float) -> DevicesRead:
        """The devices now; activity is measured since the last call. A GPU that can't be read is left out, and said.

        Raises nothing.
        """
        nvml = self._nvml
        try:
            if not self._open:
                nvml.nvmlInit()
                self._open = True
            count = nvml.nvmlDeviceGetCount()
        except nvml.NVMLError as error:
            return DevicesRead(warnings=(f"the NVIDIA driver does not answer: {error}",))
        gpus: list[_Gpu] = []
        warnings: list[str] = []
        for index in range(count):
            try:
                gpus.append(self._gpu(index))
            except nvml.NVMLError as error:
                warnings.append(f"GPU {index} can't be read: {error}")
        self._xids.hear((gpu.uuid, gpu.handle) for gpu in gpus)
        devices = tuple(device for gpu in gpus for device in self._devices(gpu, at_s=at_s))
        return DevicesRead(devices=devices, warnings=tuple(warnings))

    def close(self) -> None:
        """Let go of the driver. Idempotent."""
        if not self._open:
            return
        self._open = False
        self._meter.close()
        self._xids.close()
        with contextlib.suppress(self._nvml.NVMLError):
            self._nvml.nvmlShutdown()

    def _gpu(self, index: int) -> _Gpu:
        """Raises NVMLError."""
        nvml = self._nvml
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        uuid = nvml.nvmlDeviceGetUUID(handle)
        try:
            sliced = bool(nvml.nvmlDeviceGetMigMode(handle)[0])
        except nvml.NVMLError:  # not supported
            sliced = False
        if not sliced:
            return _Gpu(handle, uuid, str(index), None)
        instances = []
        for slot in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
            try:
                instance = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, slot)
            except nvml.NVMLError:  # this slot is empty
                continue
            profile = nvml.nvmlDeviceGetName(instance).rpartition("MIG ")[2]
            instances.append(_Instance(instance, nvml.nvmlDeviceGetGpuInstanceId(instance), profile))
        return _Gpu(handle, uuid, str(index), tuple(instances))

    def _devices(self, gpu: _Gpu, *, at_s: float) -> list[GpuReading]:
        if gpu.instances is None:
            return [self._whole(gpu, at_s=at_s)]
        parent = GpuReading(
            uuid=gpu.uuid,
            at_s=at_s,
            holder=Unknown(UnknownReason.SHARED, "its MIG instances are held one by one"),
            index=gpu.index,
            gpu_util=_NOT_UNDER_MIG,
            xid=self._xids.last(gpu.uuid),
            recent_xids=self._xids.all(gpu.uuid),
            ecc_uncorrected=self._ecc(gpu.handle),
            **self._of_the_gpu(gpu, {}),
        )
        return [parent, *(self._instance(gpu, each, at_s=at_s) for each in gpu.instances)]

    def _whole(self, gpu: _Gpu, *, at_s: float) -> GpuReading:
        nvml, handle = self._nvml, gpu.handle
        measured = self._meter.measure(handle, (gpu.uuid, None))
        return GpuReading(
            uuid=gpu.uuid,
            at_s=at_s,
            holder=_NO_PODS,
            index=gpu.index,
            name=gpu.index,
            gr_engine_active=measured["gr_engine_active"],
            sm_active=measured["sm_active"],
            dram_active=measured["dram_active"],
            gpu_util=self._number(_UTIL, lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu),
            xid=self._xids.last(gpu.uuid),
            recent_xids=self._xids.all(gpu.uuid),
            ecc_uncorrected=self._ecc(handle),
            **self._memory(handle),
            **self._of_the_gpu(gpu, measured),
        )

    def _instance(self, gpu: _Gpu, instance: _Instance, *, at_s: float) -> GpuReading:
        nvml = self._nvml
        measured = self._meter.measure(gpu.handle, (gpu.uuid, instance.number))
        try:
            name = nvml.nvmlDeviceGetUUID(instance.handle)
        except nvml.NVMLError:
            name = ""
        return GpuReading(
            uuid=gpu.uuid,
            at_s=at_s,
            holder=_NO_PODS,
            index=gpu.index,
            name=name,
            gi=str(instance.number),
            profile=instance.profile or None,
            gr_engine_active=measured["gr_engine_active"],
            sm_active=measured["sm_active"],
            dram_active=measured["dram_active"],
            gpu_util=_NOT_UNDER_MIG,
            power_w=_OF_AN_INSTANCE,
            energy_j=_OF_AN_INSTANCE,
            pcie_bytes_per_s=_OF_AN_INSTANCE,
            nvlink_bytes_per_s=_OF_AN_INSTANCE,
            xid=self._xids.last(gpu.uuid, instance.number),
            recent_xids=self._xids.all(gpu.uuid, instance.number),
            **self._memory(instance.handle),
        )

    def _memory(self, handle: Any) -> _Memory:
        nvml = self._nvml
        total = self._number(_BYTES, lambda: nvml.nvmlDeviceGetMemoryInfo(handle).total)
        used = self._number(_BYTES, lambda: nvml.nvmlDeviceGetMemoryInfo(handle).used)
        return {"fb_used_mib": used_within(used, total), "fb_total_mib": total}

    def _of_the_gpu(self, gpu: _Gpu, measured: dict[str, Measured]) -> _OfTheGpu:
        """``measured``: by GPM, which is better than one look."""
        nvml, handle = self._nvml, gpu.handle
        not_measured = Unknown(UnknownReason.NOT_EXPORTED, "no GPM of the whole GPU")
        nvlink = added(measured.get("nvlink_tx", not_measured), measured.get("nvlink_rx", not_measured))
        pcie = added(measured.get("pcie_tx", not_measured), measured.get("pcie_rx", not_measured))
        if not is_known(pcie):
            pcie = added(
                self._number(_PCIE, lambda: nvml.nvmlDeviceGetPcieThroughput(handle, _TX)),
                self._number(_PCIE, lambda: nvml.nvmlDeviceGetPcieThroughput(handle, _RX)),
            )
        return {
            "power_w": self._number(_POWER, lambda: nvml.nvmlDeviceGetPowerUsage(handle)),
            "energy_j": self._number(_ENERGY, lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(handle)),
            "pcie_bytes_per_s": pcie,
            "nvlink_bytes_per_s": nvlink,
        }

    def _ecc(self, handle: Any) -> Measured:
        return self._number(_ERRORS, lambda: self._nvml.nvmlDeviceGetTotalEccErrors(handle, _UNCORRECTED, _VOLATILE))

    def _number(self, field: Field, ask: Callable[[], float]) -> Measured:
        try:
            return field.read(float(ask()))
        except self._nvml.NVMLError as error:
            return Unknown(UnknownReason.NOT_EXPORTED, f"{field.name}: {error}")
