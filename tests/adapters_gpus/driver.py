"""NVML with GPUs that are described: the functions of pynvml that are used, raising as it does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace


class NvmlError(Exception):
    """As pynvml's."""


@dataclass
class Slice:
    """A MIG instance."""

    uuid: str
    number: int
    name: str
    memory_bytes: tuple[int, int] = (0, 0)


@dataclass
class Card:
    """A GPU. ``activity``: percentages and MiB/s by GPM metric, None where it has no GPM; by instance or None."""

    uuid: str
    util: int = 0
    memory_bytes: tuple[int, int] = (0, 0)
    power_mw: int = 0
    energy_mj: int = 0
    pcie_kb_per_s: tuple[int, int] = (0, 0)
    ecc: int | None = 0
    activity: dict[int | None, dict[int, float]] | None = None
    slices: list[Slice] | None = None
    lost: bool = False


@dataclass
class Sample:
    card: Card | None = None
    instance: int | None = None


class GpmMetrics:
    """As the C structure."""

    def __init__(self) -> None:
        self.version = self.numMetrics = 0
        self.sample1 = self.sample2 = Sample()
        self.metrics = [SimpleNamespace(metricId=0, nvmlReturn=0, value=0.0) for _ in range(333)]


@dataclass
class FakeDriver:
    """``events``: XIDs to come, (card, XID, instance or None). Handles are cards and slices."""

    cards: Sequence[Card]
    events: list[tuple[Card, int, int | None]] = field(default_factory=list)
    broken: bool = False
    opened: int = 0
    samples: int = 0
    NVMLError: type[Exception] = NvmlError
    c_nvmlGpmMetricsGet_t: type[GpmMetrics] = GpmMetrics
    NVML_GPM_METRICS_GET_VERSION: int = 1

    def nvmlInit(self) -> None:
        if self.broken:
            raise NvmlError("Driver Not Loaded")
        self.opened += 1

    def nvmlShutdown(self) -> None:
        self.opened -= 1

    def nvmlDeviceGetCount(self) -> int:
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Card:
        if self.cards[index].lost:
            raise NvmlError("GPU is lost")
        return self.cards[index]

    def nvmlDeviceGetUUID(self, handle: Card | Slice) -> str:
        return handle.uuid

    def nvmlDeviceGetName(self, handle: Card | Slice) -> str:
        return handle.name if isinstance(handle, Slice) else "NVIDIA H100 80GB HBM3"

    def nvmlDeviceGetMigMode(self, handle: Card) -> Sequence[int]:
        return [int(handle.slices is not None)] * 2

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: Card) -> int:
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: Card, index: int) -> Slice:
        slices = handle.slices or []
        if index >= len(slices):
            raise NvmlError("Not Found")
        return slices[index]

    def nvmlDeviceGetGpuInstanceId(self, handle: Slice) -> int:
        return handle.number

    def nvmlDeviceGetUtilizationRates(self, handle: Card) -> SimpleNamespace:
        if handle.slices is not None:
            raise NvmlError("Not Supported")
        return SimpleNamespace(gpu=handle.util)

    def nvmlDeviceGetMemoryInfo(self, handle: Card | Slice) -> SimpleNamespace:
        return SimpleNamespace(used=handle.memory_bytes[0], total=handle.memory_bytes[1])

    def nvmlDeviceGetPowerUsage(self, handle: Card) -> int:
        return handle.power_mw

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: Card) -> int:
        return handle.energy_mj

    def nvmlDeviceGetPcieThroughput(self, handle: Card, counter: int) -> int:
        return handle.pcie_kb_per_s[counter]

    def nvmlDeviceGetTotalEccErrors(self, handle: Card, error: int, counter: int) -> int:
        assert (error, counter) == (1, 0)
        if handle.ecc is None:
            raise NvmlError("Not Supported")
        return handle.ecc

    def nvmlGpmSampleAlloc(self) -> Sample:
        self.samples += 1
        return Sample()

    def nvmlGpmSampleFree(self, sample: Sample) -> None:
        self.samples -= 1

    def nvmlGpmSampleGet(self, handle: Card, sample: Sample) -> None:
        if handle.activity is None:
            raise NvmlError("Not Supported")
        sample.card = handle

    def nvmlGpmMigSampleGet(self, handle: Card, instance: int, sample: Sample) -> None:
        self.nvmlGpmSampleGet(handle, sample)
        sample.instance = instance

    def nvmlGpmMetricsGet(self, asked: GpmMetrics) -> None:
        assert asked.sample1 is not asked.sample2
        card = asked.sample2.card
        assert card is not None
        assert card.activity is not None
        told = card.activity[asked.sample2.instance]
        for metric in asked.metrics[: asked.numMetrics]:
            metric.nvmlReturn = 0 if metric.metricId in told else 3
            metric.value = told.get(metric.metricId, 0.0)

    def nvmlEventSetCreate(self) -> object:
        return object()

    def nvmlEventSetFree(self, events: object) -> None: ...

    def nvmlDeviceRegisterEvents(self, handle: Card, types: int, events: object) -> None:
        assert types == 8

    def nvmlEventSetWait_v2(self, events: object, timeout_ms: int) -> SimpleNamespace:
        if not self.events:
            raise NvmlError("Timeout")
        card, xid, instance = self.events.pop(0)
        return SimpleNamespace(device=card, eventData=xid, gpuInstanceId=0xFFFFFFFF if instance is None else instance)
