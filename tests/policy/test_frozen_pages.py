"""A page that is served again and again is no sign of idleness, once it is clear that it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from autoscaler.domain.demand import Demand
from autoscaler.domain.plan import Reason
from autoscaler.domain.reading import EngineReading, Observations, Unknown
from tests.policy.world import World

CPU_S = 12.35
DOZEN = 12


def ticked(world: World, heartbeat: Callable[[str], float | None], *, rps: float = 0.0) -> Demand:
    """One interval on, each page with that CPU time of its process."""
    world.now_s += world.params.interval_s
    if rps:
        world.offer(rps * world.params.interval_s)
    engines: dict[str, EngineReading | Unknown] = {}
    for name, reading in world.observations().engines.items():
        assert isinstance(reading, EngineReading)
        beat = heartbeat(name)
        engines[name] = reading if beat is None else replace(reading, heartbeat=beat)
    world.reconcile()
    decision = world.decide(Observations(at_s=world.now_s, engines=engines, gateways={}))
    demand = decision.services[0].demand
    assert isinstance(demand, Demand)
    return demand


def grown(world: World) -> World:
    world.start(2)
    for _ in range(6):
        ticked(world, lambda name: world.now_s, rps=15.0)
    return world


def test_a_page_that_stands_still_is_unknown_after_a_dozen_looks_and_bars_a_shrink() -> None:
    world = grown(World())
    frozen = world.ready()[0]
    beats = [
        ticked(world, lambda name: CPU_S if name == frozen else world.now_s, rps=15.0).unobserved
        for _ in range(DOZEN + 2)
    ]
    assert all(unobserved == () for unobserved in beats[:DOZEN])
    assert "same to the last digit for 180 s" in beats[DOZEN][0]
    part = ticked(world, lambda name: CPU_S if name == frozen else world.now_s)
    assert len(part.unobserved) == 1
    assert world.targets[world.services[0].id, "default"] == 2


def test_it_is_known_again_as_soon_as_it_moves() -> None:
    world = grown(World())
    for _ in range(DOZEN + 3):
        last = ticked(world, lambda name: CPU_S, rps=15.0)
    assert len(last.unobserved) == 2
    ticked(world, lambda name: world.now_s, rps=15.0)
    assert ticked(world, lambda name: world.now_s, rps=15.0).unobserved == ()


def test_an_idle_engine_whose_process_lives_is_idle() -> None:
    world = grown(World())
    for _ in range(3 * DOZEN):
        # An idle process moves by a hundredth of a second now and then.
        idle = ticked(world, lambda name: CPU_S + 0.01 * ((world.now_s // world.params.interval_s) // 5))
    assert idle.unobserved == ()
    assert world.targets[world.services[0].id, "default"] == 1


def test_a_page_without_a_heartbeat_is_taken_as_it_is() -> None:
    world = grown(World())
    for _ in range(3 * DOZEN):
        idle = ticked(world, lambda name: None)
    assert idle.unobserved == ()


def test_its_reason_is_told() -> None:
    world = grown(World())
    for _ in range(DOZEN + 3):
        ticked(world, lambda name: CPU_S, rps=15.0)
    world.now_s += world.params.interval_s
    engines: dict[str, EngineReading | Unknown] = {
        name: replace(reading, heartbeat=CPU_S)
        for name, reading in world.observations().engines.items()
        if isinstance(reading, EngineReading)
    }
    part = world.decide(Observations(at_s=world.now_s, engines=engines, gateways={})).services[0]
    assert Reason.UNKNOWN_DEMAND in {stage.reason for stage in part.stages}
    assert any("same to the last digit" in stage.detail for stage in part.stages)


def test_with_requests_on_it_a_page_that_stands_still_is_unknown_at_once() -> None:
    """A process that works uses some time; nothing is given up meanwhile, and it is known again as soon as it moves."""
    world = grown(World())
    for name in world.ready():
        world.engines[name].running = 3.0
    ticked(world, lambda name: world.now_s, rps=15.0)
    stood_s = world.now_s
    for _ in range(DOZEN - 2):
        still = ticked(world, lambda name: stood_s)
        assert len(still.unobserved) == 2
        assert "nothing on the page has moved" in still.unobserved[0]
    assert world.targets[world.services[0].id, "default"] == 2
    ticked(world, lambda name: world.now_s, rps=15.0)
    assert ticked(world, lambda name: world.now_s, rps=15.0).unobserved == ()


def test_with_requests_on_it_and_a_process_that_lives_it_is_counted() -> None:
    """A long prefill, or an engine that hangs behind a server that does not: no old page."""
    world = grown(World())
    for name in world.ready():
        world.engines[name].running = 3.0
    ticked(world, lambda name: world.now_s, rps=15.0)
    assert ticked(world, lambda name: world.now_s).unobserved == ()


def test_with_requests_on_it_and_arrivals_it_is_counted() -> None:
    """Others count what their process did not: the queue grew, so the page is a new one."""
    world = grown(World())
    ticked(world, lambda name: CPU_S, rps=15.0)
    for name in world.ready():
        world.engines[name].waiting = 5.0
    assert ticked(world, lambda name: CPU_S).unobserved == ()
