"""How a fleet of equal replicas serves one workload in virtual time, whatever model of a replica it rests on.

Everything here is the truth of the simulation. What the controller is shown of it (late, with gaps, per scrape) is
made elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from autoscaler.domain.reading import Histogram
from autoscaler.domain.service import Slo


class Outcome(IntEnum):
    """What became of a request. All but FINISHED are misses."""

    UNFINISHED = 0
    """Not over yet: to come, held, waiting or running."""
    FINISHED = 1
    LOST = 2
    """In flight on a replica that was removed."""
    REFUSED = 3
    """Longer than the engine can hold, or the gateway's hold was full or lasted too long."""


class Router(IntEnum):
    """Which open replica takes the next request; ties go to the lowest index."""

    LEAST_IN_FLIGHT = 0
    ROUND_ROBIN = 1


@dataclass(frozen=True, slots=True)
class BucketCounts:
    """A cumulative histogram: ``counts[i]`` observations at or below ``bounds[i]``, ``count`` in all, ``total``
    their sum.
    """

    bounds: tuple[float, ...]
    counts: NDArray[np.int64] | NDArray[np.float64] | tuple[float, ...]
    count: float
    total: float

    def histogram(self) -> Histogram:
        """The same as the controller's readings carry it."""
        counts = self.counts
        if not isinstance(counts, tuple):
            counts = tuple(counts.astype(np.float64, copy=False).tolist())
        return Histogram(self.bounds, counts, float(self.count), self.total)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaPage:
    """What one replica's engine counts at the last ``advance``; counters are cumulative since the replica was added.
    Counts are whole but where a model shares requests out in parts.

    None: this model of a replica doesn't know it. ``waiting``, ``running``: requests now. ``arrived``: requests routed
    here; ``first_tokens``: of them, those past their first token. ``prompt_tokens``: of prompts whose first prefill is
    done. ``steps``: engine steps. ``itl`` is the gap before each token but the first, ``ttft`` observed at the first
    token; ``e2e``, ``queue_time``, the lengths and ``request_itl`` at the finish: a request's mean gap, 0 where it has
    one token. Of a batch server ``exec_count``: executions; ``exec_items``: their items; ``exec_sum_s``: over finished
    requests, the time of the execution each was part of.
    """

    waiting: float
    running: float
    arrived: float
    completed: float
    kv_used_tokens: float | None = None
    kv_capacity_tokens: float | None = None
    first_tokens: float | None = None
    prompt_tokens: float | None = None
    generation_tokens: float | None = None
    preemptions: float | None = None
    steps: float | None = None
    ttft: BucketCounts | None = None
    itl: BucketCounts | None = None
    e2e: BucketCounts | None = None
    queue_time: BucketCounts | None = None
    request_itl: BucketCounts | None = None
    prompt_length: BucketCounts | None = None
    output_length: BucketCounts | None = None
    exec_count: float | None = None
    exec_items: float | None = None
    exec_sum_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayPage:
    """What the gateway in front of the fleet counts at the last ``advance``; counters are cumulative.

    ``waiting``: held since no replica is open; ``in_flight``: unanswered, the held included. ``judged``: finished,
    failed (lost with their replica) and those refused because the hold was full or too long; ``within_slo``: of them,
    those that met every threshold. ``refused`` counts requests too long for the engine as well; these are the
    client's own fault and aren't judged. Histograms in seconds, per request: ``itl`` is the mean gap between a
    request's tokens.
    """

    arrivals: float
    finished: float
    failed: float
    refused: float
    waiting: float
    in_flight: float
    judged: float
    within_slo: float
    ttft: BucketCounts | None
    itl: BucketCounts | None
    e2e: BucketCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """What became of every request of the workload, by request; NaN: never happened, or not known to the model.

    ``ttft_s``: arrival to first token. ``itl_s``: mean gap between tokens, 0 for a request of one token. ``finish_s``:
    seconds from the begin of the run. ``e2e_s``: arrival to finish. ``code``: an ``Outcome`` each. ``preemptions``:
    how often each was taken out of its engine.
    """

    ttft_s: NDArray[np.float64]
    itl_s: NDArray[np.float64]
    queue_s: NDArray[np.float64]
    e2e_s: NDArray[np.float64]
    finish_s: NDArray[np.float64]
    code: NDArray[np.uint8]
    preemptions: NDArray[np.int64]

    def in_slo(self, slo: Slo) -> NDArray[np.bool_]:
        """Finished within every threshold of ``slo``; unfinished, refused and lost requests are misses."""
        met: NDArray[np.bool_] = self.code == Outcome.FINISHED
        for values, threshold in (
            (self.ttft_s, slo.ttft_s),
            (self.itl_s, slo.itl_s),
            (self.queue_s, slo.queue_s),
            (self.e2e_s, slo.e2e_s),
        ):
            if threshold is not None:
                # A comparison with NaN is false: what isn't known to be within the threshold is a miss.
                met &= values <= threshold
        return met


class ServingFleet(Protocol):
    """Equal replicas that serve one workload. Indices are given out 0, 1, 2 ... and never reused.

    Time is in seconds from the begin of the run and never goes back; changes hold from the time of the last
    ``advance``. With no open replica, requests are held at the gateway in order of arrival, up to a limit and for a
    limited time given at construction (beyond: refused), and routed as soon as one opens.
    """

    def add(self) -> int:
        """A new replica, not routed to yet; its index."""
        ...

    def open(self, replica: int) -> None:
        """Ready: routed to from now on."""
        ...

    def close(self, replica: int) -> None:
        """Draining: takes no new request, finishes those it has."""
        ...

    def remove(self, replica: int) -> None:
        """Gone now; requests in flight on it are lost."""
        ...

    def advance(self, until_s: float) -> None:
        """Serve up to ``until_s``; arrivals at or before it are routed."""
        ...

    def in_flight(self, replica: int) -> int:
        """Requests routed to it and not over."""
        ...

    def empty_since_s(self, replica: int) -> float | None:
        """When a closed replica finished its last request (or was closed, if it had none); None: not yet, or not
        closed.
        """
        ...

    def page(self, replica: int) -> ReplicaPage:
        """What its engine counts now."""
        ...

    def gateway(self) -> GatewayPage:
        """What the gateway counts now."""
        ...

    def outcomes(self) -> Outcomes:
        """What became of every request so far."""
        ...
