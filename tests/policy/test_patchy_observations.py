"""Step by step: pages that lack, lie, stand still or begin anew, and what is decided."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autoscaler.codec import encode
from autoscaler.domain.demand import Demand, Forecast
from autoscaler.domain.params import Params
from autoscaler.domain.plan import Hold, Plan, Reason, Stage
from autoscaler.domain.reading import EngineReading, Histogram, Unknown, UnknownReason
from predictors.mixture import LevelMixture
from tests.policy.world import Engine, World, gateway, models

TIMEOUT = Unknown(UnknownReason.TIMEOUT)


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


def test_a_counter_that_leaps_beyond_reason_harms_its_own_page_alone() -> None:
    world = World(models=replace(models(), forecaster=LevelMixture()))
    world.start(4)
    before = world.ticks(10, 35).desired
    world.engines[world.ready()[0]].completed += 1e12
    parts = [world.tick(35) for _ in range(10)]
    assert {part.desired for part in parts} == {before}
    assert Reason.SERVICE_ERROR not in {part.binding for part in parts}
    assert isinstance(parts[0].demand, Demand)
    assert len(parts[0].demand.unobserved) == 1
    assert isinstance(parts[-1].demand, Demand)
    assert parts[-1].demand.unobserved == ()


@pytest.mark.parametrize("behind_s", [pytest.param(5.0, id="seconds"), pytest.param(100.0, id="more than a tick")])
def test_a_successor_whose_clock_is_a_little_behind_forgets_nothing_of_the_forecast(behind_s: float) -> None:
    world = World(models=replace(models(), forecaster=LevelMixture()))
    world.start(4)
    before = world.ticks(80, 30).forecast
    world.now_s -= behind_s + world.params.interval_s
    part = world.tick(30)
    assert isinstance(before, Forecast)
    assert isinstance(part.forecast, Forecast)
    assert part.forecast.rps == pytest.approx(before.rps, rel=0.1)
    following = [world.tick(30) for _ in range(40)]
    assert all(isinstance(each.forecast, Forecast) for each in following)
    assert {each.desired for each in following} == {part.desired}
