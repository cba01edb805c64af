"""What was decided, and why: every stage's number with its reason."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from autoscaler.domain.capacity import ReplicaCapacity
from autoscaler.domain.demand import Demand, Forecast
from autoscaler.domain.reading import Unknown
from autoscaler.domain.service import ServiceId


class Stage(StrEnum):
    """The stages, in the order in which they run."""

    MEASURE = "measure"
    FORECAST = "forecast"
    CAPACITY = "capacity"
    SIZE = "size"
    STABILIZE = "stabilize"
    LIMIT = "limit"
    PACK = "pack"


class Reason(StrEnum):
    """Why a stage's number is what it is. A closed list; texts for people are in ``StageResult.detail``."""

    MEASURED = "Measured"
    IDLE = "Idle"
    UNKNOWN_DEMAND = "UnknownDemand"
    PARTIAL_COVERAGE = "PartialCoverage"
    WARMING_UP = "WarmingUp"
    STUCK_REPLICAS = "StuckReplicas"
    FORECAST = "Forecast"
    PERSISTENCE = "Persistence"
    NO_FORECAST = "NoForecast"
    CAPACITY_KNOWN = "CapacityKnown"
    CAPACITY_UNKNOWN = "CapacityUnknown"
    MEASURED_LOAD = "MeasuredLoad"
    FORECAST_LOAD = "ForecastLoad"
    BACKLOG = "Backlog"
    WAKE_FROM_ZERO = "WakeFromZero"
    SCALE_TO_ZERO = "ScaleToZero"
    IDLE_TOO_SHORT = "IdleTooShort"
    MINIMUM_UPTIME = "MinimumUptime"
    SPARE = "Spare"
    SOFT_CAP = "SoftCap"
    REPLACE_FAILED = "ReplaceFailed"
    STARTS_FAIL = "StartsFail"
    STEADY = "Steady"
    GROW = "Grow"
    SHRINK = "Shrink"
    SCALE_UP_STABILIZED = "ScaleUpStabilized"
    SCALE_DOWN_STABILIZED = "ScaleDownStabilized"
    RATE_LIMITED = "RateLimited"
    WITHIN_TOLERANCE = "WithinTolerance"
    NO_SHRINK_ON_UNKNOWN = "NoShrinkOnUnknown"
    NO_SHRINK_WHILE_WARMING_UP = "NoShrinkWhileWarmingUp"
    WITHIN_BOUNDS = "WithinBounds"
    MIN_REPLICAS = "MinReplicas"
    MAX_REPLICAS = "MaxReplicas"
    DEVICES_EXHAUSTED = "DevicesExhausted"
    DEVICES_TAKEN = "DevicesTaken"
    DEVICES_WAITED_FOR = "DevicesWaitedFor"
    NO_DEVICE_OF_KIND = "NoDeviceOfKind"
    QUOTA_EXHAUSTED = "QuotaExhausted"
    UNSCHEDULABLE = "Unschedulable"
    PLACED = "Placed"
    FOREIGN_OWNER = "ForeignOwner"
    SUSPENDED = "Suspended"
    INFEASIBLE = "Infeasible"
    SERVICE_ERROR = "ServiceError"
    INVENTORY_UNAVAILABLE = "InventoryUnavailable"


@dataclass(frozen=True, slots=True, kw_only=True)
class StageResult:
    """One stage's replica number (None where the stage yields none), its reason and a sentence for people.

    ``inputs``: the numbers that the stage used, by name, for ``explain``.
    """

    stage: Stage
    replicas: int | None
    reason: Reason
    detail: str = ""
    inputs: tuple[tuple[str, float | str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantTarget:
    """The replica count that a variant should have."""

    variant: str
    replicas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Bring the service to these targets."""

    targets: tuple[VariantTarget, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Leave the service as it is, and why. Never the same as zero replicas."""

    reason: Reason
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceDecision:
    """One service's decision with everything that led to it.

    ``current``: replicas asked for before, by variant. ``ages``: age in seconds of each input.
    ``binding``: the reason of the last stage that changed the number.
    """

    service: ServiceId
    at_s: float
    outcome: Plan | Hold
    stages: tuple[StageResult, ...]
    binding: Reason
    current: tuple[VariantTarget, ...]
    demand: Demand | Unknown
    forecast: Forecast | Unknown
    capacity: ReplicaCapacity | Unknown
    ready: int
    starting: int
    draining: int
    failed: int
    lead_s: float
    ages: tuple[tuple[str, float], ...] = ()

    @property
    def desired(self) -> int:
        """Replicas asked for after this decision; on a Hold those asked for before."""
        targets = self.outcome.targets if isinstance(self.outcome, Plan) else self.current
        return sum(target.replicas for target in targets)

    def targets(self) -> tuple[VariantTarget, ...]:
        """As ``desired``, by variant."""
        return self.outcome.targets if isinstance(self.outcome, Plan) else self.current


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """All services' decisions of one tick, sorted by service."""

    at_s: float
    services: tuple[ServiceDecision, ...]

    def of(self, service: ServiceId) -> ServiceDecision | None:
        """That service's part, if it has one."""
        return next((part for part in self.services if part.service == service), None)
