"""Devices of the machine, through NVML as nvidia-ml-py gives it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import pytest

from adapters.gpus.nvml_library import load_nvml
from adapters.local.devices import Nvml, choose_devices, find_devices
from autoscaler.domain.cluster import Device
from autoscaler.domain.service import DeviceRequest


class NvmlError(Exception):
    """As pynvml's."""


@dataclass
class Gpu:
    """``mig``: None where the GPU knows no MIG, else its instances by slot (None: an empty slot)."""

    uuid: str
    mig: tuple[tuple[str, str] | None, ...] | None = None
    mig_enabled: bool = False
    lost: bool = False


@dataclass
class Driver:
    """NVML with these GPUs. Handles are GPUs, or names and UUIDs of MIG instances."""

    gpus: Sequence[Gpu]
    broken: str = ""
    NVMLError: type[Exception] = NvmlError
    calls: list[str] = field(default_factory=list)

    def nvmlInit(self) -> None:
        self.calls.append("init")
        if self.broken == "init":
            raise NvmlError("Driver Not Loaded")

    def nvmlShutdown(self) -> None:
        self.calls.append("shutdown")

    def nvmlDeviceGetCount(self) -> int:
        if self.broken == "count":
            raise NvmlError("Unknown Error")
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Gpu:
        if self.gpus[index].lost:
            raise NvmlError("GPU is lost")
        return self.gpus[index]

    def nvmlDeviceGetUUID(self, handle: Gpu | tuple[str, str]) -> str:
        return handle.uuid if isinstance(handle, Gpu) else handle[1]

    def nvmlDeviceGetName(self, handle: Gpu | tuple[str, str]) -> str:
        return "NVIDIA A100-SXM4-40GB" if isinstance(handle, Gpu) else handle[0]

    def nvmlDeviceGetMigMode(self, handle: Gpu) -> Sequence[int]:
        if handle.mig is None:
            raise NvmlError("Not Supported")
        return [int(handle.mig_enabled), int(handle.mig_enabled)]

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: Gpu) -> int:
        return len(handle.mig or ())

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: Gpu, index: int) -> tuple[str, str]:
        instance = (handle.mig or ())[index]
        if instance is None:
            raise NvmlError("Not Found")
        return instance


SLICED = Gpu(
    "GPU-bbbb",
    mig=(
        ("NVIDIA A100-SXM4-40GB MIG 3g.20gb", "MIG-1111"),
        None,
        ("NVIDIA A100-SXM4-40GB MIG 1c.3g.20gb", "MIG-2222"),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb+me", "MIG-3333"),
    ),
    mig_enabled=True,
)


def find(*gpus: Gpu, visible: str | None = None, broken: str = "") -> tuple[tuple[Device, ...], str]:
    driver = Driver(gpus, broken=broken)
    found = find_devices(cast(Nvml, driver), visible=visible)
    assert driver.calls in (["init"], ["init", "shutdown"])
    return found.devices, "; ".join(found.notes)


def test_gpus_go_by_index_and_mig_instances_by_uuid() -> None:
    devices, notes = find(Gpu("GPU-aaaa", mig=(None,) * 7), SLICED, Gpu("GPU-cccc"))
    assert devices == (
        Device(id="0"),
        Device(id="MIG-1111", kind="mig-3g.20gb"),
        Device(id="MIG-2222", kind="mig-1c.3g.20gb"),
        Device(id="MIG-3333", kind="mig-1g.5gb+me"),
        Device(id="2"),
    )
    assert notes == ""


@pytest.mark.parametrize(
    ("visible", "ids"),
    [
        pytest.param(None, ["0", "MIG-1111", "MIG-2222", "MIG-3333", "2", "3"], id="all"),
        pytest.param("2", ["2"], id="index"),
        pytest.param(" 0 , 3", ["0", "3"], id="indices"),
        pytest.param("GPU-dd,MIG-2222", ["MIG-2222", "3"], id="beginning of a UUID"),
        pytest.param("", [], id="none"),
    ],
)
def test_devices_that_are_not_visible_to_us_are_left_alone(visible: str | None, ids: list[str]) -> None:
    devices, notes = find(Gpu("GPU-aaaa"), SLICED, Gpu("GPU-cccc"), Gpu("GPU-dddd"), visible=visible)
    assert [device.id for device in devices] == ids
    assert ("left alone" in notes) is (visible is not None)


def test_one_lost_gpu_is_unhealthy_and_harms_no_other() -> None:
    devices, notes = find(Gpu("GPU-aaaa", lost=True), Gpu("GPU-cccc"))
    assert devices == (Device(id="0", healthy=False), Device(id="1"))
    assert notes == "GPU 0 is unusable: GPU is lost"


@pytest.mark.parametrize(
    ("gpus", "broken", "note"),
    [
        pytest.param((), "init", "no NVIDIA GPU found: Driver Not Loaded", id="no driver"),
        pytest.param((), "count", "the NVIDIA GPUs can't be listed: Unknown Error", id="broken driver"),
        pytest.param((), "", "no NVIDIA GPU found: the driver lists none", id="no card"),
        pytest.param((Gpu("GPU-aaaa", mig=(None,), mig_enabled=True),), "", "GPU 0 is in MIG mode", id="no slices"),
    ],
)
def test_where_there_is_none_it_is_said_why(gpus: tuple[Gpu, ...], broken: str, note: str) -> None:
    devices, notes = find(*gpus, broken=broken)
    assert devices == ()
    assert note in notes


def test_without_the_library_nothing_is_looked_for() -> None:
    found = find_devices(None, visible=None)
    assert found.devices == ()
    assert "not installed" in found.notes[0]


def test_the_real_library_answers_or_says_why_not() -> None:
    pytest.importorskip("pynvml")
    found = find_devices(load_nvml(), visible=None)
    assert found.devices or found.notes


@pytest.mark.parametrize(
    ("held", "request_", "chosen"),
    [
        pytest.param((), DeviceRequest(kind="gpu", count=1), ("0",), id="first free"),
        pytest.param(("0",), DeviceRequest(kind="gpu", count=2), ("2", "3"), id="unhealthy and held left out"),
        pytest.param(("0", "2"), DeviceRequest(kind="gpu", count=2), None, id="too few"),
        pytest.param((), DeviceRequest(kind="mig-1g.10gb", count=1), ("MIG-1",), id="by kind"),
        pytest.param((), DeviceRequest(kind="mig-7g.80gb", count=1), None, id="no such kind"),
    ],
)
def test_devices_are_chosen_among_the_free(
    held: tuple[str, ...], request_: DeviceRequest, chosen: tuple[str, ...] | None
) -> None:
    devices = [
        Device(id="0"),
        Device(id="1", healthy=False),
        Device(id="2"),
        Device(id="MIG-1", kind="mig-1g.10gb"),
        Device(id="3"),
    ]
    assert choose_devices(devices, held=held, request=request_) == chosen
