"""What the controller remembers from tick to tick, as a value; and one tick with all that went in and came out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from autoscaler.domain.capacity import RequestShape
from autoscaler.domain.cluster import ClusterSnapshot
from autoscaler.domain.learned import Learned
from autoscaler.domain.plan import Decision
from autoscaler.domain.reading import EngineReading, GatewayReading, Histogram, Observations
from autoscaler.domain.service import ServiceId


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaTrack:
    """One replica's last usable reading, and since when its counters stand still though it has work.

    ``rate_rps``: its arrivals per second when last measured.
    """

    reading: EngineReading
    rate_rps: float
    flat_since_s: float | None = None
    unobserved_since_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Increment:
    """What was added between two ticks over all observed replicas of a service.

    ``arrivals`` may be negative for one tick (a waiting client gave up); windows are summed before they are read.
    ``observed_s``/``live_s``: replica-seconds observed and existing in the tick. ``ttft``/``itl``: new observations.
    """

    end_s: float
    span_s: float
    arrivals: float
    completed: float
    prompt_tokens: float
    output_tokens: float
    token_requests: float
    observed_s: float
    live_s: float
    judged: float
    within_slo: float
    ttft: Histogram | None = None
    itl: Histogram | None = None
    running: float = 0.0
    waiting: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceState:
    """Memory of one service.

    ``since_s``: when this memory began. ``increments``: of the stable window, oldest first. ``theta``: -ln(1 - tau),
    the self-tuned headroom. ``day_arrivals``: decayed mean of arrivals a day. ``starts_s``: latest measured start-up
    times. ``requirements``: (time, replicas) of the stabilization windows. ``changes``: (time, delta) of the rate
    policies' periods. ``peaks``: the largest need of each of the last 168 hours, ring by hour since the epoch.
    ``idle_since_s``: since when no request was seen. ``woken_s``: when the service last left zero.
    """

    since_s: float
    seen_s: float
    tracks: Mapping[str, ReplicaTrack]
    gateway: GatewayReading | None
    increments: tuple[Increment, ...]
    forecaster: Learned
    capacity: Learned
    theta: float
    day_arrivals: float
    peaks: NDArray[np.float64]
    shape: RequestShape | None = None
    starts_s: tuple[float, ...] = ()
    starting: Mapping[str, float] = field(default_factory=dict)
    requirements: tuple[tuple[float, int], ...] = ()
    changes: tuple[tuple[float, int], ...] = ()
    idle_since_s: float | None = None
    woken_s: float | None = None
    denied_since_s: float | None = None


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
