"""What a replica's page counts, against the step-by-step engine."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import asdict

import numpy as np
import pytest

from adapters.simulation.batch_fleet import BatchFleet, BatchServer
from adapters.simulation.engine_fleet import EngineFleet
from adapters.simulation.requests import Requests
from adapters.simulation.serving import BucketCounts
from adapters.simulation.step_times import PICOSECONDS, picoseconds
from autoscaler.domain.service import Slo
from tests.simulation.engine.step_by_step import Engine, Job, jobs_of
from tests.simulation.engine.workloads import CASES, random_requests


def _assert_counts(counted: BucketCounts | None, values: list[float]) -> None:
    assert counted is not None
    buckets = np.zeros(len(counted.bounds) + 1, dtype=int)
    for value in values:
        buckets[bisect_left(counted.bounds, value)] += 1
    np.testing.assert_array_equal(counted.counts, np.cumsum(buckets)[:-1])
    assert counted.count == len(values)
    # Each observation is added in whole nanoseconds.
    assert counted.total == pytest.approx(sum(values), abs=1e-9 * len(values))


@pytest.mark.parametrize("name", CASES)
def test_page_counts_what_the_engine_has_done_so_far(name: str) -> None:
    """At stops on the way and after all: gauges, live counters, and histograms of what is observed when."""
    case, rng = CASES[name], np.random.default_rng(2)
    requests = random_requests(rng, case, replicas=1, size=200, load=1.1)
    fleet = EngineFleet(requests, times=case.times, shape=case.shape, slo=Slo(e2e_s=1.0))
    fleet.open(fleet.add())
    engine, jobs = Engine(case.times, case.shape), jobs_of(requests)
    routed = 0
    for stop_s in (*np.linspace(0, requests.duration_s, 12).tolist(), 1e4):
        stop = picoseconds(stop_s)
        fleet.advance(stop_s)
        while routed < len(jobs) and jobs[routed].arrived <= stop:
            _run(engine, before=jobs[routed].arrived)
            engine.arrive(jobs[routed], jobs[routed].arrived)
            routed += 1
        _run(engine, before=stop + 1)
        page, seen = fleet.page(0), jobs[:routed]
        assert page.waiting == len(engine.queue)
        assert page.running == len(engine.decoding) + len(engine.completing) + (engine.partial is not None)
        assert page.kv_used_tokens == engine.used()
        assert page.generation_tokens == engine.tokens
        assert page.preemptions == sum(job.preemptions for job in seen)
        assert page.arrived == routed
        begun = [job for job in seen if job.first is not None]
        assert (page.first_tokens, page.prompt_tokens) == (len(begun), sum(job.prompt for job in begun))
        done = [job for job in seen if job.finish is not None]
        assert page.completed == len(done)
        assert fleet.in_flight(0) == routed - len(done)
        _assert_counts(page.ttft, [((job.first or 0) - job.arrived) / PICOSECONDS for job in begun])
        _assert_counts(page.itl, [gap / PICOSECONDS for job in seen for gap in job.gaps])
        _assert_counts(page.e2e, [((job.finish or 0) - job.arrived) / PICOSECONDS for job in done])
        _assert_counts(page.queue_time, [((job.scheduled or 0) - job.arrived) / PICOSECONDS for job in done])
        _assert_counts(page.request_itl, [_mean_gap(job) / PICOSECONDS for job in done])
        _assert_counts(page.prompt_length, [job.prompt for job in done])
        _assert_counts(page.output_length, [job.output for job in done])
    assert page.completed == len(jobs)


def _mean_gap(job: Job) -> int:
    assert job.first is not None
    assert job.finish is not None
    return (job.finish - job.first) // (job.output - 1) if job.output > 1 else 0


def _run(engine: Engine, *, before: int) -> None:
    while engine.boundary is not None and engine.boundary < before:
        engine.at_boundary()


def test_page_of_a_batch_server() -> None:
    """Three at once: one batch of two, begun at once, and one of one when its delay is over."""
    requests = Requests(
        at_s=np.array([1.0, 1.0, 1.0]),
        prompt_tokens=np.array([1, 1, 1]),
        output_tokens=np.array([1, 1, 1]),
        cached_tokens=np.array([0, 0, 0]),
        duration_s=10.0,
    )
    server = BatchServer(base_s=0.1, per_request_s=0.05, max_batch=2, max_delay_s=0.5)
    fleet = BatchFleet(requests, server=server, slo=Slo(e2e_s=0.3))
    fleet.open(fleet.add())
    fleet.advance(1.1)
    assert (fleet.page(0).waiting, fleet.page(0).running, fleet.page(0).exec_count) == (1, 2, 0)
    fleet.advance(10.0)
    assert fleet.outcomes().e2e_s.tolist() == pytest.approx([0.2, 0.2, 0.5 + 0.15])
    page = fleet.page(0)
    assert (page.exec_count, page.exec_items, page.completed) == (2, 3, 3)
    assert page.exec_sum_s == pytest.approx(2 * 0.2 + 0.15)
    assert page.queue_time is not None
    assert page.queue_time.total == pytest.approx(0.5)
    assert page.ttft is None
    assert fleet.gateway().within_slo == 2


def test_batch_server_refuses_an_slo_on_tokens() -> None:
    requests = Requests(
        at_s=np.array([1.0]),
        prompt_tokens=np.array([1]),
        output_tokens=np.array([1]),
        cached_tokens=np.array([0]),
        duration_s=10.0,
    )
    server = BatchServer(base_s=0.1, per_request_s=0.05, max_batch=2)
    with pytest.raises(ValueError, match="no tokens"):
        BatchFleet(requests, server=server, slo=Slo(ttft_s=1.0))


def test_pages_are_the_same_however_often_time_stops() -> None:
    """Also where more happens in one go than is held back before it is counted."""
    case, rng = CASES["small-cache"], np.random.default_rng(9)
    requests = random_requests(rng, case, replicas=2, size=3000, load=0.9)
    ends_s = requests.duration_s + 1e4
    fleets = []
    for stops in (1, 150):
        fleet = EngineFleet(requests, times=case.times, shape=case.shape, slo=Slo(ttft_s=0.5, itl_s=0.05, e2e_s=2.0))
        for _ in range(2):
            fleet.open(fleet.add())
        for stop_s in np.linspace(0, ends_s, stops + 1)[1:].tolist():
            fleet.advance(stop_s)
        fleets.append(fleet)
    at_once, often = fleets
    assert at_once.gateway().judged == 3000
    pages = [(each.gateway(), each.page(0), each.page(1)) for each in fleets]
    for one, other in zip(*pages, strict=True):
        np.testing.assert_equal(asdict(one), asdict(other))
    np.testing.assert_equal(asdict(at_once.outcomes()), asdict(often.outcomes()))
