"""Random workloads and engines for the tests of the fleets."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from adapters.simulation.requests import Requests
from adapters.simulation.step_times import EngineShape, StepTimes


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineCase:
    """An engine, and the mean lengths that suit it."""

    times: StepTimes
    shape: EngineShape
    prompt_mean: float
    output_mean: float


# Two measured engines of an 8B model (an L40S, an H100) with few tokens of KV cache so that a small workload fills it;
# one of a small cache and chunk; one where hardly anything fits.
CASES = {
    "l40s": EngineCase(
        times=StepTimes.of_seconds(c_s=22.158e-3, d_s=35.3e-6, e_s=187.206e-9, a_s=76.8123e-6),
        shape=EngineShape(kv_tokens=6_000, chunk_tokens=2048, max_num_seqs=256),
        prompt_mean=300,
        output_mean=60,
    ),
    "h100": EngineCase(
        times=StepTimes.of_seconds(c_s=6.387e-3, d_s=10.5e-6, e_s=41.4016e-9, a_s=23.7005e-6),
        shape=EngineShape(kv_tokens=9_000, chunk_tokens=8192, max_num_seqs=256),
        prompt_mean=300,
        output_mean=60,
    ),
    "small-cache": EngineCase(
        times=StepTimes.of_seconds(c_s=10e-3, d_s=50e-6, e_s=300e-9, a_s=60e-6),
        shape=EngineShape(kv_tokens=3_000, chunk_tokens=512, max_num_seqs=32),
        prompt_mean=250,
        output_mean=30,
    ),
    "tight": EngineCase(
        times=StepTimes.of_seconds(c_s=8e-3, d_s=20e-6, e_s=1e-6, a_s=90e-6),
        shape=EngineShape(kv_tokens=1_000, chunk_tokens=96, max_num_seqs=8),
        prompt_mean=120,
        output_mean=25,
    ),
}
# Steps of equal length on a grid that arrivals can be put on, so that they fall on boundaries.
GRID_S = 0.01
GRID = EngineCase(
    times=StepTimes.of_seconds(c_s=GRID_S, d_s=0.0, e_s=0.0, a_s=0.0),
    shape=EngineShape(kv_tokens=1_000, chunk_tokens=96, max_num_seqs=8),
    prompt_mean=120,
    output_mean=25,
)


def random_lengths(rng: np.random.Generator, *, mean: float, cv: float, size: int, largest: int) -> NDArray[np.int64]:
    """Lognormal, from 1 to ``largest``."""
    variance = math.log1p(cv * cv)
    drawn = rng.lognormal(math.log(mean) - variance / 2, math.sqrt(variance), size)
    return np.clip(np.rint(drawn), 1, largest).astype(np.int64)


def random_requests(
    rng: np.random.Generator, case: EngineCase, *, replicas: int, size: int, load: float, cached_share: float = 0.0
) -> Requests:
    """Gamma renewal arrivals at ``load`` of what the replicas can do at most; about every 40th falls on the same
    moment as the one before.
    """
    largest = case.shape.kv_tokens // 2
    prompts = random_lengths(rng, mean=case.prompt_mean, cv=rng.uniform(0.3, 2), size=size, largest=largest)
    outputs = random_lengths(rng, mean=case.output_mean, cv=rng.uniform(0.3, 1.5), size=size, largest=largest)
    times = case.times
    seats = min(case.shape.max_num_seqs, case.shape.kv_tokens // (prompts.mean() + outputs.mean() / 2))
    work = times.a * prompts + times.d * outputs + times.e * outputs * (prompts + outputs / 2)
    busy_s = float((work + times.c * outputs / max(1, seats)).mean()) / 1e12
    shape = 1 / rng.uniform(0.5, 3) ** 2
    gaps = rng.gamma(shape, busy_s / (load * replicas) / shape, size)
    gaps[rng.random(size) < 1 / 40] = 0.0
    at_s = np.cumsum(gaps)
    cached = np.where(rng.random(size) < cached_share, (prompts * rng.random(size)).astype(np.int64), 0)
    return Requests(
        at_s=at_s,
        prompt_tokens=prompts,
        output_tokens=outputs,
        cached_tokens=np.minimum(cached, prompts - 1),
        duration_s=float(at_s[-1]) + 1.0,
    )


def moved_to(requests: Requests, at_s: NDArray[np.float64]) -> Requests:
    """The same requests at other times."""
    return replace(requests, at_s=at_s, duration_s=float(at_s[-1]) + 1.0)
