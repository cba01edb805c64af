"""Step by step: to zero, from zero, and kept from it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autoscaler.domain.plan import Hold, Reason
from autoscaler.domain.service import (
    Bounds,
    IdlePolicy,
)
from predictors.capacity import StepTimeCapacity
from tests.policy.world import World, gateway, models, service


def test_zero_is_left_when_a_request_waits_and_reached_only_after_the_idle_time() -> None:
    idle = IdlePolicy(after_s=60, min_uptime_factor=2)
    world = World(services=(service(bounds=Bounds(min_replicas=0), idle=idle, startup_s=30),))
    world.start(0)
    world.gateways["chat"] = gateway(world, arrivals=0)
    assert world.tick().desired == 0
    world.gateways["chat"] = replace(gateway(world, arrivals=3, waiting=3), at_s=world.now_s + 15)
    woken = world.tick()
    assert (woken.desired, woken.binding) == (1, Reason.WAKE_FROM_ZERO)
    desired = []
    for _ in range(30):
        world.gateways["chat"] = replace(gateway(world, arrivals=3), at_s=world.now_s + 15)
        desired.append(world.tick().desired)
    assert 0 in desired
    # idle for 60 s, and up for twice its 45-s lead time; the down window adds nothing
    assert desired.index(0) == 6
    assert set(desired[desired.index(0) :]) == {0}


def test_an_idle_service_of_unknown_capacity_is_kept_for_its_idle_time_too() -> None:
    unknown = replace(models(), capacity=StepTimeCapacity())
    idle = IdlePolicy(after_s=120, min_uptime_factor=1)
    world = World(services=(service(bounds=Bounds(min_replicas=0), idle=idle),), models=unknown)
    world.start(1)
    desired = [world.tick().desired for _ in range(20)]
    assert desired.index(0) * 15 >= 120


def test_a_queue_before_replicas_of_unknown_capacity_asks_for_one_more_at_a_time() -> None:
    world = World(models=replace(models(), capacity=StepTimeCapacity()), boot_s=60)
    world.start(1)
    world.tick()
    desired = []
    for _ in range(12):
        for name in world.ready():
            world.engines[name].running, world.engines[name].waiting = 4, 30
        desired.append(world.tick().desired)
    assert desired[:4] == [2, 2, 2, 2]
    assert desired == sorted(desired)
    assert desired[-1] <= 4


def test_without_gateway_and_replicas_nothing_is_known_and_zero_is_kept() -> None:
    world = World(services=(service(bounds=Bounds(min_replicas=0)),))
    world.start(0)
    part = world.ticks(3)
    assert isinstance(part.outcome, Hold)
    assert part.desired == 0


def test_requests_between_two_ticks_wake_the_service_even_if_they_are_gone() -> None:
    world = World(services=(service(bounds=Bounds(min_replicas=0)),))
    world.start(0)
    world.gateways["chat"] = gateway(world, arrivals=0)
    world.tick()
    world.gateways["chat"] = replace(gateway(world, arrivals=1), at_s=world.now_s + 15)
    assert world.tick().desired == 1


@pytest.mark.parametrize("minimum", [pytest.param(0, id="to zero"), pytest.param(1, id="to one")])
def test_spare_replicas_stay_between_requests_and_go_when_the_service_is_idle(minimum: int) -> None:
    """A request every two minutes needs one replica, and the spare one is not given up in the time between."""
    idle = IdlePolicy(after_s=300, min_uptime_factor=2)
    bounds = Bounds(min_replicas=minimum, max_replicas=10, spare=1)
    world = World(services=(service(bounds=bounds, idle=idle),), models=models(foreseen=lambda _: 0.0))
    world.start(2)
    world.ticks(8, 1.0)
    assert [world.tick(1.0 if tick % 8 == 0 else 0.0).desired for tick in range(40)] == [2] * 40
    world.tick(1.0)
    later = [world.tick().desired for _ in range(30)]
    assert later[:19] == [2] * 19
    assert set(later[25:]) == {minimum}  # at most a down window of a minute later
