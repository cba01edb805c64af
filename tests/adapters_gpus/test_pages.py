"""Every field of whole pages, against figures worked out by hand."""

from __future__ import annotations

from dataclasses import fields

import pytest

from autoscaler.domain.gpu_reading import GpuReading, PodName
from autoscaler.domain.reading import Unknown, UnknownReason, is_known
from tests.adapters_gpus.conftest import AT_S, ReadPage

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
MISSING, SHARED, NOT_EXPORTED = UnknownReason.MISSING_SERIES, UnknownReason.SHARED, UnknownReason.NOT_EXPORTED
OUT_OF_RANGE, CONTRADICTION = UnknownReason.OUT_OF_RANGE, UnknownReason.CONTRADICTION


def numbers(reading: GpuReading) -> tuple[float | UnknownReason, ...]:
    """All numbers in the order of NUMBERS, reasons in place of those that are unknown."""
    told = [getattr(reading, name) for name in NUMBERS]
    return tuple(each.reason if isinstance(each, Unknown) else each for each in told)


def holder(reading: GpuReading) -> str:
    return str(reading.holder) if isinstance(reading.holder, PodName) else str(reading.holder.reason)


def test_all_numbers_of_a_reading_are_looked_at() -> None:
    others = {"uuid", "at_s", "holder", "index", "name", "gi", "profile", "node", "recent_xids"}
    assert {each.name for each in fields(GpuReading)} == {*NUMBERS, *others}


def test_whole_gpus(read_page: ReadPage) -> None:
    busy, broken = read_page("dcgm_4.5_whole").devices
    assert (busy.uuid[-1], busy.index, busy.gi, busy.profile, busy.node) == ("1", "0", None, None, "node-a")
    assert (holder(busy), busy.at_s) == ("prod/llama-0", AT_S)
    # 73000 + 8000 + 559; 4335301032 mJ; 12.5 MB/s out and 87.5 MB/s in; 2 GB/s and 1 GB/s
    assert numbers(busy) == (
        0.9512, 0.6125, 0.443, 0.97, 73000, 81559, 612.345, 4335301.032, 100e6, 3e9, 0, 0,
    )  # fmt: skip
    assert (holder(broken), broken.recent_xids) == ("NotExported", (79,))
    assert numbers(broken) == (0, 0, 0, 0, 0, 81559, 70.12, 250, 0, MISSING, 79, 2)


def test_mig_instances_and_their_gpu(read_page: ReadPage) -> None:
    read = read_page("dcgm_4.8_mig")
    gpu, large, small, free = read.devices
    assert [(each.gi, each.profile, holder(each)) for each in read.devices] == [
        (None, None, "Shared"),
        ("1", "3g.40gb", "prod/small-0"),
        ("9", "1g.10gb", "dev/tts-7"),
        ("10", "1g.10gb", "NotExported"),
    ]
    # The GPU's own row for activity and memory says again what its instances say; power is the GPU's on every row.
    assert numbers(gpu) == (
        NOT_EXPORTED, NOT_EXPORTED, NOT_EXPORTED, NOT_EXPORTED, NOT_EXPORTED, NOT_EXPORTED,
        287.5, 1500.5, MISSING, MISSING, CONTRADICTION, MISSING,
    )  # fmt: skip
    assert numbers(large)[:6] == (0.88, 0.7, 0.31, NOT_EXPORTED, 36000, 40192)
    assert numbers(large)[6:] == (SHARED, SHARED, SHARED, SHARED, 0, MISSING)
    # sm_active of 1.13 is no fraction (DCGM#152); 7700 + 2207 + 61
    assert numbers(small)[:6] == (0.25, OUT_OF_RANGE, 0.05, NOT_EXPORTED, 7700, 9968)
    assert small.xid == 94
    assert numbers(free)[:6] == (0, MISSING, 0, NOT_EXPORTED, MISSING, MISSING)
    assert read.warnings == ()


def test_a_device_that_pods_share_is_one_device_and_nobodys(read_page: ReadPage) -> None:
    (gpu,) = read_page("dcgm_4.4_time_sliced").devices
    assert isinstance(gpu.holder, Unknown)
    assert gpu.holder.reason is UnknownReason.SHARED
    assert all(f"gpu-workload-{number}" in gpu.holder.detail for number in (1, 2, 3))
    # gpu_util differs by pod: parts of it, by the exporter; the rest repeats the device's value for each pod
    assert numbers(gpu) == (
        0.714, MISSING, MISSING, SHARED, 9000, 15360, 68.5, MISSING, MISSING, MISSING, MISSING, MISSING,
    )  # fmt: skip


def test_blanks_and_impossible_values_are_unknown_each_by_itself(read_page: ReadPage) -> None:
    (gpu,) = read_page("dcgm_2.4_sentinels").devices
    assert holder(gpu) == "NotExported"
    assert numbers(gpu) == (
        OUT_OF_RANGE, MISSING, MISSING, OUT_OF_RANGE, 11011, OUT_OF_RANGE, 302.206,
        OUT_OF_RANGE, OUT_OF_RANGE, MISSING, OUT_OF_RANGE, OUT_OF_RANGE,
    )  # fmt: skip


def test_amd_gpus_and_partitions(read_page: ReadPage) -> None:
    whole, part = read_page("amd_1.4").devices
    assert (whole.index, whole.gi, whole.profile, whole.node, holder(whole)) == (
        "0", None, None, "mi300-1", "prod/llama-amd-0",
    )  # fmt: skip
    # 2.5e12 uJ; 800 Mb/s
    assert numbers(whole) == (
        0.83, 0.625, 0.41, 0.83, 176500, 196592, 487, 2.5e6, 100e6, NOT_EXPORTED, NOT_EXPORTED, 0,
    )  # fmt: skip
    assert (part.index, part.gi, part.profile, holder(part)) == ("8", "3", "cpx", "NotExported")
    # 65535 is amd-smi's "not available"
    assert numbers(part) == (
        OUT_OF_RANGE, MISSING, 0, OUT_OF_RANGE, 283, 24574, 137, 3.75e5, 0, NOT_EXPORTED, NOT_EXPORTED, 1,
    )  # fmt: skip


@pytest.mark.parametrize(
    "name", ["dcgm_4.5_whole", "dcgm_4.8_mig", "dcgm_4.4_time_sliced", "dcgm_2.4_sentinels", "amd_1.4"]
)
def test_nothing_is_known_both_of_a_gpu_and_of_its_instances(read_page: ReadPage, name: str) -> None:
    devices = read_page(name).devices
    for gpu in (each for each in devices if each.gi is None):
        instances = [each for each in devices if each.gi is not None and each.uuid == gpu.uuid]
        for field in NUMBERS[:-2]:
            if is_known(getattr(gpu, field)):
                assert not any(is_known(getattr(each, field)) for each in instances), field
