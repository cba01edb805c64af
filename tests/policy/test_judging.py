"""Which requests are judged against the SLO, and by what."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autoscaler.domain.demand import Demand
from autoscaler.domain.reading import EngineReading, Histogram, MaybeHistogram, Observations, Unknown, UnknownReason
from autoscaler.domain.service import Slo
from tests.policy.world import World, service

ABSENT = Unknown(UnknownReason.NOT_EXPORTED)


def demand_of(world: World, slo: Slo, **latencies: MaybeHistogram) -> Demand:
    """A tick in which each replica's engine finished as many requests as it counts, with these latencies alone."""
    world.now_s += world.params.interval_s
    world.offer(100)
    engines: dict[str, EngineReading | Unknown] = {}
    for name, reading in world.observations().engines.items():
        assert isinstance(reading, EngineReading)
        plain = replace(reading, ttft=ABSENT, itl=ABSENT, e2e=ABSENT, queue_time=ABSENT)
        engines[name] = replace(plain, **latencies)  # type: ignore[arg-type]
    world.reconcile()
    demand = world.decide(Observations(at_s=world.now_s, engines=engines, gateways={})).services[0].demand
    assert isinstance(demand, Demand)
    return demand


def latencies(count: float, within: float) -> Histogram:
    """So many, of which so many took at most a second."""
    return Histogram((1.0, 10.0), (within, count), count, count)


@pytest.mark.parametrize("name", ["e2e", "queue"])
def test_an_engine_without_first_tokens_is_judged_by_what_finished(name: str) -> None:
    slo = Slo(e2e_s=1.0) if name == "e2e" else Slo(queue_s=1.0)
    world = World(services=(service(slo=slo),))
    world.start(1)
    field = "e2e" if name == "e2e" else "queue_time"
    demand_of(world, slo, **{field: latencies(0, 0)})
    demand = demand_of(world, slo, **{field: latencies(100, 90)})
    assert demand.arrived == 100
    assert demand.missed == pytest.approx(10)


def test_requests_of_which_no_threshold_is_seen_are_not_judged() -> None:
    slo = Slo(queue_s=1.0)
    world = World(services=(service(slo=slo),))
    world.start(1)
    demand_of(world, slo)
    demand = demand_of(world, slo)
    assert demand.arrived == 0
    assert isinstance(demand.attained, Unknown)


def test_a_sum_without_buckets_judges_nothing() -> None:
    slo = Slo(queue_s=1.0)
    world = World(services=(service(slo=slo),))
    world.start(1)
    demand_of(world, slo, queue_time=Histogram((), (), 0.0, 0.0))
    assert demand_of(world, slo, queue_time=Histogram((), (), 100.0, 500.0)).arrived == 0
