"""What one scrape said: measured values, or why a value is unknown.

A value is a number (zero included: "known idle") or an ``Unknown``. Python itself refuses arithmetic on
``Unknown`` (it has no operators) and ``bool`` is refused explicitly, so an unknown can't slip through as zero.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from enum import StrEnum
from typing import NoReturn, TypeGuard


class UnknownReason(StrEnum):
    """Why a value is not known."""

    UNREACHABLE = "Unreachable"
    TIMEOUT = "Timeout"
    HTTP_ERROR = "HttpError"
    EMPTY_PAGE = "EmptyPage"
    MALFORMED_PAGE = "MalformedPage"
    PAGE_TOO_LARGE = "PageTooLarge"
    WRONG_CONTENT = "WrongContent"
    UNKNOWN_ENGINE = "UnknownEngine"
    MISSING_SERIES = "MissingSeries"
    OUT_OF_RANGE = "OutOfRange"
    NOT_A_NUMBER = "NotANumber"
    CONTRADICTION = "Contradiction"
    NOT_EXPORTED = "NotExported"
    STALE = "Stale"
    RESET = "Reset"
    WARMING_UP = "WarmingUp"
    NO_REPLICAS = "NoReplicas"
    SHARED = "Shared"
    NO_OBSERVATIONS = "NoObservations"
    IMPOSSIBLE_FIT = "ImpossibleFit"
    UNSATISFIABLE = "Unsatisfiable"
    HELD = "Held"
    UNDECIDED = "Undecided"


@dataclass(frozen=True, slots=True)
class Unknown:
    """The absence of a value, with its reason; not zero, not false, not comparable by size."""

    reason: UnknownReason
    detail: str = ""

    def __bool__(self) -> NoReturn:
        raise TypeError(f"an unknown value has no truth: {self}")

    def __str__(self) -> str:
        return f"unknown ({self.reason}{': ' + self.detail if self.detail else ''})"


Measured = float | Unknown


def is_known(value: Measured) -> TypeGuard[float]:
    """True for a number, zero included."""
    return not isinstance(value, Unknown)


@dataclass(frozen=True, slots=True)
class Histogram:
    """A cumulative histogram as Prometheus exposes it.

    ``bounds``: finite upper bounds, ascending, in the family's unit. ``counts``: observations at or below each
    bound, never decreasing. ``count``: all observations, those above the last bound included. ``total``: their sum.
    Without bounds it is a count and a sum: it has a mean and no shares.
    """

    bounds: tuple[float, ...]
    counts: tuple[float, ...]
    count: float
    total: float

    def __post_init__(self) -> None:
        if len(self.bounds) != len(self.counts):
            raise ValueError(f"{len(self.bounds)} bounds but {len(self.counts)} counts")

    def plus(self, other: Histogram) -> Histogram | Unknown:
        """Both together; only identical bounds may be merged (buckets of engine versions differ)."""
        if self.bounds != other.bounds:
            return Unknown(UnknownReason.CONTRADICTION, "bucket bounds differ")
        counts = tuple([a + b for a, b in zip(self.counts, other.counts, strict=True)])
        return Histogram(self.bounds, counts, self.count + other.count, self.total + other.total)

    def within(self, threshold: float) -> float:
        """Observations at or below ``threshold``, linear inside the bucket that holds it.

        Above the last finite bound only a lower estimate is known: those at or below that bound.
        """
        index = bisect_left(self.bounds, threshold)
        below_bound, below = (self.bounds[index - 1], self.counts[index - 1]) if index else (0.0, 0.0)
        if index == len(self.bounds):
            return below
        width = self.bounds[index] - below_bound
        part = max(0.0, threshold - below_bound) / width if width > 0 else 1.0
        return below + (self.counts[index] - below) * part

    def within_since(self, then: Histogram, threshold: float) -> float:
        """Of the observations since ``then``, which has the same bounds, those at or below ``threshold``."""
        index = bisect_left(self.bounds, threshold)
        below = self.counts[index - 1] - then.counts[index - 1] if index else 0.0
        if index == len(self.bounds):
            return below
        below_bound = self.bounds[index - 1] if index else 0.0
        width = self.bounds[index] - below_bound
        part = max(0.0, threshold - below_bound) / width if width > 0 else 1.0
        return below + (self.counts[index] - then.counts[index] - below) * part

    def share_within(self, threshold: float) -> Measured:
        """Share of observations at or below ``threshold``; see ``within``."""
        if self.count <= 0 or not self.bounds:
            return Unknown(UnknownReason.NO_OBSERVATIONS)
        return min(1.0, self.within(threshold) / self.count)

    def quantile(self, q: float) -> Measured:
        """The ``q`` quantile, linear inside its bucket; the last finite bound where it lies beyond ("at least")."""
        if self.count <= 0 or not self.bounds:
            return Unknown(UnknownReason.NO_OBSERVATIONS)
        rank, below_bound, below = q * self.count, 0.0, 0.0
        for bound, count in zip(self.bounds, self.counts, strict=True):
            if count >= rank:
                part = 1.0 if count == below else (rank - below) / (count - below)
                return below_bound + (bound - below_bound) * part
            below_bound, below = bound, count
        return self.bounds[-1]

    def mean(self) -> Measured:
        """Mean observation."""
        if self.count <= 0:
            return Unknown(UnknownReason.NO_OBSERVATIONS)
        return self.total / self.count


MaybeHistogram = Histogram | Unknown
_NO_MEANS = Unknown(UnknownReason.NOT_EXPORTED, "no mean gap of a request")
_NO_STEPS = Unknown(UnknownReason.NOT_EXPORTED, "steps are not counted")
_NO_HEARTBEAT = Unknown(UnknownReason.NOT_EXPORTED, "no sign of life but the load")
_NO_BLOCKS = Unknown(UnknownReason.NOT_EXPORTED, "no size of cache blocks")
_NO_BATCH_SERVER = Unknown(UnknownReason.NOT_EXPORTED, "no batch server")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineReading:
    """One replica's page at one moment, in canonical signals. Counters are cumulative since the engine's start.

    ``arrivals_stock`` is a number whose difference over time is the count of arrivals, however this engine makes it
    visible (for vLLM: waiting + max(first tokens, finished + running)).
    ``heartbeat``: a counter that moves as long as the page is made anew, whatever the load (CPU time of the process).
    ``sources`` names, per signal, the series (alias) it was read from; ``warnings`` says what looked odd.
    ``itl``: gaps between tokens as they are made, where the engine shows these. ``request_itl``: of each request at its
    end, the mean gap between its tokens, which is what a promise on ITL is about; a request of one token has none, and
    counts as 0 or not at all.
    ``kv_block_tokens``: of an engine whose KV cache holds running requests alone, in blocks of so many tokens.
    ``steps``: a counter that moves while the engine works, of engines that count tokens only when a request finishes.

    Of a batch server: ``pending``: requests that no execution has taken yet. ``exec_count``: executions, each of one
    batch. ``exec_items``: items of all these batches. ``exec_sum_s``: over finished requests, the time of the execution
    that each was part of (input, inference and output), so an execution of a batch of 8 requests counts eight times.
    ``exec_time_s``: over executions, the time of each, counted once.
    """

    replica: str
    at_s: float
    engine: str
    started_s: Measured
    asleep: bool
    waiting: Measured
    running: Measured
    kv_fraction: Measured
    kv_capacity_tokens: Measured
    completed: Measured
    refused: Measured
    preemptions: Measured
    prompt_tokens: Measured
    generation_tokens: Measured
    arrivals_stock: Measured
    ttft: MaybeHistogram
    itl: MaybeHistogram
    e2e: MaybeHistogram
    queue_time: MaybeHistogram
    prompt_length: MaybeHistogram
    output_length: MaybeHistogram
    sources: tuple[tuple[str, str], ...] = ()
    warnings: tuple[str, ...] = ()
    pending: Measured = _NO_BATCH_SERVER
    heartbeat: Measured = _NO_HEARTBEAT
    exec_count: Measured = _NO_BATCH_SERVER
    exec_items: Measured = _NO_BATCH_SERVER
    exec_sum_s: Measured = _NO_BATCH_SERVER
    exec_time_s: Measured = _NO_BATCH_SERVER
    steps: Measured = _NO_STEPS
    request_itl: MaybeHistogram = _NO_MEANS
    kv_block_tokens: Measured = _NO_BLOCKS

    @property
    def kv_held(self) -> tuple[float, float] | None:
        """Tokens that the running requests hold in the KV cache, and how many places of these are empty.

        The cache is given out in whole blocks; of each request's last one (size - 1) / 2 places are empty on average.
        None where the engine tells no block, as one does not that reserves what requests may come to need.
        """
        fraction, capacity = self.kv_fraction, self.kv_capacity_tokens
        block, running = self.kv_block_tokens, self.running
        if isinstance(block, Unknown) or isinstance(capacity, Unknown):
            return None
        if isinstance(fraction, Unknown) or isinstance(running, Unknown):
            return None
        return fraction * capacity, running * (block - 1) / 2

    @property
    def batch_mean(self) -> Measured:
        """Items per execution since the server's start."""
        if isinstance(self.exec_items, Unknown):
            return self.exec_items
        if isinstance(self.exec_count, Unknown):
            return self.exec_count
        if self.exec_count < 1:
            return Unknown(UnknownReason.NO_OBSERVATIONS, "nothing was executed yet")
        return self.exec_items / self.exec_count


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayReading:
    """What the gateway in front of a service saw. Counters are cumulative since the gateway's start.

    ``waiting``: requests held because no replica is ready; ``in_flight``: all unanswered requests, the held included.
    ``judged``: finished or failed requests compared with the SLO; ``within_slo``: those that met every threshold.
    Times in seconds: ``ttft`` to the first body byte, ``itl`` the mean gap between chunks of a request, ``e2e`` whole.
    """

    service: str
    at_s: float
    started_s: float
    arrivals: float
    finished: float
    failed: float
    refused: float
    waiting: float
    in_flight: float
    judged: float
    within_slo: float
    ttft: Histogram
    itl: Histogram
    e2e: Histogram


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignGatewayReading:
    """What a gateway that is not ours says of a service, cumulative since ``started_s``.

    ``at_least``: there may have been more arrivals than it tells, as where it counts requests at their end alone.
    ``waiting``: requests that no replica has taken yet; ``in_flight``: all unanswered ones.
    """

    service: str
    at_s: float
    started_s: float
    arrivals: float
    waiting: Measured
    in_flight: Measured
    at_least: bool


AnyGatewayReading = GatewayReading | ForeignGatewayReading


@dataclass(frozen=True, slots=True, kw_only=True)
class Observations:
    """One round of scraping: a reading or the reason there is none, by replica name and by service."""

    at_s: float
    engines: dict[str, EngineReading | Unknown]
    gateways: dict[str, AnyGatewayReading | Unknown]
