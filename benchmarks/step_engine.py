"""A continuously batching engine step by step: the yardstick of the capacity model, with which it shares no code.

One step takes c + d*B + e*K + a*q and gives every running sequence a token. Prompts are prefilled in order of arrival,
in the same steps, as far as the step's token budget reaches (chunked prefill, as in vLLM and Sarathi-Serve). A request
is let in while a sequence and KV memory for its prompt and the running ones' next tokens are free; without
preemption, so KV memory is to be chosen ample. Several replicas stand behind a router that takes the least busy one.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """Step time in seconds (constant, per sequence, per context token, per prefill token) and limits."""

    c: float
    d: float
    e: float
    a: float
    budget: int = 8192
    max_seqs: int = 10_000
    kv_tokens: float = 1e12


@dataclass(frozen=True, slots=True, kw_only=True)
class Latencies:
    """By request: time to the first token and mean time between the later ones (0 for a request of one token)."""

    ttft_s: NDArray[np.float64]
    itl_s: NDArray[np.float64]

    def share(self, *, ttft_s: float, itl_s: float) -> float:
        """Share within both thresholds, the first seventh left out (the fleet fills up)."""
        start = len(self.ttft_s) // 7
        return float(np.mean((self.ttft_s[start:] <= ttft_s) & (self.itl_s[start:] <= itl_s)))


@dataclass(slots=True)
class _Replica:
    now: float = 0.0
    step: int = 0
    running: int = 0
    context: int = 0
    in_flight: int = 0
    ends: list[tuple[int, int]] = field(default_factory=list)
    queue: deque[int] = field(default_factory=deque)
    partial: int = -1
    left: int = 0


@dataclass(slots=True)
class _Run:
    engine: Engine
    arrivals: list[float]
    prompts: list[int]
    outputs: list[int]
    first: list[float]
    last: list[float]

    def advance(self, replica: _Replica, until: float) -> None:
        """Whole steps that begin before ``until``."""
        engine = self.engine
        while replica.in_flight and replica.now < until:
            room = engine.budget - replica.running
            prefilled = 0
            done: list[int] = []
            if replica.partial >= 0:
                chunk = min(room, replica.left)
                replica.left -= chunk
                prefilled += chunk
                if replica.left == 0:
                    done.append(replica.partial)
                    replica.partial = -1
            waiting = sum(self.prompts[each] for each in done)
            while replica.partial < 0 and replica.queue and prefilled < room:
                request = replica.queue[0]
                prompt = self.prompts[request]
                held = replica.context + replica.running + waiting
                if replica.running + len(done) >= engine.max_seqs or held + prompt > engine.kv_tokens:
                    break
                replica.queue.popleft()
                waiting += prompt
                chunk = min(room - prefilled, prompt)
                prefilled += chunk
                if chunk == prompt:
                    done.append(request)
                else:
                    replica.partial, replica.left = request, prompt - chunk
            took = engine.c + engine.d * replica.running + engine.e * replica.context + engine.a * prefilled
            replica.now += took
            replica.step += 1
            replica.context += replica.running
            while replica.ends and replica.ends[0][0] == replica.step:
                _, request = heapq.heappop(replica.ends)
                self.last[request] = replica.now
                replica.context -= self.prompts[request] + self.outputs[request]
                replica.running -= 1
                replica.in_flight -= 1
            for request in done:
                self.first[request] = self.last[request] = replica.now
                if self.outputs[request] == 1:
                    replica.in_flight -= 1
                    continue
                heapq.heappush(replica.ends, (replica.step + self.outputs[request] - 1, request))
                replica.running += 1
                replica.context += self.prompts[request] + 1


def simulate(
    engine: Engine,
    *,
    arrivals_s: NDArray[np.float64],
    prompts: NDArray[np.int64],
    outputs: NDArray[np.int64],
    replicas: int,
) -> Latencies:
    """Serve these requests, ascending by arrival, with a fleet of equal engines.

    Raises ValueError for a request that no empty engine could hold.
    """
    longest = int((prompts + outputs).max())
    if longest > engine.kv_tokens:
        raise ValueError(f"a request of {longest} tokens never fits {engine.kv_tokens:.0f} tokens of KV memory")
    count = len(arrivals_s)
    run = _Run(
        engine=engine,
        arrivals=arrivals_s.tolist(),
        prompts=prompts.tolist(),
        outputs=outputs.tolist(),
        first=[0.0] * count,
        last=[0.0] * count,
    )
    fleet = [_Replica() for _ in range(replicas)]
    for request, at in enumerate(run.arrivals):
        for replica in fleet:
            run.advance(replica, at)
        chosen = min(fleet, key=lambda each: each.in_flight)
        if not chosen.in_flight:
            chosen.now = at
        chosen.queue.append(request)
        chosen.in_flight += 1
    for replica in fleet:
        run.advance(replica, float("inf"))
    first, last = np.array(run.first), np.array(run.last)
    itl_s = (last - first) / np.maximum(outputs - 1, 1)
    return Latencies(ttft_s=first - arrivals_s, itl_s=itl_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Poisson arrivals with independent lognormal lengths: their means and coefficients of variation."""

    prompt: float
    output: float
    prompt_cv: float = 1.0
    output_cv: float = 1.0

    def draw(
        self, count: int, rps: float, seed: int
    ) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
        """Arrival times, prompt lengths and output lengths."""
        rng = np.random.default_rng(seed)
        arrivals_s = np.cumsum(rng.exponential(1.0 / rps, count))
        prompts = _lognormal(rng, self.prompt, self.prompt_cv, count)
        return arrivals_s, prompts, _lognormal(rng, self.output, self.output_cv, count)


def _lognormal(rng: np.random.Generator, mean: float, cv: float, count: int) -> NDArray[np.int64]:
    sigma = np.sqrt(np.log1p(cv * cv))
    lengths = np.exp(rng.normal(np.log(mean) - sigma * sigma / 2, sigma, count))
    return np.maximum(1, np.rint(lengths)).astype(np.int64)
