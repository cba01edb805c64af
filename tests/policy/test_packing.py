"""Sharing devices out over the nodes of a cluster: what fits, what a quota refuses, what no node takes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.domain.cluster import Device, Phase, Quota, Replica
from autoscaler.domain.plan import Reason
from autoscaler.domain.service import DeviceRequest, ServiceId
from autoscaler.domain.state import Unplaceable
from autoscaler.policy.packing import Allowance, Claim, Holding, Option, pack
from autoscaler.policy.unplaceable import ceilings, unplaceable
from tests.policy.world import service

GPU = "nvidia.com/gpu"


def gpus(node: str, count: int, *, pool: str = "", holder_priority: int | None = None) -> Device:
    return Device(id=f"{node}/{GPU}", kind=GPU, node=node, count=count, pool=pool, holder_priority=holder_priority)


def one(count: int = 1, pods: int = 1) -> DeviceRequest:
    return DeviceRequest(kind=GPU, count=count, pods=pods)


def claim(units: int, *options: Option, name: str = "chat", held: int = 0, priority: int = 0) -> Claim:
    return Claim(
        service=ServiceId(name),
        priority=priority,
        units=units,
        needed=units,
        minimum=0,
        most=100,
        options=options or (Option(variant="default", devices=one()),),
        held=held,
        asked={(options[0].variant if options else "default"): held},
        ready={},
    )


def targets(allowance: Allowance) -> dict[str, int]:
    return {target.variant: target.replicas for target in allowance.targets}


def option(name: str = "default", request: DeviceRequest | None = None, **more: object) -> Option:
    return replace(Option(variant=name, devices=request or one()), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("devices", "wanted", "placed", "reason"),
    [
        pytest.param([gpus("a", 8)], option(request=one(4)), 2, Reason.DEVICES_EXHAUSTED, id="two halves of a node"),
        pytest.param(
            [gpus("a", 3), gpus("b", 3)],
            option(request=one(4)),
            0,
            Reason.DEVICES_EXHAUSTED,
            id="six free GPUs on two nodes are no four on one",
        ),
        pytest.param(
            [gpus("a", 2), gpus("b", 2)],
            option(request=one(2, pods=2)),
            1,
            Reason.DEVICES_EXHAUSTED,
            id="a group of pods spans nodes",
        ),
        pytest.param(
            [gpus("a", 4, pool="blue"), gpus("b", 4, pool="green")],
            option(pools=("green",)),
            4,
            Reason.DEVICES_EXHAUSTED,
            id="only nodes that it may use",
        ),
        pytest.param(
            [gpus("a", 1), gpus("a", 2, holder_priority=5)],
            option(priority=6),
            3,
            Reason.DEVICES_EXHAUSTED,
            id="pods of lower priority make room",
        ),
        pytest.param(
            [gpus("a", 1), gpus("a", 2, holder_priority=5)],
            option(priority=5),
            1,
            Reason.DEVICES_EXHAUSTED,
            id="pods of the same priority do not",
        ),
        pytest.param(
            [replace(gpus("a", 8), healthy=False), gpus("b", 1)],
            option(),
            1,
            Reason.DEVICES_EXHAUSTED,
            id="unhealthy devices are none",
        ),
        pytest.param(
            [gpus("a", 8)],
            option(most=2, most_detail="quota team/pods leaves 2 pods"),
            2,
            Reason.QUOTA_EXHAUSTED,
            id="a quota on something else",
        ),
        pytest.param([gpus("a", 8)], option(), 8, Reason.PLACED, id="all of it"),
        pytest.param(
            [gpus("a", 8)],
            option(request=DeviceRequest(kind="amd.com/gpu", count=1)),
            0,
            Reason.NO_DEVICE_OF_KIND,
            id="another kind",
        ),
    ],
)
def test_a_service_alone(devices: list[Device], wanted: Option, placed: int, reason: Reason) -> None:
    allowance = pack([claim(8, wanted)], devices)[ServiceId("chat")]
    assert targets(allowance) == {"default": placed}
    assert allowance.result.reason is reason


def test_the_next_variant_is_tried_where_the_first_has_no_room() -> None:
    whole, piece = option("whole"), option("slice", DeviceRequest(kind="nvidia.com/mig-1g.10gb", count=1))
    slices = Device(id="b/slices", kind="nvidia.com/mig-1g.10gb", node="b", count=7)
    allowance = pack([claim(5, whole, piece)], [gpus("a", 2), slices])[ServiceId("chat")]
    assert targets(allowance) == {"whole": 2, "slice": 3}


def test_a_quota_holds_for_all_services_of_its_namespace_together() -> None:
    quota = Quota(name="team/gpus", kind=GPU, devices=5, services=(ServiceId("chat"), ServiceId("code")))
    got = pack([claim(4, name="chat"), claim(4, name="code")], [gpus("a", 20)], quotas=[quota])
    assert sum(target.replicas for each in got.values() for target in each.targets) == 5
    assert got[ServiceId("code")].result.reason is Reason.QUOTA_EXHAUSTED
    assert "team/gpus" in got[ServiceId("code")].result.detail


def test_a_quota_that_was_lowered_takes_nothing_from_what_runs() -> None:
    quota = Quota(name="team/gpus", kind=GPU, devices=2, services=(ServiceId("chat"),))
    running = option(placed=(("a",), ("a",), ("a",)))
    assert targets(pack([claim(4, running, held=3)], [gpus("a", 8)], quotas=[quota])[ServiceId("chat")]) == {
        "default": 3
    }


def test_what_runs_keeps_its_node() -> None:
    # The newcomer needs a whole node; best fit for the two that run would be the smaller node, but they are on b.
    running = claim(2, option(placed=(("b",), ("b",))), name="running", held=2)
    newcomer = claim(1, option(request=one(4)), name="newcomer")
    got = pack([newcomer, running], [gpus("a", 4), gpus("b", 4)])
    assert targets(got[ServiceId("newcomer")]) == {"default": 1}
    assert targets(got[ServiceId("running")]) == {"default": 2}


def test_a_service_that_is_left_alone_keeps_its_devices() -> None:
    held = Holding(service=ServiceId("other"), devices=one(2), replicas=1, placed=(("a",),))
    got = pack([claim(4)], [gpus("a", 3), gpus("b", 1)], holdings=[held])
    assert targets(got[ServiceId("chat")]) == {"default": 2}


def waiting(name: str, since_s: float | None, *, variant: str = "default") -> Replica:
    return Replica(
        name=name,
        service=ServiceId("chat"),
        variant=variant,
        phase=Phase.STARTING if since_s is not None else Phase.READY,
        created_s=0.0,
        nodes=() if since_s is not None else ("a",),
        unschedulable_since_s=since_s,
        detail="0/3 nodes are available: 3 Insufficient nvidia.com/gpu." if since_s is not None else "",
    )


def test_what_no_node_takes_is_given_back_after_the_deadline_and_asked_for_again_later() -> None:
    chat = service(unschedulable_deadline_s=300.0, unschedulable_retry_s=600.0)
    replicas = [waiting("r0", None), waiting("r1", 100.0)]
    assert unplaceable(now_s=399.0, service=chat, replicas=replicas, known={}) == {}
    found = unplaceable(now_s=400.0, service=chat, replicas=replicas, known={})
    assert found["default"].until_s == 1000.0
    assert "Insufficient nvidia.com/gpu" in found["default"].detail
    ceiling = ceilings(found, replicas)["default"]
    assert ceiling.most == 1
    alone = option(most=ceiling.most, most_reason=Reason.UNSCHEDULABLE, most_detail=ceiling.detail)
    allowance = pack([claim(2, alone, held=2)], [gpus("a", 8)])[ServiceId("chat")]
    assert targets(allowance) == {"default": 1}
    assert allowance.result.reason is Reason.UNSCHEDULABLE
    both = pack([claim(2, alone, option("other"), held=2)], [gpus("a", 8)])[ServiceId("chat")]
    assert targets(both) == {"default": 1, "other": 1}
    taken_back = [waiting("r0", None)]
    assert unplaceable(now_s=999.0, service=chat, replicas=taken_back, known=found) == found
    assert unplaceable(now_s=1000.0, service=chat, replicas=taken_back, known=found) == {}


def test_other_variants_are_not_held_back() -> None:
    found = {"default": Unplaceable(until_s=1000.0, detail="no node")}
    assert set(ceilings(found, [waiting("r0", None, variant="slice")])) == {"default"}


@given(
    nodes=st.lists(st.integers(0, 8), min_size=1, max_size=5),
    claims=st.lists(
        st.tuples(st.integers(0, 6), st.sampled_from([1, 2, 4]), st.integers(0, 6), st.integers(0, 2)), max_size=5
    ),
)
def test_no_node_carries_more_than_it_has(nodes: list[int], claims: list[tuple[int, int, int, int]]) -> None:
    devices = [gpus(f"n{index}", count) for index, count in enumerate(nodes)]
    asked = [
        claim(units, option(request=one(count)), name=f"s{index}", held=held, priority=priority)
        for index, (units, count, held, priority) in enumerate(claims)
    ]
    got = pack(asked, devices)
    wanted = Counter({each.service: each.options[0].devices.count for each in asked if each.options[0].devices})
    groups = [wanted[service] for service, each in got.items() for _ in range(targets(each)["default"])]
    assert _fit(sorted(groups, reverse=True), list(nodes))
    for each in asked:
        assert sum(targets(got[each.service]).values()) <= max(each.units, each.held)


def _fit(groups: list[int], nodes: list[int]) -> bool:
    """First fit, largest first, is exact here: each size divides the next."""
    for group in groups:
        place = next((index for index, free in enumerate(nodes) if free >= group), None)
        if place is None:
            return False
        nodes[place] -= group
    return True
