"""What the controller remembers from tick to tick, as a value; and one tick with all that went in and came out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from autoscaler.domain.cluster import ClusterSnapshot
from autoscaler.domain.learned import Learned
from autoscaler.domain.plan import Decision
from autoscaler.domain.reading import AnyGatewayReading, EngineReading, Measured, Observations, Unknown, UnknownReason
from autoscaler.domain.service import ServiceId

_NOTHING_FELT = Unknown(UnknownReason.WARMING_UP, "no tick yet")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaTrack:
    """One replica as last observed.

    ``rate_rps``: its arrivals per second then. ``flat_since_s``: since when its counters stand still though it has
    work. ``unobserved_since_s``: since when no usable page came. ``alive_s``: when its heartbeat last moved, None where
    it has none. ``late``: its requests that were judged as missed at their first token and have not ended.
    """

    reading: EngineReading
    rate_rps: float
    flat_since_s: float | None = None
    unobserved_since_s: float | None = None
    alive_s: float | None = None
    late: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLoad:
    """What batch servers executed in one tick: ``executions`` of ``items`` in all, of ``requests`` that finished, each
    of which was part of an execution; ``exec_sum_s`` sums the durations of those over the requests. ``exec_time_s``:
    over the executions, each counted once; None where that is not told.
    """

    executions: float
    items: float
    requests: float
    exec_sum_s: float
    exec_time_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantLoad:
    """What the observed replicas of one variant did in one tick, summed over them.

    ``running`` and ``waiting`` are the sums of the gauges at its end. ``saturated``: each had requests waiting, at its
    begin and at its end.
    ``kv_tokens``: of the running requests, in the KV caches at its end, as far as the engines tell; ``kv_empty`` of
    these in half-empty blocks. ``batches``: None where they are no batch servers.
    """

    variant: str
    replicas: int
    arrivals: float
    completed: float
    prompt_tokens: float
    itl_sum_s: float
    itl_count: float
    e2e_sum_s: float
    e2e_count: float
    running: float
    waiting: float
    saturated: bool
    batches: BatchLoad | None = None
    kv_tokens: float = 0.0
    kv_empty: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Increment:
    """What was added between two ticks over all observed replicas of a service.

    ``arrivals`` may be negative for one tick (a waiting client gave up); windows are summed before they are read.
    ``observed_s``/``live_s``: replica-seconds observed and existing in the tick. ``judged``/``within_slo``: requests
    compared with the SLO, and those that met it. ``gateway``: the arrivals were counted by the gateway.
    """

    end_s: float
    span_s: float
    arrivals: float
    observed_s: float
    live_s: float
    judged: float
    within_slo: float
    gateway: bool
    loads: tuple[VariantLoad, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthSums:
    """Decayed sums over requests of prompt and output lengths and of their squares."""

    prompts: float = 0.0
    prompt: float = 0.0
    prompt_sq: float = 0.0
    outputs: float = 0.0
    output: float = 0.0
    output_sq: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Unplaceable:
    """A variant that no node took in time: not asked for in larger numbers until then. ``detail``: what lacked."""

    until_s: float
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """A time in which a service needed replicas that it could not get: its begin, and when it was last so."""

    since_s: float
    seen_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityTrial:
    """A window in which the same number of replicas served: it will tell of their capacity.

    ``backlog``: that it began with; ``queued``: which was worth mentioning. ``arrivals``: requests that came;
    ``felt``: as they are felt (policy/lasting.py). ``offered``: requests that they could have served by their capacity
    models, uncorrected.
    """

    since_s: float
    replicas: int
    backlog: float
    queued: bool
    arrivals: float = 0.0
    felt: float = 0.0
    offered: float = 0.0
    judged: float = 0.0
    missed: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceState:
    """Memory of one service.

    ``seen_s``: time of the last tick. ``increments``: of the stable window, oldest first. ``theta``: -ln(1 - tau),
    the self-tuned headroom. ``debt``: requests missed beyond the allowed ones so far, in parts of what a day allows.
    ``felt_rps``: see ``Demand``; of the last tick that told. ``correction``: log of the true capacity over the models';
    ``trial``: the window that tells of it next; ``usual_rps``: what the models said of a replica in the last minutes.
    ``day_arrivals``: decayed mean of arrivals a day. ``starts_s``: latest measured start-up
    times. ``starting``: replicas seen starting, by creation time. ``requirements``: (time, replicas) of
    the stabilization windows. ``changes``: (time, delta) within the rate policies' periods. ``peaks_rps``: the largest
    measured need of each of the last 168 hours, a ring by hour (``peak_hour``: the newest).
    ``idle_since_s``: since when no request was seen. ``woken_s``: when the service last left zero.
    ``denied_since_s``: since when it has demand and no device. ``leaving``: replicas asked for only until those of
    another variant that replace them are ready. ``unplaceable``: variants that no node takes, by name.
    ``shortage``: of supply, until its queue is gone. ``asked``: (time, replicas) whenever another count was asked for,
    back to what was asked for two start-up times ago.
    """

    seen_s: float
    tracks: Mapping[str, ReplicaTrack]
    gateway: AnyGatewayReading | None
    increments: tuple[Increment, ...]
    lengths: LengthSums
    forecaster: Learned
    capacities: Mapping[str, Learned]
    theta: float
    day_arrivals: float
    peaks_rps: NDArray[np.float64]
    peak_hour: int
    debt: float = 0.0
    felt_rps: Measured = _NOTHING_FELT
    correction: float = 0.0
    usual_rps: float | None = None
    trial: CapacityTrial | None = None
    starts_s: tuple[float, ...] = ()
    starting: Mapping[str, float] = field(default_factory=dict)
    requirements: tuple[tuple[float, int], ...] = ()
    changes: tuple[tuple[float, int], ...] = ()
    idle_since_s: float | None = None
    woken_s: float | None = None
    denied_since_s: float | None = None
    leaving: Mapping[str, int] = field(default_factory=dict)
    sampled_s: float | None = None
    unplaceable: Mapping[str, Unplaceable] = field(default_factory=dict)
    shortage: Shortage | None = None
    asked: tuple[tuple[float, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerState:
    """Memory of the controller."""

    services: Mapping[ServiceId, ServiceState]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """One round of the loop: its inputs and its decision."""

    now_s: float
    snapshot: ClusterSnapshot
    observations: Observations
    decision: Decision
