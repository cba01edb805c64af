"""The promises, over random sequences of loads, gaps, faults, restarts and configurations."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autoscaler.codec import decode, encode
from autoscaler.domain.cluster import Device, Phase
from autoscaler.domain.demand import Demand
from autoscaler.domain.params import Params
from autoscaler.domain.plan import Decision, Hold, Plan, Reason
from autoscaler.domain.reading import EngineReading, Unknown, UnknownReason, is_known
from autoscaler.domain.service import (
    Behavior,
    Bounds,
    DeviceRequest,
    IdlePolicy,
    PolicyType,
    RatePolicy,
    ScalingRules,
    SelectPolicy,
    Service,
    ServiceId,
    Variant,
)
from autoscaler.domain.state import ControllerState, Tick
from autoscaler.policy.deciding import decide
from tests.policy.world import World, models, service

PATIENT = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])

rules = st.builds(
    ScalingRules,
    stabilization_window_s=st.sampled_from([None, 0.0, 30.0, 90.0]),
    select_policy=st.sampled_from(list(SelectPolicy)),
    policies=st.lists(
        st.builds(
            RatePolicy,
            type=st.sampled_from(list(PolicyType)),
            value=st.integers(1, 100),
            period_s=st.sampled_from([15.0, 60.0]),
        ),
        max_size=2,
    ).map(tuple),
    tolerance=st.sampled_from([0.0, 0.1]),
)
variants = st.sampled_from(
    [
        (Variant(name="default"),),
        (Variant(name="default", devices=DeviceRequest(kind="gpu", count=1)),),
        (Variant(name="default", devices=DeviceRequest(kind="gpu", count=2)),),
    ]
)
bounds = st.tuples(st.integers(0, 3), st.integers(0, 8), st.integers(0, 2)).map(
    lambda drawn: Bounds(min_replicas=drawn[0], max_replicas=drawn[0] + drawn[1], spare=drawn[2])
)


def services(name: str) -> st.SearchStrategy[Service]:
    return st.builds(
        lambda bounds, up, down, variants, priority: service(
            name,
            bounds=bounds,
            behavior=Behavior(scale_up=up, scale_down=down),
            variants=variants,
            priority=priority,
            idle=IdlePolicy(after_s=60.0, min_uptime_factor=1.0),
            startup_s=30.0,
        ),
        bounds,
        rules,
        rules,
        variants,
        st.integers(0, 1),
    )


@dataclass(frozen=True)
class Step:
    """One tick: what is offered, what is broken, how much time passes."""

    rps: float
    dark: frozenset[int]
    reason: UnknownReason
    waiting: float
    restarted: frozenset[int]
    failed: frozenset[int]
    pause_s: float
    foreseen: float | None
    reborn: bool


steps = st.builds(
    Step,
    rps=st.sampled_from([0.0, 0.5, 5.0, 30.0, 80.0]),
    dark=st.frozensets(st.integers(0, 3), max_size=4),
    reason=st.sampled_from([UnknownReason.TIMEOUT, UnknownReason.EMPTY_PAGE, UnknownReason.HTTP_ERROR]),
    waiting=st.sampled_from([0.0, 0.0, 3.0, 400.0]),
    restarted=st.frozensets(st.integers(0, 3), max_size=1),
    failed=st.frozensets(st.integers(0, 3), max_size=1),
    pause_s=st.sampled_from([15.0, 15.0, 15.0, 2.0, 200.0]),
    foreseen=st.sampled_from([None, 0.0, 20.0, 1e6]),
    reborn=st.sampled_from([False] * 9 + [True]),
)
sequences = st.lists(steps, min_size=1, max_size=18)


def worlds(names: tuple[str, ...] = ("chat",)) -> st.SearchStrategy[World]:
    def build(chosen: tuple[Service, ...], count: int, devices: int) -> World:
        world = World(
            services=chosen, devices=tuple(Device(id=str(index)) for index in range(devices)), params=Params(turn_s=60)
        )
        for each in chosen:
            wanted = min(count, each.bounds.max_replicas)
            request = each.variants[0].devices
            fitting = wanted if request is None else min(wanted, devices // (request.count * len(chosen)))
            world.start(max(fitting, 0), name=each.id)
        return world

    return st.builds(build, st.tuples(*(services(name) for name in names)), st.integers(0, 6), st.integers(0, 8))


def apply(world: World, step: Step) -> None:
    """Let the step happen to the world, up to the moment before the decision."""
    world.now_s += step.pause_s
    if step.reborn:
        world.state = ControllerState(services={})
    world.models = models(foreseen=lambda _: step.foreseen)
    for each in world.services:
        ready = world.ready(each.id)
        for index, name in enumerate(ready):
            engine = world.engines[name]
            if index in step.restarted:
                engine = world.engines[name] = replace(
                    engine, started_s=world.now_s - 1, completed=0, first_tokens=0, tokens=0, late=0
                )
            engine.fault = Unknown(step.reason) if index in step.dark else None
            engine.waiting = step.waiting
            engine.serve(step.rps * step.pause_s / len(ready))
            if index in step.failed:
                world.replicas[name] = replace(world.replicas[name], phase=Phase.FAILED)
            elif world.replicas[name].phase is Phase.FAILED:
                world.replicas[name] = replace(world.replicas[name], phase=Phase.READY)
    world.reconcile()


def asked(world: World, name: ServiceId) -> int:
    return sum(count for (owner, _), count in world.targets.items() if owner == name)


@PATIENT
@given(worlds(), sequences)
def test_unknown_never_lowers_a_target(world: World, sequence: list[Step]) -> None:
    chat = world.services[0]
    for step in sequence:
        apply(world, step)
        before = asked(world, chat.id)
        part = world.decide().services[0]
        assert isinstance(part.demand, Demand)
        if not is_known(part.demand.short_rps) or part.demand.coverage < 1:
            assert part.desired >= min(before, chat.bounds.max_replicas)


@PATIENT
@given(worlds(), sequences)
def test_losing_every_page_in_a_tick_never_shrinks(world: World, sequence: list[Step]) -> None:
    chat = world.services[0]
    for step in sequence:
        apply(world, step)
        before = asked(world, chat.id)
        blind = deepcopy(world)
        for engine in blind.engines.values():
            engine.fault = Unknown(UnknownReason.TIMEOUT)
        assert blind.decide().services[0].desired >= min(before, chat.bounds.max_replicas)
        world.decide()


@PATIENT
@given(worlds(), sequences, st.floats(0, 1e9))
def test_a_forecast_never_lowers(world: World, sequence: list[Step], foreseen: float) -> None:
    for step in sequence:
        apply(world, step)
        with_it, without = deepcopy(world), deepcopy(world)
        with_it.models = models(foreseen=lambda _: foreseen)
        without.models = models(foreseen=lambda _: 0.0)
        assert with_it.decide().services[0].desired >= without.decide().services[0].desired
        world.decide()


@PATIENT
@given(worlds(), sequences)
def test_a_fresh_controller_never_lowers_before_its_window_is_full(world: World, sequence: list[Step]) -> None:
    chat = world.services[0]
    world.state = ControllerState(services={})
    began_s = world.now_s
    for step in sequence:
        apply(world, replace(step, reborn=False))
        before = asked(world, chat.id)
        part = world.decide().services[0]
        if world.now_s - began_s < world.params.stable_window_s:
            assert part.desired >= min(before, chat.bounds.max_replicas)


@PATIENT
@given(worlds(("a", "b")), sequences)
def test_hard_limits_hold_and_infeasible_is_a_hold(world: World, sequence: list[Step]) -> None:
    for step in sequence:
        apply(world, step)
        before = {each.id: asked(world, each.id) for each in world.services}
        decision = world.decide()
        used = 0
        for each, part in zip(world.services, decision.services, strict=True):
            assert part.desired <= each.bounds.max_replicas
            request = each.variants[0].devices
            used += 0 if request is None else request.count * part.desired
            if request is None:
                assert part.desired >= each.bounds.min_replicas
            elif request.count > len(world.devices):
                assert isinstance(part.outcome, Hold) or part.outcome == Plan(targets=part.current)
                assert part.desired == before[each.id]
        assert used <= len(world.devices)


@PATIENT
@given(worlds(("a", "b")), sequences)
def test_a_recorded_decision_replays_to_the_same_bytes(world: World, sequence: list[Step]) -> None:
    for step in sequence:
        apply(world, step)
        state = decode(ControllerState, encode(world.state))
        snapshot, observations = world.snapshot(), world.observations()
        chosen, params, estimators = world.services, world.params, world.models
        decision = world.decide()
        tick = Tick(now_s=world.now_s, snapshot=snapshot, observations=observations, decision=decision)
        recorded = decode(Tick, encode(tick))
        again, next_state = decide(
            now_s=recorded.now_s,
            state=state,
            services=chosen,
            snapshot=recorded.snapshot,
            observations=recorded.observations,
            models=estimators,
            params=params,
        )
        assert encode(again) == encode(decision)
        assert encode(next_state) == encode(world.state)
        assert decode(Decision, encode(decision)) == decision


@PATIENT
@given(worlds(), sequences)
def test_a_target_with_another_owner_is_never_written(world: World, sequence: list[Step]) -> None:
    world.owner = "argocd-application-controller"
    for step in sequence:
        apply(world, step)
        part = world.decide().services[0]
        assert isinstance(part.outcome, Hold)
        assert part.outcome.reason is Reason.FOREIGN_OWNER


hostile = st.sampled_from([float("nan"), float("inf"), float("-inf"), -1.0, 1e300, 0.0])


@PATIENT
@given(
    st.tuples(services("a"), services("b")),
    sequences,
    st.tuples(hostile, hostile, hostile),
)
def test_a_service_with_nonsense_readings_holds_only_itself(
    pair: tuple[Service, Service], sequence: list[Step], nonsense: tuple[float, float, float]
) -> None:
    free = tuple(replace(each, variants=(Variant(name="default"),)) for each in pair)
    broken, alone = World(services=free), World(services=free[1:])
    for world in (broken, alone):
        for each in world.services:
            world.start(min(2, each.bounds.max_replicas), name=each.id)
    for step in sequence:
        apply(broken, step)
        apply(alone, step)
        observations = broken.observations()
        for name, reading in observations.engines.items():
            if name.startswith("a-") and isinstance(reading, EngineReading):
                observations.engines[name] = replace(
                    reading, waiting=nonsense[0], arrivals_stock=nonsense[1], prompt_tokens=nonsense[2]
                )
        decision, broken.state = decide(
            now_s=broken.now_s,
            state=broken.state,
            services=broken.services,
            snapshot=broken.snapshot(),
            observations=observations,
            models=broken.models,
            params=broken.params,
        )
        for part in decision.services:
            broken.targets.update({(part.service, target.variant): target.replicas for target in part.targets()})
        healthy = decision.of(ServiceId("b"))
        reference = alone.decide().of(ServiceId("b"))
        assert healthy is not None
        assert reference is not None
        assert (healthy.outcome, healthy.desired) == (reference.outcome, reference.desired)
