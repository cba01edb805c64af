"""The rate of a batch server in time, against a batcher that is stepped through request by request."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from autoscaler.domain.service import Slo
from predictors.batch_time import BatchTime, missed, rate_in_time

REQUESTS = 60_000


def waits(time: BatchTime, rps: float, *, largest: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Queue time and whole time of each request, of one instance that takes what waits as soon as it is free."""
    arrivals = np.cumsum(np.random.default_rng(seed).exponential(1 / rps, REQUESTS))
    queue, whole = np.empty(REQUESTS), np.empty(REQUESTS)
    free_s, first = 0.0, 0
    while first < REQUESTS:
        start_s = max(free_s, float(arrivals[first]))
        last = min(int(np.searchsorted(arrivals, start_s, side="right")), first + largest)
        free_s = start_s + time.alpha_s + time.beta_s * (last - first)
        queue[first:last] = start_s - arrivals[first:last]
        whole[first:last] = free_s - arrivals[first:last]
        first = last
    return queue, whole


def true_rate(time: BatchTime, slo: Slo, *, largest: int, among: Sequence[float]) -> float:
    """The largest of some rates at which the wanted share is in time."""
    held = 0.0
    for rps in among:
        queue, whole = waits(time, rps, largest=largest)
        late = np.zeros(REQUESTS, dtype=bool)
        if slo.queue_s is not None:
            late |= queue > slo.queue_s
        if slo.e2e_s is not None:
            late |= whole > slo.e2e_s
        if late.mean() > 1 - slo.share:
            break
        held = rps
    return held


@pytest.mark.parametrize(
    ("time", "slo", "largest"),
    [
        pytest.param(BatchTime(alpha_s=0.05, beta_s=0.0), Slo(queue_s=0.06), 8, id="batches cost the same"),
        pytest.param(BatchTime(alpha_s=0.02, beta_s=0.005), Slo(queue_s=0.05), 16, id="half and half"),
        pytest.param(BatchTime(alpha_s=0.005, beta_s=0.01), Slo(queue_s=0.1), 8, id="batching hardly pays"),
        pytest.param(BatchTime(alpha_s=0.03, beta_s=0.002), Slo(e2e_s=0.15, share=0.95), 32, id="whole time"),
        pytest.param(BatchTime(alpha_s=0.01, beta_s=0.001), Slo(queue_s=0.5), 64, id="throughput binds"),
        pytest.param(BatchTime(alpha_s=0.1, beta_s=0.02), Slo(queue_s=0.08, share=0.9), 8, id="mostly idle"),
    ],
)
def test_the_rate_is_that_of_a_real_batcher(time: BatchTime, slo: Slo, largest: int) -> None:
    promised = rate_in_time(time, slo, largest=largest)
    assert promised is not None
    true = true_rate(time, slo, largest=largest, among=[promised * step for step in np.arange(0.8, 1.25, 0.03)])
    assert 0.92 <= promised / true <= 1.08


def test_an_slo_that_one_request_alone_breaks_has_no_rate() -> None:
    assert rate_in_time(BatchTime(alpha_s=0.2, beta_s=0.01), Slo(e2e_s=0.1), largest=8) is None


def test_more_instances_serve_more() -> None:
    time, slo = BatchTime(alpha_s=0.02, beta_s=0.005), Slo(queue_s=0.05)
    one = rate_in_time(time, slo, largest=16)
    two = rate_in_time(time, slo, largest=16, instances=2)
    assert one is not None
    assert two == pytest.approx(2 * one)


def test_a_batcher_that_waits_for_company_has_less_time_left() -> None:
    time, slo = BatchTime(alpha_s=0.02, beta_s=0.005), Slo(queue_s=0.05)
    assert missed(time, slo, 100.0, largest=16, delay_s=0.02) > missed(time, slo, 100.0, largest=16)
    assert rate_in_time(time, slo, largest=16, delay_s=0.06) is None
