"""The compiled fleets and the step-by-step ones give the same times, to the picosecond."""

from __future__ import annotations

import numpy as np
import pytest

from adapters.simulation.batch_fleet import BatchFleet, BatchServer
from adapters.simulation.engine_fleet import EngineFleet
from adapters.simulation.requests import Requests
from adapters.simulation.serving import Outcome, Outcomes, Router, ServingFleet
from adapters.simulation.step_times import PICOSECONDS, picoseconds
from autoscaler.domain.service import Slo
from tests.simulation.engine.step_by_step import Batcher, Engine, Job, jobs_of, serve
from tests.simulation.engine.workloads import CASES, GRID, GRID_S, EngineCase, moved_to, random_requests

SLO = Slo(e2e_s=10.0)
LONG_S = 1e5


def _served(fleet: ServingFleet, requests: Requests, *, replicas: int, stops_s: list[float]) -> Outcomes:
    for _ in range(replicas):
        fleet.open(fleet.add())
    for stop_s in stops_s:
        fleet.advance(stop_s)
    fleet.advance(requests.duration_s + LONG_S)
    return fleet.outcomes()


def _seconds(times: list[int | None]) -> list[float]:
    return [float("nan") if time is None else time / PICOSECONDS for time in times]


def _assert_same(outcomes: Outcomes, jobs: list[Job]) -> None:
    assert (outcomes.code == Outcome.FINISHED).all()
    finishes = _seconds([job.finish for job in jobs])
    np.testing.assert_array_equal(outcomes.finish_s, finishes)
    waits = _seconds([None if job.scheduled is None else job.scheduled - job.arrived for job in jobs])
    np.testing.assert_array_equal(outcomes.queue_s, waits)
    first_tokens = _seconds([None if job.first is None else job.first - job.arrived for job in jobs])
    np.testing.assert_array_equal(outcomes.ttft_s, first_tokens)
    np.testing.assert_array_equal(outcomes.preemptions, [job.preemptions for job in jobs])


def _engines_agree(
    case: EngineCase, requests: Requests, router: Router, *, replicas: int, stops_s: list[float]
) -> list[Job]:
    fleet = EngineFleet(requests, times=case.times, shape=case.shape, slo=SLO, router=router)
    outcomes = _served(fleet, requests, replicas=replicas, stops_s=stops_s)
    engines = [Engine(case.times, case.shape) for _ in range(replicas)]
    jobs = jobs_of(requests)
    serve(jobs, engines, router)
    _assert_same(outcomes, jobs)
    for replica, engine in enumerate(engines):
        page = fleet.page(replica)
        assert (page.steps, page.generation_tokens) == (engine.steps, engine.tokens)
        assert engine.most_used <= case.shape.kv_tokens
    return jobs


@pytest.mark.parametrize("router", list(Router), ids=lambda router: router.name.lower())
@pytest.mark.parametrize("name", CASES)
def test_engines_agree_on_random_workloads(name: str, router: Router) -> None:
    """130 workloads a case, 1,040 in all. Stops on the way (a controller's ticks) change nothing."""
    rng = np.random.default_rng([list(CASES).index(name), router])
    preemptions = 0
    for _ in range(130):
        replicas = int(rng.integers(1, 6))
        requests = random_requests(
            rng, CASES[name], replicas=replicas, size=int(rng.integers(100, 300)), load=rng.uniform(0.2, 1.3)
        )
        stops_s = sorted(rng.uniform(0, requests.duration_s, rng.integers(0, 20)).tolist())
        jobs = _engines_agree(CASES[name], requests, router, replicas=replicas, stops_s=stops_s)
        preemptions += sum(job.preemptions for job in jobs)
    assert preemptions > 100


@pytest.mark.parametrize("router", list(Router), ids=lambda router: router.name.lower())
def test_engines_agree_where_arrivals_fall_on_boundaries(router: Router) -> None:
    rng = np.random.default_rng([11, router])
    for _ in range(60):
        replicas = int(rng.integers(1, 4))
        requests = random_requests(rng, GRID, replicas=replicas, size=150, load=rng.uniform(0.3, 1.2))
        requests = moved_to(requests, np.rint(requests.at_s / GRID_S) * GRID_S)
        stops_s = (np.sort(rng.integers(0, int(requests.duration_s / GRID_S), 5)) * GRID_S).tolist()
        _engines_agree(GRID, requests, router, replicas=replicas, stops_s=stops_s)


@pytest.mark.parametrize("name", CASES)
def test_engines_agree_with_prefix_hits(name: str) -> None:
    rng = np.random.default_rng([7, list(CASES).index(name)])
    for _ in range(25):
        replicas = int(rng.integers(1, 4))
        requests = random_requests(
            rng, CASES[name], replicas=replicas, size=120, load=rng.uniform(0.4, 1.3), cached_share=0.6
        )
        _engines_agree(CASES[name], requests, Router.LEAST_IN_FLIGHT, replicas=replicas, stops_s=[])


def test_engines_agree_with_more_replicas_than_a_block_of_the_kernel() -> None:
    rng = np.random.default_rng(5)
    requests = random_requests(rng, CASES["tight"], replicas=70, size=3000, load=1.2)
    for router in Router:
        _engines_agree(CASES["tight"], requests, router, replicas=70, stops_s=[])


@pytest.mark.parametrize("router", list(Router), ids=lambda router: router.name.lower())
def test_batch_servers_agree_on_random_workloads(router: Router) -> None:
    rng = np.random.default_rng([3, router])
    for _ in range(200):
        replicas = int(rng.integers(1, 5))
        server = BatchServer(
            base_s=rng.uniform(0.001, 0.02),
            per_request_s=rng.uniform(0.0002, 0.005),
            max_batch=int(rng.integers(1, 17)),
            max_delay_s=float(rng.choice([0.0, 0.0005, 0.01, 0.1])),
        )
        rate_rps = replicas * server.max_batch / (server.base_s + server.per_request_s * server.max_batch)
        requests = random_requests(rng, CASES["tight"], replicas=replicas, size=300, load=1.0)
        mean_gap_s = 1 / (rate_rps * rng.uniform(0.2, 1.3))
        requests = moved_to(requests, requests.at_s * (len(requests) * mean_gap_s / requests.at_s[-1]))
        fleet = BatchFleet(requests, server=server, slo=SLO, router=router)
        stops_s = sorted(rng.uniform(0, requests.duration_s, rng.integers(0, 20)).tolist())
        outcomes = _served(fleet, requests, replicas=replicas, stops_s=stops_s)
        batchers = [
            Batcher(
                base=picoseconds(server.base_s),
                per_request=picoseconds(server.per_request_s),
                max_batch=server.max_batch,
                max_delay=picoseconds(server.max_delay_s),
            )
            for _ in range(replicas)
        ]
        jobs = jobs_of(requests)
        serve(jobs, batchers, router)
        _assert_same(outcomes, jobs)
