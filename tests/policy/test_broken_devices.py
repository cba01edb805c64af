"""A decision names the broken devices that it lacks."""

from __future__ import annotations

from autoscaler.domain.cluster import Device
from autoscaler.policy.pools import Pools

LOST = Device(id="n/gpu/broken", kind="gpu", count=2, healthy=False, node="n", detail="GPU-1: XID 79")


def test_broken_devices_are_no_capacity_and_are_named() -> None:
    pools = Pools([Device(id="n/gpu", count=1, node="n"), LOST, Device(id="m", kind="other", healthy=False)])
    assert pools.kinds == {"gpu"}
    assert pools.broken(["gpu"]) == "2 broken: n/gpu/broken (GPU-1: XID 79)"
    assert pools.broken(["none"]) == ""


def test_of_many_a_few_are_named() -> None:
    pools = Pools([Device(id=str(index), healthy=False) for index in range(10)])
    assert pools.broken(["gpu"]) == "10 broken: 0, 1, 2 and 7 more"
