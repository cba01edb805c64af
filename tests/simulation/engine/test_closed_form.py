"""The engines against a closed form of their mean time between tokens."""

from __future__ import annotations

import numpy as np
import pytest

from adapters.simulation.engine_fleet import EngineFleet
from adapters.simulation.requests import Requests
from adapters.simulation.step_times import PICOSECONDS, EngineShape
from autoscaler.domain.service import Slo
from tests.simulation.engine.workloads import CASES, random_lengths


@pytest.mark.parametrize("name", ["l40s", "h100"])
@pytest.mark.parametrize("threshold", [1.5, 2.0, 3.0], ids=lambda factor: f"itl-of-{factor}-idle-steps")
def test_mean_gap_between_tokens_is_that_of_the_fluid_limit(name: str, threshold: float) -> None:
    """In the limit of many requests a step lasts S where the rate is (1 - c/S)/w, w being a request's own work. A fleet
    of 10 behind a router that takes the least busy comes within 3 % of it.
    """
    times, replicas, size = CASES[name].times, 10, 60_000
    rng = np.random.default_rng(6)
    prompts = random_lengths(rng, mean=1155, cv=0.96, size=size, largest=8000)
    outputs = random_lengths(rng, mean=211, cv=0.77, size=size, largest=4000)
    work = times.a * prompts + times.d * outputs + times.e * outputs * (prompts + outputs / 2)
    rate_rps = replicas * (1 - 1 / threshold) / (float(work.mean()) / PICOSECONDS)
    at_s = np.cumsum(rng.exponential(1 / rate_rps, size))
    requests = Requests(
        at_s=at_s,
        prompt_tokens=prompts,
        output_tokens=outputs,
        cached_tokens=np.zeros(size, dtype=np.int64),
        duration_s=float(at_s[-1]),
    )
    shape = EngineShape(kv_tokens=2_000_000, chunk_tokens=8192, max_num_seqs=1024)
    fleet = EngineFleet(requests, times=times, shape=shape, slo=Slo(itl_s=0.05))
    for _ in range(replicas):
        fleet.open(fleet.add())
    fleet.advance(requests.duration_s / 4)  # the fleet fills up
    before = [fleet.page(replica).itl for replica in range(replicas)]
    fleet.advance(requests.duration_s)
    after = [fleet.page(replica).itl for replica in range(replicas)]
    gaps = sum(itl.count for itl in after if itl) - sum(itl.count for itl in before if itl)
    total_s = sum(itl.total for itl in after if itl) - sum(itl.total for itl in before if itl)
    assert total_s / gaps == pytest.approx(threshold * times.c / PICOSECONDS, rel=0.03)
