"""What a rival is told when it decides, and what it answers: the number of replicas it wants.

A run makes a ``Contender``'s ``Rival`` afresh, asks it every ``interval_s`` and gives it a ``Seen`` whose values are
as old as the contender's way of collecting them makes them (``lag_s``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from autoscaler.domain.reading import Measured, Unknown, UnknownReason

Floats = NDArray[np.float64]

_NO_KV = Unknown(UnknownReason.NOT_EXPORTED, "the fluid model has no KV cache")
_NO_PROMISE = Unknown(UnknownReason.NOT_EXPORTED, "no promise about tokens")
_NO_PEAK = Unknown(UnknownReason.UNDECIDED, "the peak is not told")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The replicas a rival may ask for, the same as ours."""

    min_replicas: int
    max_replicas: int

    def __post_init__(self) -> None:
        if not 0 <= self.min_replicas <= self.max_replicas or self.max_replicas < 1:
            raise ValueError(
                f"replicas need 0 <= min <= max and max >= 1, got {self.min_replicas} and {self.max_replicas}"
            )

    def within(self, replicas: int) -> int:
        """``replicas``, brought inside."""
        return min(self.max_replicas, max(self.min_replicas, replicas))


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What whoever sets a rival up knows of the model and its replicas, from load tests: the truth.

    ``capacity_rps``: requests/s that one replica serves within the SLO. ``service_s``: from a request's arrival to its
    last token at that load, without queueing. ``kv_capacity_tokens``, ``max_num_seqs``, ``max_batched_tokens``: of one
    replica. ``ttft_slo_s``, ``itl_slo_s``: the promised latencies. ``peak_rps``: the largest mean rate of any minute of
    the coming traffic, which only the static peak knows.
    """

    capacity_rps: float
    service_s: float = 5.0
    prompt_tokens: float = 1024.0
    output_tokens: float = 256.0
    kv_capacity_tokens: Measured = _NO_KV
    max_num_seqs: int = 256
    max_batched_tokens: int = 2048
    ttft_slo_s: float = 2.0
    itl_slo_s: Measured = _NO_PROMISE
    peak_rps: Measured = _NO_PEAK

    def __post_init__(self) -> None:
        for name in ("capacity_rps", "service_s"):
            value = getattr(self, name)
            if not 0 < value < float("inf"):
                raise ValueError(f"{name} must be positive and finite, got {value}")

    @property
    def concurrency(self) -> float:
        """Requests in flight in one replica that serves ``capacity_rps`` (Little's law)."""
        return self.capacity_rps * self.service_s


@dataclass(frozen=True, slots=True)
class PerReplica:
    """Of each ready replica, in one order: NaN where its metrics are missing.

    ``running``, ``waiting``: requests in its engine. ``kv_fraction``: share of its KV cache in use, 0 to 1.
    """

    running: Floats
    waiting: Floats
    kv_fraction: Floats


class Seen(Protocol):
    """What can be seen at ``now_s``. Numbers over a window are of the window that ended ``lag_s`` ago.

    ``ready``: replicas that serve. ``starting``: ordered and not ready. ``desired``: the last target set. These three
    are the cluster's and have no lag. Totals are over all replicas and the requests held before them.
    """

    @property
    def now_s(self) -> float: ...
    @property
    def ready(self) -> int: ...
    @property
    def starting(self) -> int: ...
    @property
    def desired(self) -> int: ...
    def rate_rps(self, window_s: float) -> Measured:
        """Arrivals per second, mean over the last ``window_s`` (or since the start, where that is shorter)."""
        ...

    def in_flight(self, window_s: float) -> Measured:
        """All unanswered requests, held and queued included: mean over the last ``window_s``; 0: now."""
        ...

    def waiting(self, window_s: float) -> Measured:
        """Requests in the engines' queues and held before them: mean over the last ``window_s``; 0: now."""
        ...

    def held(self) -> Measured:
        """Requests held before the engines because no replica is ready."""
        ...

    def per_replica(self, window_s: float) -> PerReplica:
        """Of each ready replica the largest value in the last ``window_s``; 0: now."""
        ...

    def ttft_s(self, window_s: float) -> Measured:
        """Mean time to first token of requests whose first token came in the last ``window_s``."""
        ...

    def itl_s(self, window_s: float) -> Measured:
        """Mean time between tokens over the last ``window_s``."""
        ...

    def prompt_tokens(self, window_s: float) -> Measured:
        """Mean prompt length of requests of the last ``window_s``."""
        ...

    def output_tokens(self, window_s: float) -> Measured:
        """Mean output length of requests that finished in the last ``window_s``."""
        ...


class Rival(Protocol):
    """One way to decide, with its memory; made afresh for each run."""

    def desired(self, seen: Seen) -> int:
        """Replicas wanted now, inside the bounds it was made with."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """The one setting that trades cost against misses. ``default``: as shipped or as documented.

    ``values``: to sweep, from the cheapest to the dearest.
    """

    name: str
    default: float
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """An autoscaler that can be run. ``how``: one line for a report. ``sources``: where its formulas are published.

    ``interval_s``: between decisions. ``lag_s``: age of what it sees when it collects by itself; None: it reads the
    metrics source of the run, with that source's lag.
    """

    name: str
    how: str
    sources: tuple[str, ...]
    interval_s: float
    lag_s: float | None
    knob: Knob
    make: Callable[[float, Bounds, Facts], Rival]
