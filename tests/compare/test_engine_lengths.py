"""What engines bear is measured with the lengths of the whole workload, and of each stretch of it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from adapters.simulation.step_times import EngineShape, StepTimes
from autoscaler.domain.service import Slo
from loadtests.bounds.slo import MissCurve
from loadtests.compare.engines import MissCurves, measured
from loadtests.lengths import lognormal_lengths
from loadtests.rates import steps
from loadtests.workloads.rate_series import RateSeries, of_profile

TIMES = StepTimes.of_seconds(c_s=6.387e-3, d_s=10.5e-6, e_s=41.4016e-9, a_s=23.7005e-6)
SHAPE = EngineShape(kv_tokens=400_000)
SLO = Slo(ttft_s=2.0, itl_s=0.03)


def _two_hours(*, output_means: tuple[float, float]) -> RateSeries:
    """Two hours at one rate."""
    flat = of_profile(
        steps((20.0, 7200.0)),
        name="two hours",
        prompts=lognormal_lengths(mean=500, cv=0.8),
        outputs=lognormal_lengths(mean=100, cv=0.8),
        cv=1.0,
    )
    return dataclasses.replace(
        flat,
        edges_s=np.array([0.0, 3600.0, 7200.0]),
        rps=np.array([20.0, 20.0]),
        prompt_means=np.ones(2),
        output_means=np.array(output_means),
        minute_noise=np.zeros(2),
    )


def test_lengths_that_come_later_count() -> None:
    same = measured(_two_hours(output_means=(1.0, 1.0)), times=TIMES, shape=SHAPE, slo=SLO)
    longer = measured(_two_hours(output_means=(1.0, 4.0)), times=TIMES, shape=SHAPE, slo=SLO)
    assert longer.capacity_rps < 0.8 * same.capacity_rps
    # The second hour needs about as many times more replicas as its requests are more work.
    assert 1.5 < longer.peak_replicas / same.peak_replicas < 5.0


def test_a_load_is_judged_by_the_lengths_of_its_time() -> None:
    found = measured(_two_hours(output_means=(1.0, 4.0)), times=TIMES, shape=SHAPE, slo=SLO)
    first, _ = found.curve.stretches
    load = first.loads_rps[np.flatnonzero(first.shares <= 1 - SLO.share)[-1]]
    missed = found.curve.missed(np.full((120, 1), load))
    assert (missed[:60] <= 1 - SLO.share).all()
    assert (missed[60:] > 0.5).all()
    late = dataclasses.replace(found.curve, begin_s=3600.0)
    np.testing.assert_array_equal(late.missed(np.full((60, 1), load)), missed[60:])


@pytest.mark.parametrize("count", [1, 3])
def test_equal_stretches_are_as_one(count: int) -> None:
    one = MissCurve(np.array([1.0, 2.0, 3.0]), np.array([0.0, 0.1, 0.8]))
    together = MissCurves(one.loads_rps, one.shares, (one,) * count, 3600.0 * count)
    loads = np.random.default_rng(1).uniform(0, 4, (60 * count, 7))
    np.testing.assert_array_equal(together.missed(loads), one.missed(loads))
