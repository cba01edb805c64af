"""A decision names the broken devices that it lacks."""

from __future__ import annotations

from autoscaler.domain.cluster import Device
from autoscaler.domain.plan import Reason
from autoscaler.domain.service import ServiceId
from autoscaler.policy.packing import pack
from autoscaler.policy.pools import Pools
from tests.policy.test_packing import GPU, claim, gpus

LOST = Device(id="n/gpu/broken", kind="gpu", count=2, healthy=False, node="n", detail="GPU-1: XID 79")


def test_broken_devices_are_no_capacity_and_are_named() -> None:
    pools = Pools([Device(id="n/gpu", count=1, node="n"), LOST, Device(id="m", kind="other", healthy=False)])
    assert pools.kinds == {"gpu"}
    assert pools.broken(["gpu"]) == "2 broken: n/gpu/broken (GPU-1: XID 79)"
    assert pools.broken(["none"]) == ""


def test_of_many_a_few_are_named() -> None:
    pools = Pools([Device(id=str(index), healthy=False) for index in range(10)])
    assert pools.broken(["gpu"]) == "10 broken: 0, 1, 2 and 7 more"


def test_a_decision_that_lacks_devices_names_the_broken() -> None:
    lost = Device(id=f"b/{GPU}/broken", kind=GPU, healthy=False, node="b", detail="GPU-1: XID 79")
    result = pack([claim(3)], [gpus("a", 2), lost])[ServiceId("chat")].result
    assert (result.replicas, result.reason) == (2, Reason.DEVICES_EXHAUSTED)
    assert result.detail.endswith(f"; 1 broken: b/{GPU}/broken (GPU-1: XID 79)")
    result = pack([claim(3)], [lost])[ServiceId("chat")].result
    assert result.reason is Reason.NO_DEVICE_OF_KIND
    assert "XID 79" in result.detail
