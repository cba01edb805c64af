"""Step by step: several services and variants, and fewer devices than they ask for."""

from __future__ import annotations

from dataclasses import replace

from autoscaler.domain.cluster import Device
from autoscaler.domain.params import Params
from autoscaler.domain.plan import Hold, Reason
from autoscaler.domain.service import (
    Bounds,
    DeviceRequest,
    IdlePolicy,
    ServiceId,
    Variant,
)
from autoscaler.domain.state import ControllerState
from tests.policy.world import CHAT, PerVariant, World, gateway, models, service

GPU = DeviceRequest(kind="gpu", count=1)


def two_models_one_gpu(**changes: object) -> World:
    changes = {"startup_s": 30.0, **changes}
    variants = (Variant(name="default", devices=GPU),)
    idle = IdlePolicy(after_s=3600)
    pair = tuple(
        service(name, variants=variants, bounds=Bounds(min_replicas=0), idle=idle, **changes) for name in ("a", "b")
    )
    return World(services=pair, devices=(Device(id="0"),), params=Params(turn_s=60))


def test_an_idle_model_gives_its_gpu_to_the_one_that_is_asked_for() -> None:
    world = two_models_one_gpu()
    a, b = ServiceId("a"), ServiceId("b")
    world.start(1, name=a)
    world.start(0, name=b)
    total = {"a": 0.0, "b": 0.0}

    def step(a_rps: float, b_new: float, b_waiting: float) -> tuple[int, int]:
        total["a"] += a_rps * 15
        total["b"] += b_new
        for name, waiting in (("a", 0.0), ("b", b_waiting)):
            world.gateways[name] = replace(
                gateway(world, arrivals=total[name], waiting=waiting, name=name), at_s=world.now_s + 15
            )
        world.tick()
        return world.targets[a, "default"], world.targets[b, "default"]

    for _ in range(6):
        assert step(5, 0, 0) == (1, 0)
    for _ in range(6):
        assert step(0, 0, 0) == (1, 0)
    assert step(0, 4, 4) == (0, 1)
    for _ in range(8):
        assert step(0, 1, 0) == (0, 1)


def test_two_busy_models_take_turns_on_one_gpu() -> None:
    world = two_models_one_gpu()
    a, b = ServiceId("a"), ServiceId("b")
    world.start(1, name=a)
    world.start(0, name=b)
    held = []
    for step in range(30):
        for name in ("a", "b"):
            world.gateways[name] = replace(
                gateway(world, arrivals=100.0 * (step + 1), waiting=2, name=name), at_s=world.now_s + 15
            )
        world.tick()
        held.append(world.targets[a, "default"] - world.targets[b, "default"])
    assert set(held) == {1, -1}
    changes = sum(now != before for now, before in zip(held[1:], held[:-1], strict=True))
    assert 3 <= changes <= 8


def test_higher_priority_takes_the_devices_of_lower() -> None:
    variants = (Variant(name="default", devices=GPU),)
    low = service("low", variants=variants, bounds=Bounds(min_replicas=0))
    high = service("high", variants=variants, bounds=Bounds(min_replicas=0), priority=10)
    world = World(services=(high, low), devices=(Device(id="0"), Device(id="1")))
    world.start(2, name=ServiceId("low"))
    world.start(0, name=ServiceId("high"))
    total = {"high": 0.0, "low": 0.0}
    targets = []
    for step in range(10):
        total["low"] += 15 * 15
        total["high"] += 15 * 15 if step >= 7 else 0
        for name, count in total.items():
            world.gateways[name] = replace(gateway(world, arrivals=count, name=name), at_s=world.now_s + 15)
        world.tick()
        targets.append((world.targets[ServiceId("high"), "default"], world.targets[ServiceId("low"), "default"]))
    assert targets[6] == (0, 2)
    assert targets[-1] == (2, 0)


def test_what_cannot_be_placed_is_a_hold_with_the_lacking_kind() -> None:
    variant = Variant(name="default", devices=DeviceRequest(kind="mig-1g.10gb", count=1))
    world = World(services=(service(variants=(variant,)),), devices=(Device(id="0"),))
    world.start(1)
    part = world.ticks(3, 5)
    assert isinstance(part.outcome, Hold)
    assert part.outcome.reason is Reason.NO_DEVICE_OF_KIND
    assert "mig-1g.10gb" in part.outcome.detail
    assert part.desired == 1


def test_the_cheaper_variant_is_taken_first_and_the_dearer_when_devices_run_out() -> None:
    cheap = Variant(name="slice", cost=1.0, devices=DeviceRequest(kind="mig-3g.40gb", count=1))
    dear = Variant(name="whole", cost=3.0, devices=GPU)
    devices = (Device(id="m0", kind="mig-3g.40gb"), Device(id="m1", kind="mig-3g.40gb"), Device(id="0"))
    world = World(services=(service(variants=(dear, cheap)),), devices=devices)
    world.targets[CHAT, "whole"] = 0
    world.start(1, variant="slice")
    world.ticks(6, 8)
    world.tick(25)
    assert (world.targets[CHAT, "slice"], world.targets[CHAT, "whole"]) == (2, 1)


def test_a_dearer_variant_is_kept_until_its_replacement_is_ready() -> None:
    cheap = Variant(name="cheap", cost=1.0)
    dear = Variant(name="dear", cost=3.0)
    world = World(services=(service(variants=(dear, cheap)),), boot_s=60)
    world.targets[CHAT, "cheap"] = 0
    world.start(1, variant="dear")
    seen = []
    for _ in range(14):
        world.tick(8)
        seen.append((world.targets[CHAT, "dear"], world.targets[CHAT, "cheap"]))
    assert (1, 1) in seen
    assert seen[-1] == (0, 1)
    assert all(dear_count + cheap_count >= 1 for dear_count, cheap_count in seen)


def test_a_preference_that_changes_never_leaves_full_devices_without_a_ready_replica() -> None:
    x = Variant(name="x", cost=1.0, devices=GPU)
    y = Variant(name="y", cost=2.0, devices=GPU)
    chat = service(variants=(x, y))
    world = World(services=(chat,), devices=(Device(id="0"), Device(id="1")), boot_s=60)
    world.targets[CHAT, "y"] = 0
    world.start(2, variant="x")
    world.ticks(6, 15)
    world.services = (replace(chat, variants=(x, replace(y, cost=0.5))),)
    for _ in range(20):
        world.tick(15)
        assert len(world.ready()) == 2


def test_replicas_of_all_variants_together_keep_to_the_maximum() -> None:
    gpu, cpu = Variant(name="gpu", cost=1.0, devices=GPU), Variant(name="cpu", cost=1e6)
    world = World(
        services=(service(variants=(gpu, cpu), bounds=Bounds(max_replicas=4)),),
        devices=(Device(id="0"),),
        models=replace(models(), capacity=PerVariant({"gpu": 100.0, "cpu": 1e-9})),
    )
    world.targets[CHAT, "cpu"] = 0
    world.start(1, variant="gpu")
    world.ticks(5, 50)
    assert world.tick(1000).desired == 4


def test_devices_of_a_service_that_holds_are_not_promised_to_another() -> None:
    variants = (Variant(name="default", devices=GPU),)
    pair = tuple(service(name, variants=variants) for name in ("a", "b"))
    world = World(services=pair, devices=tuple(Device(id=str(index)) for index in range(3)))
    a, b = ServiceId("a"), ServiceId("b")
    world.start(2, name=a)
    world.start(1, name=b)
    world.ticks(5, {a: 15, b: 8})
    broken = replace(world.state.services[a], theta="bad")  # type: ignore[arg-type]
    world.state = ControllerState(services={**world.state.services, a: broken})
    assert world.tick({a: 15, b: 80}).binding is Reason.SERVICE_ERROR
    assert world.targets[a, "default"] + world.targets[b, "default"] == 3
