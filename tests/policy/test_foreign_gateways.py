"""Demand from a gateway that is not ours: it counts where it tells, the replicas where they know of more."""

from __future__ import annotations

import pytest

from autoscaler.domain.plan import Plan, ServiceDecision
from autoscaler.domain.reading import ForeignGatewayReading, Measured, Unknown, UnknownReason
from autoscaler.domain.service import Bounds, IdlePolicy
from tests.policy.world import CHAT, World, models, service

NOT_TOLD = Unknown(UnknownReason.NOT_EXPORTED)


def reading(
    world: World,
    arrivals: float,
    *,
    waiting: Measured = NOT_TOLD,
    in_flight: Measured = NOT_TOLD,
    at_least: bool = False,
) -> ForeignGatewayReading:
    return ForeignGatewayReading(
        service=CHAT,
        at_s=world.now_s + world.params.interval_s,
        started_s=1.0,
        arrivals=arrivals,
        waiting=waiting,
        in_flight=in_flight,
        at_least=at_least,
    )


def run(world: World, *, at_gateway: float, at_replicas: float, ticks: int, at_least: bool = False) -> ServiceDecision:
    """Ticks under rates (requests/s) that the gateway and the replicas tell."""
    counted = 0.0
    part = None
    for _ in range(ticks):
        counted += at_gateway * world.params.interval_s
        world.gateways = {CHAT: reading(world, counted, at_least=at_least)}
        part = world.tick(at_replicas)
    assert part is not None
    return part


@pytest.mark.parametrize(
    ("at_gateway", "at_replicas", "at_least", "replicas"),
    [
        # Ten requests/s a replica.
        pytest.param(35.0, 8.0, False, 4, id="the gateway knows of requests that no replica has seen"),
        pytest.param(35.0, 8.0, True, 4, id="and where it tells the least, too"),
        pytest.param(8.0, 35.0, False, 1, id="what it counts is what was asked"),
        pytest.param(8.0, 35.0, True, 4, id="counted at their end: the replicas know of more"),
        pytest.param(0.0, 35.0, True, 4, id="labels that match nothing starve nobody"),
    ],
)
def test_the_larger_of_two_where_one_tells_the_least(
    at_gateway: float, at_replicas: float, *, at_least: bool, replicas: int
) -> None:
    world = World(models=models(rps=10.0))
    world.start(2)
    part = run(world, at_gateway=at_gateway, at_replicas=at_replicas, ticks=60, at_least=at_least)
    assert sum(each.replicas for each in part.targets()) == replicas


def test_a_service_at_zero_is_woken_by_what_it_counts() -> None:
    scaled = service(bounds=Bounds(min_replicas=0, max_replicas=4), idle=IdlePolicy(after_s=60.0))
    world = World(services=(scaled,), models=models(rps=10.0))
    world.targets[CHAT, "default"] = 0
    world.gateways = {CHAT: reading(world, 7.0)}
    world.tick()
    world.gateways = {CHAT: reading(world, 7.0)}
    assert sum(each.replicas for each in world.tick().targets()) == 0
    world.gateways = {CHAT: reading(world, 8.0)}
    assert sum(each.replicas for each in world.tick().targets()) == 1


def test_a_gateway_that_can_not_be_read_shrinks_nothing() -> None:
    world = World(models=models(rps=10.0))
    world.start(4)
    run(world, at_gateway=35.0, at_replicas=35.0, ticks=10)
    world.gateways = {CHAT: Unknown(UnknownReason.HTTP_ERROR, "401")}
    for _ in range(60):
        part = world.tick(1.0)
        assert not isinstance(part.outcome, Plan) or sum(each.replicas for each in part.targets()) >= 4


@pytest.mark.parametrize(
    ("foreseen_rps", "replicas"),
    [
        pytest.param(0.002, 0, id="hardly any request is foreseen: no reason to start, seen or unseen"),
        pytest.param(2.0, 1, id="requests are foreseen: a replica starts for them"),
    ],
)
def test_a_service_at_zero_that_can_not_be_seen_wakes_for_what_it_would_wake_for_seen(
    foreseen_rps: float, replicas: int
) -> None:
    scaled = service(bounds=Bounds(min_replicas=0, max_replicas=4), idle=IdlePolicy(after_s=60.0))
    at_zero_s = 1_000_000.0 + 3600.0
    world = World(
        services=(scaled,),
        models=models(rps=10.0, foreseen=lambda at_s: 0.002 if at_s < at_zero_s else foreseen_rps),
    )
    world.start(1)
    run(world, at_gateway=5.0, at_replicas=5.0, ticks=20)
    last = world.gateways[CHAT]
    assert isinstance(last, ForeignGatewayReading)
    while world.now_s < at_zero_s - 300.0:
        world.gateways = {CHAT: reading(world, last.arrivals)}
        world.tick()
    assert world.targets[CHAT, "default"] == 0
    world.gateways = {CHAT: Unknown(UnknownReason.HTTP_ERROR, "401")}
    while world.now_s < at_zero_s + 300.0:
        world.tick()
    assert world.targets[CHAT, "default"] == replicas


def test_a_long_request_that_only_its_replica_sees_is_not_idle() -> None:
    """Behind a gateway whose series have other labels, or that tells no requests in flight."""
    scaled = service(bounds=Bounds(min_replicas=0, max_replicas=4), idle=IdlePolicy(after_s=60.0, min_uptime_factor=0))
    world = World(services=(scaled,), models=models(rps=10.0))
    world.start(1)
    (name,) = world.ready()
    world.engines[name].running = 1.0
    for _ in range(60):
        world.gateways = {CHAT: reading(world, 0.0, at_least=True)}
        world.engines[name].tokens += 50  # it is being answered
        assert sum(each.replicas for each in world.tick().targets()) == 1


def test_a_replica_that_can_not_be_read_is_not_idle_behind_one_that_tells_the_least() -> None:
    world = World(models=models(rps=10.0))
    world.start(4)
    run(world, at_gateway=35.0, at_replicas=35.0, ticks=10, at_least=True)
    for name in world.ready()[:2]:
        world.engines[name].fault = Unknown(UnknownReason.TIMEOUT)
    counted = 0.0
    for _ in range(60):
        world.gateways = {CHAT: reading(world, counted, at_least=True)}
        part = world.tick(17.0)
        assert sum(each.replicas for each in part.targets()) >= 3, part.binding
