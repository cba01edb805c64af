"""The shipped controller over each model of a replica: what it learns there is learned from their pages alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from adapters.simulation.batch_fleet import BatchServer
from adapters.simulation.fluid_fleet import FluidModel
from adapters.simulation.requests import Requests
from adapters.simulation.step_times import EngineShape, StepTimes
from autoscaler.domain.service import Bounds, Slo
from loadtests.simulation.ours import SHIPPED, Ours
from loadtests.simulation.run import simulate
from loadtests.simulation.setup import BatchServing, EngineServing, FluidServing, Setup
from loadtests.workloads.workload import SecondCounts
from tests.simulation.world.runs import KINDS, asked, counts, misses, setup

# vLLM with Llama 3.1 8B on an L40S, about.
TIMES = StepTimes.of_seconds(c_s=0.022, d_s=3.5e-5, e_s=1.9e-7, a_s=7.7e-5)
SHAPE = EngineShape(kv_tokens=186_000, chunk_tokens=2048, max_num_seqs=256)


def requests(rates: np.ndarray[tuple[int], np.dtype[np.float64]], *, prompt: int, output: int) -> Requests:
    random = np.random.default_rng(5)
    arrivals = random.poisson(rates)
    at_s = np.sort(np.repeat(np.arange(len(rates)), arrivals) + random.random(arrivals.sum()))
    return Requests(
        at_s=at_s,
        prompt_tokens=random.integers(prompt // 2, prompt * 2, len(at_s)),
        output_tokens=random.integers(output // 2, output * 2, len(at_s)),
        cached_tokens=np.zeros(len(at_s), dtype=np.int64),
        duration_s=float(len(rates)),
    )


def engines() -> Setup:
    rates = np.where(np.arange(3600) < 1800, 6.0, 18.0)
    return Setup(
        serving=EngineServing(requests=requests(rates, prompt=800, output=200), times=TIMES, shape=SHAPE),
        slo=Slo(ttft_s=2.0, itl_s=0.05),
        bounds=Bounds(min_replicas=1, max_replicas=20),
        kinds=KINDS,
        initial=3,
    )


PROFILED = Ours(
    text="services: [{name: chat, slo: {ttft: 2s, itl: 50ms}, command: 'serve --port {port}', "
    "stepTime: {profile: l40s/Meta-Llama-3.1-8B/tp1}}]"
)


@pytest.mark.parametrize(
    "decider", [pytest.param(PROFILED, id="with a profile"), pytest.param(SHIPPED, id="everything learned")]
)
def test_engines(decider: Ours) -> None:
    result = simulate(engines(), decider, seed=1)
    assert asked(result, 2100.0, 3600.0)[-1] > asked(result, 1500.0, 1800.0)[0]
    assert misses(result, 2400.0, 3600.0) < 0.02 * 18 * 1200
    assert result.share_in_slo > 0.9
    assert 0.02 < result.score.itl_s[0] < 0.05
    assert 0.0 < result.score.ttft_s[0] < 1.0


def test_engine_runs_repeat_to_the_bit() -> None:
    first, second = (simulate(engines(), PROFILED, seed=4) for _ in range(2))
    assert (first.score, first.gpu_hours, first.changes) == (second.score, second.gpu_hours, second.changes)
    assert first.timeline.desired.tolist() == second.timeline.desired.tolist()


def test_batch_servers() -> None:
    rates = np.where(np.arange(3600) < 1800, 60.0, 200.0)
    server = BatchServer(base_s=0.04, per_request_s=0.01, max_batch=8)  # 67 requests/s at the most
    batches = replace(
        engines(),
        serving=BatchServing(requests=requests(rates, prompt=2, output=2), server=server),
        slo=Slo(e2e_s=1.0),
    )
    result = simulate(batches, SHIPPED, seed=1)
    assert asked(result, 3600.0, 3600.0)[0] > asked(result, 1500.0, 1800.0)[0]
    assert misses(result, 2700.0, 3600.0) < 0.02 * 200 * 900


def test_to_zero_and_back_behind_a_gateway() -> None:
    """An idle service is stopped, its first request is held until a replica is there, and nothing is lost."""
    rates = np.full(5400, 20.0)
    rates[600:3600] = 0.0
    idle = replace(
        setup(counts(rates), initial=3),
        bounds=Bounds(min_replicas=0, max_replicas=10),
        gateway=True,
        serving=FluidServing(arrivals=counts(rates), model=FluidModel(capacity_rps=10.0, held_limit=5000)),
    )
    result = simulate(idle, SHIPPED, seed=1)
    line = result.timeline
    assert line.desired[(line.at_s > 1500) & (line.at_s < 3600)].tolist()[-1] == 0
    assert line.ready[-1] >= 2
    assert misses(result, 0.0, 3600.0) == 0
    assert misses(result, 3600.0, 3900.0) > 0  # those that waited for the start
    assert misses(result, 4200.0, 5400.0) < 0.01 * 20 * 1200
    assert result.gpu_hours < 4.0  # three replicas all the time would be 4.5


def test_a_second_without_a_request() -> None:
    nothing = SecondCounts(arrivals=np.zeros(1200, dtype=np.int64), prompt_tokens=1.0, output_tokens=1.0)
    result = simulate(setup(nothing), SHIPPED, seed=1)
    assert (result.score.requests, result.share_in_slo) == (0.0, 1.0)
    assert asked(result, 1200.0, 1200.0) == [1]
