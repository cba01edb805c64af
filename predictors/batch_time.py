"""A batch server's execution time over its batch size, alpha + beta x batch, and the rate that it serves in time.

A dynamic batcher executes what waits as soon as an instance is free, at most ``largest`` requests at a time. The number
waiting at the starts of executions is a Markov chain: what was too many for the last batch, and what arrived while that
executed (a bulk queue: Bailey, On queueing processes with bulk service, 1954; Neuts, A general class of bulk queues
with Poisson input, 1967). Its stationary distribution is solved for, and each request's wait read off it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, pdtrc

from autoscaler.domain.service import Slo

Array = NDArray[np.float64]

_MOST_USED = 0.95  # of the throughput of full batches; beyond it the queue's length is anybody's guess
_STATES_PER_BATCH = 4
_LEAST_STATES = 64
_LARGEST_SOLVED = 64  # larger batches are scaled down to it: the chain's shape hardly changes any more
_PARTS = 12  # of an execution, at which requests arrive
_STEPS = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTime:
    """Seconds of one execution: ``alpha_s + beta_s * batch``; both >= 0, not both 0."""

    alpha_s: float
    beta_s: float

    def __post_init__(self) -> None:
        terms = (self.alpha_s, self.beta_s)
        if any(not math.isfinite(term) or term < 0 for term in terms) or not any(terms):
            raise ValueError(f"batch-time terms must be finite, >= 0 and not both 0, got {terms}")

    def of(self, batch: float) -> float:
        """Seconds for a batch."""
        return self.alpha_s + self.beta_s * batch


@lru_cache(maxsize=4096)
def rate_in_time(time: BatchTime, slo: Slo, *, largest: int, instances: int = 1, delay_s: float = 0.0) -> float | None:
    """Requests per second of one replica with ``slo.share`` of them in time; None where not even one alone is.

    ``largest``: batch size that is not exceeded. ``instances``: of the model, each taking its share of the requests
    (that they share one queue is left out, which is the safe side). ``delay_s``: what the batcher waits for company.
    """
    most_rps = _MOST_USED * largest / time.of(largest)
    allowed = 1.0 - slo.share
    if missed(time, slo, 1e-3 * most_rps, largest=largest, delay_s=delay_s) > allowed:
        return None
    if missed(time, slo, most_rps, largest=largest, delay_s=delay_s) <= allowed:
        return instances * most_rps
    low, high = 1e-3 * most_rps, most_rps
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if missed(time, slo, middle, largest=largest, delay_s=delay_s) <= allowed:
            low = middle
        else:
            high = middle
    return instances * low


def missed(time: BatchTime, slo: Slo, rps: float, *, largest: int, delay_s: float = 0.0) -> float:
    """Share of the requests that are late at ``rps`` on one instance, by the threshold that most of them break."""
    if largest > _LARGEST_SOLVED:
        scale = largest / _LARGEST_SOLVED
        time = BatchTime(alpha_s=time.alpha_s, beta_s=time.beta_s * scale)
        rps, largest = rps / scale, _LARGEST_SOLVED
    arrivals = _Arrivals.of(time, rps, largest)
    worst = 0.0
    for limit_s, executing in ((slo.queue_s, False), (slo.ttft_s, True), (slo.e2e_s, True)):
        if limit_s is None:
            continue
        took_s = arrivals.wait_s + delay_s + (arrivals.own_s if executing else 0.0)
        alone_s = delay_s + (time.of(1) if executing else 0.0)
        late = float((arrivals.odds * (took_s > limit_s)).sum()) + arrivals.alone * (alone_s > limit_s)
        worst = max(worst, late)
    return worst


@dataclass(frozen=True, slots=True, kw_only=True)
class _Arrivals:
    """Where a request finds the server: arrays over (whether the next batch is full, waiting at the start of the
    execution, part of it that passed).

    ``odds`` of each, ``wait_s`` until its own execution begins, ``own_s`` which that takes. ``alone``: the odds to
    find the server idle.
    """

    odds: Array
    wait_s: Array
    own_s: Array
    alone: float

    @classmethod
    def of(cls, time: BatchTime, rps: float, largest: int) -> _Arrivals:
        """In the steady state."""
        waiting = np.arange(1, max(_LEAST_STATES, _STATES_PER_BATCH * largest) + 1, dtype=np.float64)
        taken = np.minimum(waiting, largest)
        spans_s = time.alpha_s + time.beta_s * taken
        odds, idle = _stationary(waiting - taken, rps * spans_s)
        passed = (np.arange(_PARTS) + 0.5) / _PARTS
        left, came = (waiting - taken)[:, None], rps * spans_s[:, None] * passed
        full = np.floor(left / largest)
        # Whether those that came since the start fill the batch that would else be this request's.
        filled = pdtrc(largest * (full + 1.0) - left - 1.0, came)
        before = np.stack((full + 0.0 * came, full + 1.0 + 0.0 * came))
        wait_s = spans_s[:, None] * (1.0 - passed) + before * time.of(largest)
        company = np.stack((left + rps * spans_s[:, None] + 0.0 * came,) * 2) - before * largest
        own_s = time.alpha_s + time.beta_s * np.clip(company, 1.0, largest)
        requests = (odds * rps * spans_s)[:, None] / _PARTS * np.stack((1.0 - filled, filled))
        total = float(requests.sum()) + idle
        return cls(odds=requests / total, wait_s=wait_s, own_s=own_s, alone=idle / total)


def _stationary(left: Array, arriving: Array) -> tuple[Array, float]:
    """Odds of each number waiting at the start of an execution, and of none waiting at the end of one.

    ``left``: how many each execution leaves waiting; ``arriving``: the mean number that arrives during it. The last
    state stands for all larger ones.
    """
    states = len(left)
    counts = np.arange(states + 1, dtype=np.float64)
    logs = counts * np.log(np.maximum(arriving, 1e-12))[:, None] - arriving[:, None] - gammaln(counts + 1.0)
    odds = np.exp(logs)
    moves = np.zeros((states, states + 1))
    for state in range(states):
        start = int(left[state])
        moves[state, start:] = odds[state, : states + 1 - start]
    moves[:, states] += np.maximum(0.0, 1.0 - moves.sum(axis=1))
    chain = moves[:, 1:].copy()
    chain[:, 0] += moves[:, 0]  # none waits: the next execution begins with the next arrival, alone
    equations = np.vstack((chain.T - np.eye(states), np.ones(states)))
    found = np.linalg.lstsq(equations, np.append(np.zeros(states), 1.0), rcond=None)[0]
    found = np.maximum(found, 0.0)
    found /= found.sum()
    return found, float(found @ moves[:, 0])
