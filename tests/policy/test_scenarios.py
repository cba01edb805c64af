"""Step by step: the state of the world, the time that passes, the decision."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autoscaler.codec import encode
from autoscaler.domain.cluster import Device, Phase
from autoscaler.domain.demand import Demand
from autoscaler.domain.params import Params
from autoscaler.domain.plan import Hold, Plan, Reason, Stage
from autoscaler.domain.reading import EngineReading, GatewayReading, Histogram, Unknown, UnknownReason
from autoscaler.domain.service import (
    Behavior,
    Bounds,
    DeviceRequest,
    IdlePolicy,
    PolicyType,
    RatePolicy,
    ScalingRules,
    SelectPolicy,
    ServiceId,
    Variant,
)
from autoscaler.domain.state import ControllerState
from predictors.capacity import StepTimeCapacity
from tests.policy.world import CHAT, Engine, PerVariant, World, models, service

TIMEOUT = Unknown(UnknownReason.TIMEOUT)
EMPTY = Histogram((1.0,), (0.0,), 0.0, 0.0)


def gateway(world: World, *, arrivals: float, waiting: float = 0.0, name: str = "chat") -> GatewayReading:
    return GatewayReading(
        service=name,
        at_s=world.now_s,
        started_s=1.0,
        arrivals=arrivals,
        finished=arrivals - waiting,
        failed=0.0,
        refused=0.0,
        waiting=waiting,
        in_flight=waiting,
        judged=arrivals - waiting,
        within_slo=arrivals - waiting,
        ttft=EMPTY,
        itl=EMPTY,
        e2e=EMPTY,
    )


def test_a_load_step_is_answered_in_the_tick_that_sees_it() -> None:
    world = World()
    world.start(2)
    world.ticks(6, 15)
    part = world.tick(55)
    assert (part.desired, part.binding) == (6, Reason.MEASURED_LOAD)


def test_at_short_intervals_a_step_shows_within_two_seconds_and_chance_does_not() -> None:
    world = World(params=Params(interval_s=1.0), models=models(rps=10.0))
    world.start(2)
    world.ticks(70, 15)
    assert [world.tick(rps).desired for rps in (13, 17, 14, 18, 12, 20)] == [2] * 6
    assert 5 <= max(world.tick(80).desired for _ in range(2)) <= 9


def test_starting_replicas_are_supply_so_growth_does_not_cascade() -> None:
    world = World(boot_s=120)
    world.start(1)
    world.ticks(6, 8)
    assert [world.tick(35).desired for _ in range(6)] == [4] * 6


def test_a_shrink_waits_for_the_down_window_and_goes_to_its_largest_need() -> None:
    world = World(models=models(foreseen=lambda _: 0.0))
    world.start(6)
    world.ticks(8, 55)
    desired = [world.tick(rps).desired for rps in (12, 12, 32, 12, 12, 12, 12, 12, 12)]
    # 55 req/s leaves the 60-s window after four ticks, then 32 req/s dominates until it leaves too
    assert desired == [6, 6, 6, 6, 4, 4, 4, 2, 2]


def test_replicas_go_when_even_the_higher_quantile_asks_for_less_and_then_to_the_middle() -> None:
    """Foreseen are 30 req/s (3 replicas), and at the higher quantile 59, later 49 (5 replicas)."""
    later_s = World().now_s + 300
    world = World(models=models(foreseen=lambda at_s: 30.0, kept=lambda at_s: 59.0 if at_s < later_s else 49.0))
    world.start(6)
    world.ticks(8, 45)
    desired = [world.tick(20).desired for _ in range(20)]
    assert desired == sorted(desired, reverse=True)
    assert set(desired) == {6, 4}


def test_a_window_of_the_users_own_is_shrunk_to_its_largest_need() -> None:
    rules = ScalingRules(stabilization_window_s=30.0)
    own = service(behavior=Behavior(scale_down=rules))
    world = World(models=models(foreseen=lambda _: 30.0, kept=lambda _: 49.0), services=(own,))
    world.start(6)
    world.ticks(8, 45)
    assert {world.tick(20).desired for _ in range(20)} == {5}


@pytest.mark.parametrize(
    ("boot_s", "ticks"),
    [
        pytest.param(30.0, 2, id="one interval at the least"),
        pytest.param(185.0, 4, id="a fifth of the lead time"),
        pytest.param(900.0, 5, id="a minute at the most"),
    ],
)
def test_a_shrink_waits_the_longer_the_longer_a_start_takes(boot_s: float, ticks: int) -> None:
    world = World(models=models(foreseen=lambda _: 0.0), boot_s=boot_s)
    world.start(4)
    world.ticks(80, 55)
    desired = [world.tick(12).desired for _ in range(8)]
    assert desired == [6] * (ticks - 1) + [2] * (9 - ticks)


def test_until_a_start_was_measured_a_shrink_waits_for_a_minute() -> None:
    world = World(models=models(foreseen=lambda _: 0.0), boot_s=30.0)
    world.start(6)
    world.ticks(80, 55)
    assert [world.tick(12).desired for _ in range(6)] == [6, 6, 6, 6, 2, 2]


def test_without_a_forecast_the_down_window_is_five_minutes() -> None:
    world = World()
    world.start(6)
    world.ticks(30, 55)
    desired = [world.tick(12).desired for _ in range(22)]
    assert desired.index(2) == 20


def test_a_fresh_controller_does_not_shrink_before_its_windows_are_full() -> None:
    world = World(models=models(foreseen=lambda _: 0.0))
    world.start(6)
    desired = [world.tick(12).desired for _ in range(8)]
    # the first tick only sets the baseline (its need is unknown: six), then come 60 s of measuring
    assert desired == [6, 6, 6, 6, 6, 2, 2, 2]


def test_a_restart_is_a_gap_and_the_window_fills_again() -> None:
    world = World(models=models(foreseen=lambda _: 0.0))
    world.start(6)
    world.ticks(10, 55)
    world.now_s += 600
    first = world.tick(12)
    assert isinstance(first.outcome, Hold)
    assert [world.tick(12).desired for _ in range(5)][:3] == [6, 6, 6]


@pytest.mark.parametrize("dark", [1, 4], ids=["one-of-four", "four-of-four"])
def test_dark_replicas_bar_a_shrink_and_say_so(dark: int) -> None:
    world = World(models=models(foreseen=lambda _: 0.0))
    world.start(4)
    world.ticks(10, 35)
    for name in world.ready()[:dark]:
        world.engines[name].fault = TIMEOUT
    parts = [world.tick(5) for _ in range(12)]
    assert {part.desired for part in parts} == {4}
    assert parts[-1].binding is (Reason.UNKNOWN_DEMAND if dark == 4 else Reason.PARTIAL_COVERAGE)
    for name in world.ready():
        world.engines[name].fault = None
    assert world.ticks(6, 5).desired == 1


def test_a_replica_dark_for_good_counts_as_loaded_and_lets_its_peers_shrink() -> None:
    world = World(models=models(foreseen=lambda _: 0.0))
    world.start(8)
    world.ticks(10, 78)
    world.engines[world.ready()[0]].fault = TIMEOUT
    world.ticks(4, 30)
    assert world.tick(30).desired == 8
    # observed 26.25 req/s plus the dark one's last known 9.75: four replicas, not the three of 30 req/s
    assert world.ticks(30, 30).desired == 4


def test_unknown_demand_is_a_hold_with_its_reason() -> None:
    world = World()
    world.start(3)
    world.ticks(6, 20)
    for name in world.ready():
        world.engines[name].fault = Unknown(UnknownReason.EMPTY_PAGE)
    part = world.tick(20)
    assert isinstance(part.outcome, Hold)
    assert part.outcome.reason is Reason.UNKNOWN_DEMAND
    assert "EmptyPage" in part.outcome.detail


def test_a_forecast_raises_ahead_of_the_load_and_never_lowers() -> None:
    world = World(models=models(foreseen=lambda at_s: 30.0))
    world.start(2)
    assert world.ticks(5, 25).desired == 3
    world.models = models(foreseen=lambda at_s: 0.0)
    assert world.tick(25).desired == 3


def test_a_forecast_is_capped_by_the_largest_need_of_the_week() -> None:
    world = World(models=models(foreseen=lambda at_s: 10_000.0))
    world.start(2)
    part = world.ticks(6, 15)
    assert part.desired == 3
    assert next(stage for stage in part.stages if stage.stage is Stage.SIZE).reason is Reason.SOFT_CAP


def test_a_backlog_asks_for_the_replicas_that_work_it_off() -> None:
    world = World()
    world.start(1)
    world.ticks(5, 5)
    world.engines[world.ready()[0]].waiting = 1200
    # 5 measured + 1200 that arrived at once in 15 s + 1200/60 to drain them
    assert world.tick(5).desired == 10
    assert world.tick(5).desired == 10


def test_a_stuck_replica_is_replaced_and_its_queue_does_not_run_the_fleet_away() -> None:
    world = World()
    world.start(2)
    world.ticks(6, 12)
    sick = world.ready()[0]
    for step in range(8):
        world.now_s += 15
        world.engines[sick].running = 4
        world.engines[sick].waiting = 400 + 100 * step
        world.engines[world.ready()[1]].serve(12 * 15)
        part = world.decide().services[0]
    assert isinstance(part.demand, Demand)
    assert part.demand.stuck == (sick,)
    world.engines[sick].waiting = 1200.0
    world.engines[sick].running = 4
    quiet = world.now_s
    while world.now_s < quiet + 75:
        world.now_s += 15
        for name in world.ready():
            if name != sick:
                world.engines[name].serve(12 * 15 / (len(world.ready()) - 1))
        part = world.decide().services[0]
        world.reconcile()
    assert next(stage for stage in part.stages if stage.stage is Stage.SIZE).replicas == 3


def test_a_restarted_engine_counts_from_its_zero() -> None:
    world = World(models=models(foreseen=lambda _: 0.0))
    world.start(2)
    world.ticks(6, 15)
    for name in world.ready():
        world.engines[name] = Engine(started_s=world.now_s + 5)
    part = world.tick(15)
    assert part.desired == 2
    assert isinstance(part.demand, Demand)
    assert part.demand.short_rps == pytest.approx(15)


def test_a_counter_that_runs_back_without_a_restart_is_no_load() -> None:
    world = World(models=models(foreseen=lambda _: 0.0))
    world.start(2)
    for name in world.ready():
        world.engines[name].serve(500_000)
    world.ticks(6, 15)
    for name in world.ready():
        world.engines[name] = replace(world.engines[name], completed=400_000, first_tokens=400_000, tokens=1)
    part = world.tick(15)
    assert isinstance(part.outcome, Hold)
    assert "Reset" in part.outcome.detail
    assert {world.tick(15).desired for _ in range(4)} == {2}


def test_a_silent_gateway_s_arrivals_are_not_all_of_one_tick() -> None:
    world = World(params=Params(interval_s=1.0), models=models(foreseen=lambda _: 0.0))
    world.start(2)
    total = 0.0
    for second in range(160):
        total += 15
        silent = 90 <= second < 130
        reading = replace(gateway(world, arrivals=total), at_s=world.now_s + 1)
        world.gateways["chat"] = Unknown(UnknownReason.UNREACHABLE) if silent else reading
        part = world.tick(15)
        assert part.desired == 2
        assert isinstance(part.demand, Demand)
        if not silent and isinstance(part.demand.short_rps, float) and second > 20:
            assert part.demand.short_rps < 18


def test_one_impossible_length_on_a_page_harms_nothing() -> None:
    world = World()
    world.start(4)
    world.ticks(6, 35)
    for _ in range(3):
        world.now_s += 15
        world.offer(35 * 15)
        observations = world.observations()
        sick = world.ready()[0]
        reading = observations.engines[sick]
        assert isinstance(reading, EngineReading)
        assert isinstance(reading.prompt_length, Histogram)
        observations.engines[sick] = replace(reading, prompt_length=replace(reading.prompt_length, total=1e300))
        part = world.decide(observations).services[0]
    assert part.desired == 4
    assert isinstance(part.outcome, Plan)
    assert encode(world.state)


def test_a_clock_that_was_ahead_in_an_earlier_run_costs_one_window() -> None:
    world = World(models=models(foreseen=lambda _: 0.0))
    world.start(2)
    world.ticks(10, 15)
    world.now_s -= 3600
    for engine in world.engines.values():
        engine.started_s -= 7200
    assert world.tick(15).desired == 2
    assert world.tick(95).desired == 10


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


def test_a_foreign_owner_is_reported_and_never_fought() -> None:
    world = World()
    world.start(2)
    world.ticks(5, 15)
    world.owner = "keda-operator"
    part = world.tick(90)
    assert part.outcome == Hold(reason=Reason.FOREIGN_OWNER, detail="keda-operator also writes the replica count")
    assert part.desired == 2


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        pytest.param(ScalingRules(policies=(RatePolicy(type=PolicyType.PODS, value=2, period_s=60),)), 4, id="pods"),
        pytest.param(
            ScalingRules(policies=(RatePolicy(type=PolicyType.PERCENT, value=50, period_s=60),)), 3, id="percent"
        ),
        pytest.param(
            ScalingRules(
                policies=(
                    RatePolicy(type=PolicyType.PODS, value=4, period_s=60),
                    RatePolicy(type=PolicyType.PERCENT, value=50, period_s=60),
                ),
                select_policy=SelectPolicy.MIN,
            ),
            3,
            id="min-of-two",
        ),
        pytest.param(ScalingRules(select_policy=SelectPolicy.DISABLED), 2, id="disabled"),
        pytest.param(ScalingRules(stabilization_window_s=60), 2, id="stabilized"),
        pytest.param(ScalingRules(tolerance=3.0), 2, id="within-tolerance"),
        pytest.param(ScalingRules(), 8, id="no-limit"),
    ],
)
def test_scale_up_rules_speak_hpa(rules: ScalingRules, expected: int) -> None:
    world = World(services=(service(behavior=Behavior(scale_up=rules)),))
    world.start(2)
    world.ticks(6, 15)
    assert world.tick(75).desired == expected


def test_rate_policies_allow_the_next_step_after_their_period() -> None:
    rules = ScalingRules(policies=(RatePolicy(type=PolicyType.PODS, value=2, period_s=30),))
    world = World(services=(service(behavior=Behavior(scale_up=rules)),))
    world.start(2)
    world.ticks(6, 15)
    assert [world.tick(95).desired for _ in range(6)] == [4, 4, 6, 6, 8, 8]


def test_failed_replicas_are_replaced_while_others_serve() -> None:
    world = World()
    world.start(3)
    world.ticks(6, 25)
    broken = world.ready()[0]
    world.replicas[broken] = replace(world.replicas[broken], phase=Phase.FAILED)
    assert world.tick(25).desired == 4


def test_a_crash_loop_of_all_replicas_does_not_grow() -> None:
    world = World()
    world.start(3)
    world.ticks(6, 25)
    for name in world.ready():
        world.replicas[name] = replace(world.replicas[name], phase=Phase.FAILED)
    assert world.ticks(4).desired == 3


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


def test_the_headroom_follows_the_share_in_slo() -> None:
    def run(late_share: float) -> float:
        world = World(models=models(foreseen=lambda _: 0.0))
        world.start(3)
        for _ in range(60):
            world.now_s += 15
            world.offer(300, late=300 * late_share)
            world.decide()
        return world.state.services[CHAT].theta

    assert run(0.0) < run(0.01) < run(0.2)


def test_measured_starts_replace_the_assumed_start_up_time() -> None:
    world = World(services=(service(startup_s=500),), boot_s=45)
    world.start(1)
    assert world.ticks(5, 5).lead_s == 515
    world.ticks(6, 25)
    assert world.tick(25).lead_s == pytest.approx(60)


def test_plan_names_every_variant_it_decided() -> None:
    world = World()
    world.start(1)
    part = world.ticks(5, 5)
    assert isinstance(part.outcome, Plan)
    assert [stage.stage for stage in part.stages] == list(Stage)
