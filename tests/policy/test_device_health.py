"""Which devices are broken, and whose a device's numbers are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from autoscaler.domain.gpu_reading import DeviceKey, GpuReading, PodName
from autoscaler.domain.reading import Measured, Unknown, UnknownReason
from autoscaler.policy.device_attribution import Allotment, devices_of, unshared
from autoscaler.policy.device_health import REMEMBERED_S, BrokenDevice, broken_devices, faults_of

NOBODY = Unknown(UnknownReason.NOT_EXPORTED)
ABSENT = Unknown(UnknownReason.MISSING_SERIES)
A, B = PodName(namespace="x", name="a"), PodName(namespace="x", name="b")


def gpu(
    *,
    xid: Measured = 0.0,
    ecc: Measured = 0.0,
    gi: str | None = None,
    uuid: str = "GPU-1",
    holder: PodName | Unknown = NOBODY,
    name: str = "",
    index: str = "",
) -> GpuReading:
    recent = () if isinstance(xid, Unknown) or not xid else (int(xid),)
    return GpuReading(
        uuid=uuid,
        at_s=0.0,
        holder=holder,
        gi=gi,
        node="n",
        name=name,
        index=index,
        xid=xid,
        recent_xids=recent,
        ecc_uncorrected=ecc,
    )


@pytest.mark.parametrize("xid", [48, 63, 64, 74, 79, 94, 95])
def test_errors_of_the_device_break_it_and_are_named(xid: int) -> None:
    (fault,) = told(gpu(xid=float(xid)))
    assert f"XID {xid} (" in fault


@pytest.mark.parametrize("xid", [13, 31, 43, 45, 8, 92])
def test_errors_of_applications_do_not(xid: int) -> None:
    assert told(gpu(xid=float(xid))) == ()


def test_uncorrected_memory_errors_break_it() -> None:
    assert told(gpu(ecc=3.0)) == ("3 uncorrected memory errors",)


def test_without_any_error_series_nobody_knows() -> None:
    assert isinstance(faults_of(gpu(xid=ABSENT, ecc=ABSENT)), Unknown)
    assert told(gpu(xid=ABSENT, ecc=0.0)) == ()


def told(reading: GpuReading) -> tuple[str, ...]:
    faults = faults_of(reading)
    assert isinstance(faults, tuple)
    return faults


def broken(*looks: tuple[float, list[GpuReading]]) -> Mapping[DeviceKey, BrokenDevice]:
    found: Mapping[DeviceKey, BrokenDevice] = {}
    for at_s, readings in looks:
        found = broken_devices(found, readings, now_s=at_s)
    return found


WELL, LOST = gpu(), gpu(xid=79.0)


@pytest.mark.parametrize(
    ("looks", "is_broken"),
    [
        pytest.param([(0, [WELL])], False, id="well"),
        pytest.param([(0, [LOST])], True, id="lost"),
        pytest.param([(0, [LOST]), (30, [gpu(xid=31.0)])], True, id="an application's error hides the last one"),
        pytest.param([(0, [LOST]), (30, [gpu(xid=ABSENT)])], True, id="the series went away"),
        pytest.param([(0, [LOST]), (30, [WELL])], False, id="reset"),
        pytest.param([(0, [gpu(ecc=1.0)]), (30, [gpu(ecc=ABSENT)])], True, id="memory errors not told any more"),
        pytest.param([(0, [gpu(ecc=1.0)]), (30, [WELL])], False, id="memory errors gone with a reset"),
        pytest.param([(0, [LOST]), (30, [])], True, id="it left the page"),
        pytest.param([(0, [LOST]), (30, []), (REMEMBERED_S, [])], True, id="it left, remembered to the end"),
        pytest.param([(0, [LOST]), (30, []), (REMEMBERED_S + 1, [])], False, id="it left and is forgotten"),
    ],
)
def test_a_broken_device_stays_so_until_it_tells_of_no_error(
    *, looks: list[tuple[float, list[GpuReading]]], is_broken: bool
) -> None:
    assert bool(broken(*looks)) is is_broken


def test_errors_of_a_gpu_are_those_of_its_instances() -> None:
    found = broken((0, [LOST, gpu(gi="1"), gpu(gi="2"), gpu(uuid="GPU-2")]))
    assert [(key.uuid, key.gi) for key in found] == [("GPU-1", "1"), ("GPU-1", "2")]


def test_errors_of_an_instance_are_its_own() -> None:
    found = broken((0, [gpu(xid=ABSENT), gpu(gi="1"), gpu(gi="2", xid=94.0)]))
    assert [str(each) for each in found.values()] == ["GPU-1 instance 2 on n: XID 94 (contained memory error)"]


def test_a_gpu_that_is_cut_into_instances_is_judged_by_them() -> None:
    assert broken((0, [LOST]), (30, [gpu(), gpu(gi="1"), gpu(gi="2")])) == {}


TWO = [gpu(holder=A, index="0"), gpu(uuid="GPU-2", holder=A, index="1"), gpu(uuid="GPU-3", holder=B, index="2")]
SHARED = Unknown(UnknownReason.SHARED, "2 pods have it")


@pytest.mark.parametrize(
    ("allotment", "readings", "expected"),
    [
        pytest.param(Allotment(pod=A), TWO, ["GPU-1", "GPU-2"], id="by pod"),
        pytest.param(Allotment(pod=A, count=2), TWO, ["GPU-1", "GPU-2"], id="all of them"),
        pytest.param(Allotment(pod=A, count=4), TWO, UnknownReason.MISSING_SERIES, id="#250: half of them"),
        pytest.param(Allotment(pod=PodName(namespace="y", name="a")), TWO, UnknownReason.MISSING_SERIES, id="namesake"),
        pytest.param(Allotment(devices=["0", "GPU-3"]), TWO, ["GPU-1", "GPU-3"], id="by index and UUID"),
        pytest.param(Allotment(devices=["MIG-7"]), [gpu(gi="1", name="MIG-7")], ["GPU-1"], id="by MIG UUID"),
        pytest.param(Allotment(devices=["GPU-1/1"]), [gpu(), gpu(gi="1")], ["GPU-1"], id="by GPU and instance"),
        pytest.param(Allotment(devices=["0"]), [gpu(index="0", holder=SHARED)], UnknownReason.SHARED, id="shared"),
        pytest.param(Allotment(pod=B, devices=["GPU-1"]), TWO, UnknownReason.CONTRADICTION, id="somebody else's"),
        pytest.param(Allotment(), TWO, UnknownReason.MISSING_SERIES, id="nothing"),
    ],
)
def test_whose_devices(allotment: Allotment, readings: list[GpuReading], expected: list[str] | UnknownReason) -> None:
    found = devices_of(allotment, readings)
    assert (found.reason if isinstance(found, Unknown) else [each.uuid for each in found]) == expected


def test_151_where_devices_are_time_sliced_the_one_pod_named_is_not_the_only_one() -> None:
    readings = unshared([*TWO, replace(TWO[0], node="m", uuid="GPU-9")], {"n"})
    assert devices_of(Allotment(pod=A), readings) == (readings[-1],)
    assert [isinstance(each.holder, PodName) for each in readings] == [False, False, False, True]
