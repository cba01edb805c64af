"""Pages that stand still."""

from __future__ import annotations

from dataclasses import replace

import pytest

from adapters.gpus.freshness import Freshness
from autoscaler.domain.gpu_reading import DevicesRead, GpuReading
from autoscaler.domain.reading import Measured, Unknown, UnknownReason

NOBODY = Unknown(UnknownReason.NOT_EXPORTED)
GPU = GpuReading(
    uuid="GPU-1",
    at_s=0.0,
    holder=NOBODY,
    gr_engine_active=0.51,
    dram_active=0.2,
    power_w=300.0,
    energy_j=10.0,
    xid=79.0,
)


def after(*looks: GpuReading, parent: GpuReading | None = None) -> GpuReading:
    """The last look, after the others."""
    freshness = Freshness(stale_after_s=120)
    for look in looks:
        devices = (look,) if parent is None else (replace(parent, at_s=look.at_s), look)
        last = freshness.checked(DevicesRead(devices=devices)).devices[-1]
    return last


def is_stale(value: Measured) -> bool:
    return isinstance(value, Unknown) and value.reason is UnknownReason.STALE


def test_164_a_page_that_repeats_itself_is_stale_but_its_errors_stay() -> None:
    found = after(GPU, replace(GPU, at_s=60.0), replace(GPU, at_s=120.0))
    assert [is_stale(each) for each in (found.gr_engine_active, found.power_w, found.energy_j)] == [True] * 3
    assert found.xid == 79


def test_the_same_sample_until_the_exporter_takes_another_is_not() -> None:
    assert after(GPU, replace(GPU, at_s=119.0)) == replace(GPU, at_s=119.0)


def test_a_profiler_that_lost_the_gpu_repeats_its_last() -> None:
    found = after(GPU, replace(GPU, at_s=120.0, energy_j=900.0, power_w=310.0))
    assert is_stale(found.gr_engine_active)
    assert is_stale(found.dram_active)
    assert found.power_w == 310


@pytest.mark.parametrize("activity", [0.0, 1.0], ids=["idle", "always busy"])
def test_nothing_and_all_may_last(activity: float) -> None:
    look = replace(GPU, gr_engine_active=activity, dram_active=0.0)
    assert after(look, replace(look, at_s=500.0, energy_j=900.0)).gr_engine_active == activity


def test_an_instance_is_as_stale_as_its_gpu() -> None:
    instance = replace(GPU, gi="1", energy_j=NOBODY, gr_engine_active=0.0, dram_active=0.0)
    assert is_stale(after(instance, replace(instance, at_s=120.0), parent=GPU).gr_engine_active)


def test_what_moves_again_is_fresh_again() -> None:
    moved = replace(GPU, at_s=200.0, energy_j=11.0, gr_engine_active=0.52)
    assert after(GPU, replace(GPU, at_s=150.0), moved) == moved
