"""What a user asks for: a service, its SLO, its bounds and the kinds of replica that may serve it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import NewType

from autoscaler.domain.capacity import StepTime

ServiceId = NewType("ServiceId", str)


class Engine(StrEnum):
    """The inference engine of a service's replicas; AUTO means: told by the page."""

    AUTO = "auto"
    VLLM = "vllm"
    TGI = "tgi"
    SGLANG = "sglang"
    TRITON = "triton"
    TRTLLM = "trtllm"
    NIM = "nim"
    DYNAMO = "dynamo"
    LMDEPLOY = "lmdeploy"


class StatisticsProtocol(StrEnum):
    """How a server's statistics API is asked."""

    HTTP = "http"
    GRPC = "grpc"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsApi:
    """A server's statistics beside its metrics page, on ``port`` of the same host (unless the replica has its own)."""

    protocol: StatisticsProtocol
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Slo:
    """Latency thresholds in seconds and the share of requests that must meet all of them.

    ``ttft_s`` time to first token, ``itl_s`` mean time between tokens of a request, ``queue_s`` time in the queue of a
    batch server, ``e2e_s`` whole time. None: not part of the objective. At least one is set.
    """

    ttft_s: float | None = None
    itl_s: float | None = None
    queue_s: float | None = None
    e2e_s: float | None = None
    share: float = 0.99

    def __post_init__(self) -> None:
        thresholds = [t for t in (self.ttft_s, self.itl_s, self.queue_s, self.e2e_s) if t is not None]
        if not thresholds:
            raise ValueError("an SLO needs at least one threshold")
        if any(not math.isfinite(t) or t <= 0 for t in thresholds):
            raise ValueError(f"SLO thresholds must be positive, got {thresholds}")
        if not 0.5 <= self.share < 1:
            raise ValueError(f"the share in SLO must lie in [0.5, 1), got {self.share}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Hard limits on the replicas of a service; ``spare`` replicas are kept above the computed need."""

    min_replicas: int = 1
    max_replicas: int = 10
    spare: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.min_replicas <= self.max_replicas:
            raise ValueError(f"need 0 <= min ({self.min_replicas}) <= max ({self.max_replicas})")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRequest:
    """Devices that one replica occupies: ``count`` of ``kind`` ("gpu", or a MIG profile such as "mig-1g.10gb").

    ``pods``: a replica that is a group of pods needs them once for each, on one node or several.
    """

    kind: str
    count: int
    pods: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One kind of replica of a service.

    ``cost`` per replica-hour, in the user's unit. ``step_time``: its profile, or None where it must be learned.
    ``max_num_seqs`` and ``kv_tokens``: the engine's own limits, None where not known.
    """

    name: str
    cost: float = 1.0
    devices: DeviceRequest | None = None
    step_time: StepTime | None = None
    max_num_seqs: int | None = None
    kv_tokens: float | None = None


class SelectPolicy(StrEnum):
    """HPA's ``selectPolicy``."""

    MAX = "Max"
    MIN = "Min"
    DISABLED = "Disabled"


class PolicyType(StrEnum):
    """HPA's policy ``type``."""

    PODS = "Pods"
    PERCENT = "Percent"


@dataclass(frozen=True, slots=True, kw_only=True)
class RatePolicy:
    """HPA's ``HPAScalingPolicy``: at most ``value`` (replicas or percent) per ``period_s``."""

    type: PolicyType
    value: int
    period_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingRules:
    """HPA's ``HPAScalingRules`` for one direction. No policies: no limit on the rate.

    ``stabilization_window_s`` None: chosen by the controller (up 0 s; down 60 s with a forecast, 300 s without).
    """

    stabilization_window_s: float | None = None
    select_policy: SelectPolicy = SelectPolicy.MAX
    policies: tuple[RatePolicy, ...] = ()
    tolerance: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Behavior:
    """HPA's ``behavior``."""

    scale_up: ScalingRules = ScalingRules()
    scale_down: ScalingRules = ScalingRules()


@dataclass(frozen=True, slots=True, kw_only=True)
class IdlePolicy:
    """When a service with ``min_replicas`` 0 may go to zero.

    ``after_s`` without any request; never before a replica was up for ``min_uptime_factor`` cold starts.
    """

    after_s: float = 300.0
    min_uptime_factor: float = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """One inference service and all that a decision needs to know of the user's wishes.

    ``statistics``: of its servers, where they are to be asked.
    ``startup_s``: the start-up time assumed until the first real start is measured.
    ``start_deadline_s``: a start that takes longer has failed. ``priority``: higher takes devices from lower.
    ``unschedulable_deadline_s``: a replica that no node takes for so long is given back, and its variant is not asked
    for again for ``unschedulable_retry_s``.
    """

    id: ServiceId
    slo: Slo
    variants: tuple[Variant, ...]
    engine: Engine = Engine.AUTO
    statistics: StatisticsApi | None = None
    bounds: Bounds = Bounds()
    behavior: Behavior = Behavior()
    idle: IdlePolicy = IdlePolicy()
    priority: int = 0
    startup_s: float = 120.0
    start_deadline_s: float = 600.0
    unschedulable_deadline_s: float = 300.0
    unschedulable_retry_s: float = 600.0

    def __post_init__(self) -> None:
        if not self.variants:
            raise ValueError(f"service {self.id} has no variant")
        names = [variant.name for variant in self.variants]
        if len(set(names)) != len(names):
            raise ValueError(f"service {self.id} names a variant twice: {names}")

    def variant(self, name: str) -> Variant:
        """The variant of that name. Raises KeyError."""
        for variant in self.variants:
            if variant.name == name:
                return variant
        raise KeyError(name)
