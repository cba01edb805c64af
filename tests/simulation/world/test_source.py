"""What can be seen of a simulated cluster is as old and as patchy as its scrapes."""

from __future__ import annotations

import pytest

from adapters.simulation.clock import Order
from adapters.simulation.source import Scraping, SimulatedSource
from autoscaler.domain.reading import EngineReading, Unknown, UnknownReason
from tests.simulation.world.worlds import CHAT, SmallWorld, small_world

NAME = "chat-default-1"


def source(world: SmallWorld, scraping: Scraping, *, gateway: bool = False) -> SimulatedSource:
    gateways = (CHAT,) if gateway else ()
    return SimulatedSource(clock=world.clock, cluster=world.cluster, scraping=scraping, seed=3, gateways=gateways)


def test_pages_that_are_fetched_are_of_now() -> None:
    world = small_world(ready=1)
    metrics = source(world, Scraping())
    world.at(30.0)
    seen = metrics.read(world.cluster.snapshot())
    reading = seen.engines[NAME]
    assert isinstance(reading, EngineReading)
    assert reading.at_s == world.clock.now_s()
    assert reading.arrivals_stock == pytest.approx(300.0)
    assert seen.gateways == {}


@pytest.mark.parametrize(
    ("now_s", "age_s"),
    [
        pytest.param(7.0, 2.0, id="after the first scrape"),
        pytest.param(34.9, 29.9, id="a scrape that is not readable yet"),
        pytest.param(22.0, 17.0, id="as the next is made"),
        pytest.param(50.0, 15.0, id="later"),
    ],
)
def test_collected_pages_have_phase_and_lag(now_s: float, age_s: float) -> None:
    """Scrapes at 5, 35, 65 ... s, to be read 1.5 s (or, the second one, not before 36.5 s) later."""
    world = small_world(ready=1)
    metrics = source(world, Scraping(interval_s=30.0, phase_s=5.0, lag_s=1.5))
    world.at(now_s)
    reading = metrics.read(world.cluster.snapshot()).engines[NAME]
    assert isinstance(reading, EngineReading)
    assert world.clock.now_s() - reading.at_s == pytest.approx(age_s)
    assert reading.arrivals_stock == pytest.approx(10 * (now_s - age_s), abs=10)


def ages_s(world: SmallWorld, metrics: SimulatedSource) -> list[float]:
    seen = metrics.read(world.cluster.snapshot())
    readings = [*seen.engines.values(), *seen.gateways.values()]
    return [world.clock.now_s() - each.at_s for each in readings if not isinstance(each, Unknown)]


@pytest.mark.parametrize("looks_s", [pytest.param(600.0, id="with the ticks"), pytest.param(607.3, id="between them")])
def test_a_collectors_targets_are_spread_over_its_interval(looks_s: float) -> None:
    """At any time, pages are of all ages up to an interval, about half of one on average."""
    world = small_world(ready=100)
    metrics = source(world, Scraping(interval_s=16.0), gateway=True)
    world.at(looks_s)
    ages = ages_s(world, metrics)
    assert len(ages) == 101
    assert 0 <= min(ages) < 2
    assert 14 < max(ages) < 16
    assert sum(ages) / len(ages) == pytest.approx(8.0, abs=1.5)
    assert max(ages.count(age) for age in ages) < 20


def test_a_target_keeps_its_phase_and_another_seed_gives_others() -> None:
    found = []
    for seed in (3, 3, 4):
        world = small_world(ready=20)
        metrics = SimulatedSource(
            clock=world.clock, cluster=world.cluster, scraping=Scraping(interval_s=30.0), seed=seed
        )
        ages = []
        for at_s in (100.0, 400.0):
            world.at(at_s)
            ages.append(ages_s(world, metrics))
        assert ages[0] == pytest.approx(ages[1])
        found.append(ages[0])
    assert found[0] == found[1] != found[2]


def test_nothing_is_known_before_the_first_scrape() -> None:
    world = small_world(ready=1)
    metrics = source(world, Scraping(interval_s=30.0, phase_s=5.0, lag_s=1.0), gateway=True)
    world.at(5.5)
    seen = metrics.read(world.cluster.snapshot())
    for answer in (seen.engines[NAME], seen.gateways[CHAT]):
        assert isinstance(answer, Unknown)
        assert answer.reason is UnknownReason.MISSING_SERIES


def test_some_scrapes_fail() -> None:
    world = small_world(ready=8)
    metrics = source(world, Scraping(missing=0.25))
    lost = 0
    for turn in range(100):
        world.at(15.0 * turn)
        lost += sum(isinstance(each, Unknown) for each in metrics.read(world.cluster.snapshot()).engines.values())
    assert lost / 800 == pytest.approx(0.25, abs=0.05)


def test_a_new_engine_tells_that_it_started() -> None:
    world = small_world(ready=1)
    metrics = source(world, Scraping())
    world.at(100.0)
    before = metrics.read(world.cluster.snapshot()).engines[NAME]
    world.cluster.crash(NAME)
    assert metrics.read(world.cluster.snapshot()).engines == {}
    world.at(200.0)
    after = metrics.read(world.cluster.snapshot()).engines[NAME]
    assert isinstance(before, EngineReading)
    assert isinstance(after, EngineReading)
    assert isinstance(before.started_s, float)
    assert isinstance(after.started_s, float)
    assert after.started_s > before.started_s
    assert isinstance(after.completed, float)
    assert isinstance(before.completed, float)
    assert after.completed < before.completed


def test_a_scrape_sees_what_was_there_when_it_was_made() -> None:
    """Order of one moment: the world moves, then scrapes are made, then runs note themselves."""
    world = small_world(ready=1)
    metrics = source(world, Scraping(interval_s=10.0, phase_s=0.0))
    world.clock.after(20.0, lambda: world.cluster.crash(NAME), Order.WORLD)
    world.at(20.0)
    assert metrics.read(world.cluster.snapshot()).engines == {}


def test_a_gateway_counts_on_without_replicas() -> None:
    world = small_world()
    metrics = source(world, Scraping(), gateway=True)
    world.at(30.0)
    reading = metrics.read(world.cluster.snapshot()).gateways[CHAT]
    assert not isinstance(reading, Unknown)
    assert (reading.arrivals, reading.waiting, reading.in_flight) == (300, 300, 300)


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        pytest.param({"interval_s": 0.0}, "interval_s", id="no interval"),
        pytest.param({"lag_s": 5.0}, "lag_s", id="lag without an interval"),
        pytest.param({"interval_s": 15.0, "phase_s": -1.0}, "phase_s", id="negative phase"),
        pytest.param({"phase_s": 0.0}, "phase_s", id="phase without an interval"),
        pytest.param({"missing": 1.0}, "missing", id="nothing ever comes"),
    ],
)
def test_impossible_scraping_is_refused(keys: dict[str, float], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        Scraping(**keys)
