"""At zero replicas: a request that is held wakes the controller at once, as the live gateway does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from adapters.simulation.faults import Fault, FaultKind
from adapters.simulation.requests import Requests
from adapters.simulation.step_times import EngineShape, StepTimes
from autoscaler.domain.plan import ServiceDecision
from autoscaler.domain.service import Bounds
from loadtests.simulation.ours import SHIPPED, Told, control
from loadtests.simulation.result import RunResult, result_of
from loadtests.simulation.setup import SERVICE, EngineServing, Setup
from loadtests.simulation.world import World
from loadtests.workloads.workload import SecondCounts
from tests.simulation.world.runs import setup

BOOT_S = 60.0
FIRST_S = 607  # 10 minutes and 7 s of nothing; ticks are at multiples of 15 s


def at_zero(*, gateway: bool, faults: tuple[Fault, ...] = ()) -> Setup:
    """Nothing, then 5 requests/s for ten minutes, then nothing."""
    seconds = np.arange(3600)
    busy = (seconds >= FIRST_S) & (seconds < FIRST_S + 600)
    arrivals = SecondCounts(arrivals=np.where(busy, 5, 0), prompt_tokens=500.0, output_tokens=100.0)
    few = Bounds(min_replicas=0, max_replicas=30)
    return replace(setup(arrivals, *faults, initial=0), bounds=few, gateway=gateway)


def of_engines() -> Setup:
    """A request at 607.3 s and another ten minutes after it was answered."""
    at_s = np.array([607.3, 607.4, 2407.3])
    requests = Requests(
        at_s=at_s,
        prompt_tokens=np.full(3, 500),
        output_tokens=np.full(3, 50),
        cached_tokens=np.zeros(3, dtype=np.int64),
        duration_s=3600.0,
    )
    times = StepTimes.of_seconds(c_s=0.022, d_s=3.5e-5, e_s=1.9e-7, a_s=7.7e-5)
    serving = EngineServing(requests=requests, times=times, shape=EngineShape(kv_tokens=186_000))
    return replace(at_zero(gateway=True), serving=serving)


def decided(world_setup: Setup) -> tuple[list[tuple[float, int]], RunResult]:
    """When it was decided how many replicas are wanted, and the accounts."""
    told: list[ServiceDecision] = []
    world = World({SERVICE: world_setup}, seed=1)
    outcome = Told(listener=told.append)
    control(world, SHIPPED, told=outcome)
    world.finish()
    assert not outcome.errors
    decisions = [(each.at_s - world.clock.begin_s, each.desired) for each in told]
    return decisions, result_of(world, world.parts[0], decider="ours", seed=1)


def woken_s(decisions: list[tuple[float, int]], *, after_s: float = 0.0) -> float:
    return next(at_s for at_s, replicas in decisions if at_s >= after_s and replicas > 0)


def test_the_first_request_wakes_it_between_two_ticks() -> None:
    decisions, result = decided(at_zero(gateway=True))
    assert all(replicas == 0 for at_s, replicas in decisions if at_s < FIRST_S)
    # A fluid fleet's requests come at the end of their second.
    assert woken_s(decisions) == pytest.approx(FIRST_S + 1, abs=0.01)
    # The rhythm goes on from there, and nobody is woken by those who follow.
    following = [at_s for at_s, _ in decisions if at_s > FIRST_S + 2]
    assert np.diff(following)[:20] == pytest.approx(np.full(20, 15.0))
    # Missed is what came in the time of one start, and the queue of then; held and served late is a miss.
    line = result.timeline
    assert line.missed[line.at_s <= FIRST_S].sum() == 0
    assert 5 * (BOOT_S - 2) <= result.score.missed <= 5 * (BOOT_S + 60)


def test_without_a_gateway_nobody_holds_a_request_and_nobody_wakes_it() -> None:
    """What comes to no replica is counted by none: a service that is to wake needs a gateway."""
    decisions, _ = decided(at_zero(gateway=False))
    assert all(at_s % 15.0 == 0 for at_s, _ in decisions)


def test_each_time_that_requests_begin_to_be_held() -> None:
    """Single requests: the second comes to a service that has gone to zero again."""
    decisions, result = decided(of_engines())
    assert woken_s(decisions) == pytest.approx(607.3, abs=0.01)
    assert any(replicas == 0 for at_s, replicas in decisions if 700 < at_s < 2407)
    assert woken_s(decisions, after_s=2400.0) == pytest.approx(2407.3, abs=0.01)
    assert result.score.requests == 3
    assert [round(at_s, 1) for at_s, _ in decisions if 600 < at_s < 630] == [607.3, 622.3]


def test_a_ring_between_two_leaders_is_not_lost_and_ends_nothing_early() -> None:
    gap = Fault(kind=FaultKind.LEADER_CHANGE, from_s=595.0, until_s=700.0)
    decisions, result = decided(at_zero(gateway=True, faults=(gap,)))
    assert not [at_s for at_s, _ in decisions if 596.0 < at_s < 700.0]
    assert woken_s(decisions) == pytest.approx(700.0, abs=0.01)
    assert result.timeline.at_s[-1] == 3600.0
