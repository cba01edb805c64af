"""Reading this machine's GPUs through the driver."""

from __future__ import annotations

from typing import cast

import pynvml

from adapters.gpus.nvml import NvmlReader
from adapters.gpus.nvml_library import Nvml, load_nvml
from autoscaler.domain.reading import UnknownReason
from tests.adapters_gpus.driver import Card, FakeDriver, Slice
from tests.adapters_gpus.test_pages import numbers

MIB = 1024 * 1024
SHARED, NOT_EXPORTED, WARMING_UP = UnknownReason.SHARED, UnknownReason.NOT_EXPORTED, UnknownReason.WARMING_UP


def reader_of(*cards: Card) -> tuple[NvmlReader, FakeDriver]:
    driver = FakeDriver(cards)
    return NvmlReader(cast(Nvml, driver)), driver


HOPPER = Card(
    "GPU-h",
    util=97,
    memory_bytes=(73000 * MIB, 81559 * MIB),
    power_mw=612_345,
    energy_mj=4_335_301_032,
    pcie_kb_per_s=(12_500, 87_500),
    activity={None: {1: 95.0, 2: 61.25, 10: 44.0, 20: 10.0, 21: 90.0, 60: 1000.0, 61: 2000.0}},
)


def test_a_whole_gpu() -> None:
    reader, driver = reader_of(HOPPER)
    (first,) = reader.read(at_s=1.0).devices
    # Activity is measured between two looks; 12.5 MB/s and 87.5 MB/s until then.
    assert numbers(first) == (
        WARMING_UP, WARMING_UP, WARMING_UP, 0.97, 73000, 81559, 612.345, 4335301.032, 100e6, WARMING_UP, 0, 0,
    )  # fmt: skip
    (second,) = reader.read(at_s=16.0).devices
    assert numbers(second)[:3] == (0.95, 0.6125, 0.44)
    assert numbers(second)[8:10] == (100 * MIB, 3000 * MIB)
    assert (second.uuid, second.name, second.index, second.at_s) == ("GPU-h", "0", "0", 16.0)
    assert driver.samples == 1
    reader.close()
    assert (driver.samples, driver.opened) == (0, 0)


def test_a_gpu_without_gpm_or_ecc_keeps_the_rest() -> None:
    reader, driver = reader_of(Card("GPU-t", util=50, power_mw=70_000, ecc=None))
    reader.read(at_s=1.0)
    (gpu,) = reader.read(at_s=2.0).devices
    assert numbers(gpu) == (
        NOT_EXPORTED, NOT_EXPORTED, NOT_EXPORTED, 0.5, 0, 0, 70, 0, 0, NOT_EXPORTED, 0, NOT_EXPORTED,
    )  # fmt: skip
    assert driver.samples == 0


def test_mig_instances() -> None:
    slices = [
        Slice("MIG-1", 1, "NVIDIA H100 80GB HBM3 MIG 3g.40gb", (36000 * MIB, 40192 * MIB)),
        Slice("MIG-9", 9, "NVIDIA H100 80GB HBM3 MIG 1g.10gb+me", (100 * MIB, 9968 * MIB)),
    ]
    activity: dict[int | None, dict[int, float]] = {1: {1: 88.0, 2: 70.0, 10: 31.0}, 9: {1: 25.0, 2: 113.0}}
    card = Card("GPU-m", power_mw=287_500, energy_mj=1_500_500, slices=slices, activity=activity)
    reader, driver = reader_of(card)
    driver.events = [(card, 94, 9)]
    reader.read(at_s=1.0)
    gpu, large, small = reader.read(at_s=16.0).devices
    assert numbers(gpu) == (
        NOT_EXPORTED, NOT_EXPORTED, NOT_EXPORTED, NOT_EXPORTED, NOT_EXPORTED, NOT_EXPORTED,
        287.5, 1500.5, 0, NOT_EXPORTED, 0, 0,
    )  # fmt: skip
    assert (large.uuid, large.name, large.gi, large.profile) == ("GPU-m", "MIG-1", "1", "3g.40gb")
    assert numbers(large)[:6] == (0.88, 0.7, 0.31, NOT_EXPORTED, 36000, 40192)
    assert numbers(large)[6:] == (SHARED, SHARED, SHARED, SHARED, 0, NOT_EXPORTED)
    assert numbers(small)[:3] == (0.25, UnknownReason.OUT_OF_RANGE, NOT_EXPORTED)
    assert (small.profile, small.xid, small.recent_xids) == ("1g.10gb+me", 94, (94,))


def test_xids_are_remembered_by_gpu() -> None:
    one, two = Card("GPU-1"), Card("GPU-2")
    reader, driver = reader_of(one, two)
    driver.events = [(two, 79, None), (two, 31, None)]
    first, second = reader.read(at_s=1.0).devices
    assert (first.xid, first.recent_xids) == (0, ())
    assert (second.xid, second.recent_xids) == (31, (31, 79))
    assert reader.read(at_s=2.0).devices[1].recent_xids == (31, 79)


def test_a_gpu_that_is_lost_costs_no_other() -> None:
    reader, _ = reader_of(Card("GPU-1", lost=True), Card("GPU-2", util=40))
    read = reader.read(at_s=1.0)
    assert [each.uuid for each in read.devices] == ["GPU-2"]
    assert read.warnings == ("GPU 0 can't be read: GPU is lost",)


def test_without_a_driver_nothing_is_known_and_it_is_tried_again() -> None:
    reader, driver = reader_of(HOPPER)
    driver.broken = True
    read = reader.read(at_s=1.0)
    assert read.devices == ()
    assert "Driver Not Loaded" in read.warnings[0]
    reader.close()
    driver.broken = False
    assert len(reader.read(at_s=2.0).devices) == 1


def test_the_library_has_all_that_is_used_of_it() -> None:
    library = load_nvml()
    assert library is not None
    used = [name for name in dir(FakeDriver) if name.startswith("nvml")]
    assert [name for name in used if not callable(getattr(library, name, None))] == []
    asked = library.c_nvmlGpmMetricsGet_t()
    asked.metrics[6].metricId = 61
    assert (pynvml.NVML_GPM_METRIC_GRAPHICS_UTIL, pynvml.NVML_GPM_METRIC_SM_UTIL) == (1, 2)
    assert (pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL, pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC) == (10, 20)
    assert (pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC, pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC) == (60, 61)
    assert (pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC) == (1, 0)
    assert pynvml.nvmlEventTypeXidCriticalError == 8
