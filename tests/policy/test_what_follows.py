"""What the controller does about a replica in each state; docs/signals.md has the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from autoscaler.domain.demand import Demand
from autoscaler.domain.judgement import Judgement
from autoscaler.domain.plan import ServiceDecision
from autoscaler.domain.reading import EngineReading, Observations, Unknown, UnknownReason
from tests.policy.world import World, models

Change = Callable[[EngineReading], EngineReading | Unknown]
RPS = 15.0  # two replicas' worth
CPU_S = 7.5


def grown() -> World:
    world = World(models=models(foreseen=lambda _: 0.0))
    world.start(2)
    world.ticks(10, RPS)
    return world


def tick(world: World, change: Change, *, rps: float) -> ServiceDecision:
    """One interval on, with the page of the first replica changed."""
    first = world.ready()[0]
    world.now_s += world.params.interval_s
    world.offer(rps * world.params.interval_s)
    observed = world.observations()
    reading = observed.engines[first]
    assert isinstance(reading, EngineReading)
    world.reconcile()
    engines = {**observed.engines, first: change(reading)}
    decision = world.decide(Observations(at_s=world.now_s, engines=engines, gateways={}))
    world.reconcile()
    return decision.services[0]


def states(part: ServiceDecision) -> list[Judgement]:
    assert isinstance(part.demand, Demand)
    return [each.judgement for each in part.demand.judgements]


@pytest.mark.parametrize(
    ("change", "state"),
    [
        pytest.param(lambda _: Unknown(UnknownReason.TIMEOUT, "3 s"), Judgement.UNREADABLE, id="Unreadable"),
        pytest.param(
            lambda page: replace(page, at_s=page.at_s - 50), Judgement.STALE, id="Stale: an old page again and again"
        ),
        pytest.param(
            lambda page: replace(page, arrivals_stock=Unknown(UnknownReason.CONTRADICTION, "never counted")),
            Judgement.CONTRADICTING,
            id="Contradicting",
        ),
        pytest.param(
            lambda page: replace(page, arrivals_stock=Unknown(UnknownReason.MISSING_SERIES, "no pending gauge")),
            Judgement.INCOMPLETE,
            id="Incomplete",
        ),
    ],
)
def test_one_that_can_not_be_counted_bars_a_shrink_and_counts_as_loaded(change: Change, state: Judgement) -> None:
    world = grown()
    for _ in range(10):
        part = tick(world, change, rps=2.0)
        assert part.desired == 2
    assert states(part) == [state]
    while part.desired == 2:  # as soon as it is counted again
        part = tick(world, lambda page: page, rps=2.0)
    assert (part.desired, states(part)) == (1, [])


def test_a_page_that_is_the_same_to_the_last_digit_is_stale() -> None:
    world = grown()
    for _ in range(14):
        part = tick(world, lambda page: replace(page, heartbeat=CPU_S), rps=RPS)
    assert states(part) == [Judgement.STALE]
    assert part.desired == 2


def test_a_reset_costs_its_replica_one_count() -> None:
    world = grown()
    back = replace_all(world)
    part = tick(world, back, rps=RPS)
    assert states(part) == [Judgement.RESET]
    assert isinstance(part.demand, Demand)
    assert part.demand.short_rps == pytest.approx(RPS / 2)
    assert part.desired == 2
    part = tick(world, back, rps=RPS)
    assert (states(part), part.desired) == ([], 2)


def replace_all(world: World) -> Change:
    """All counters of a page run back to what came since now, in the same process."""
    at = {name: world.engines[name].completed for name in world.ready()}

    def change(page: EngineReading) -> EngineReading:
        engine = world.engines[page.replica]
        kept = replace(
            engine, completed=engine.completed - at[page.replica], first_tokens=engine.completed - at[page.replica]
        )
        kept.tokens = 100 * kept.completed
        reading = kept.reading(page.replica, page.at_s)
        assert isinstance(reading, EngineReading)
        return reading

    return change


def standing_still() -> Change:
    """The first page's counters for ever, with four requests that never end."""
    first: list[EngineReading] = []

    def change(page: EngineReading) -> EngineReading:
        first.append(page)
        return replace(first[0], at_s=page.at_s, running=4.0)

    return change


@pytest.mark.parametrize(
    ("change", "rps", "state"),
    [
        pytest.param(lambda page: replace(page, asleep=True), RPS, Judgement.ASLEEP, id="Asleep"),
        # What comes to the stuck one shows nowhere: half of it is seen.
        pytest.param(standing_still(), 2 * RPS, Judgement.STUCK, id="Stuck"),
    ],
)
def test_one_that_is_no_capacity_is_replaced(change: Change, rps: float, state: Judgement) -> None:
    world = grown()
    for _ in range(8):
        part = tick(world, change, rps=rps)
    assert states(part)[0] is state
    assert part.desired == 3


def test_an_overloaded_one_that_fails_its_probe_is_read_and_its_queue_counts() -> None:
    world = grown()
    first = world.ready()[0]
    world.replicas[first] = replace(world.replicas[first], failing_probe="readiness: 503")
    part = tick(world, lambda page: replace(page, waiting=600.0, running=8.0), rps=RPS)
    assert states(part) == [Judgement.OVERLOADED]
    assert isinstance(part.demand, Demand)
    assert part.demand.backlog == 600
    assert part.desired > 2


def test_nothing_wrong_is_not_told() -> None:
    world = grown()
    assert states(tick(world, lambda page: page, rps=RPS)) == []


def test_one_that_is_seen_for_the_first_time_warms_up_and_nothing_shrinks() -> None:
    world = World(models=models(foreseen=lambda _: 0.0))
    world.start(2)
    part = world.tick(RPS)
    assert states(part) == [Judgement.WARMING_UP, Judgement.WARMING_UP]
    assert part.desired == 2
