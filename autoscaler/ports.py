"""What the controller needs of the world. Adapters implement these; the controller knows nothing else of it.

Errors: an adapter turns its library's exceptions into one of the four ``PortError`` kinds below.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from autoscaler.domain.capacity import LoadSample, ReplicaCapacity, RequestShape
from autoscaler.domain.cluster import ClusterSnapshot
from autoscaler.domain.demand import Forecast
from autoscaler.domain.learned import Learned
from autoscaler.domain.params import Plans
from autoscaler.domain.plan import ServiceDecision, VariantTarget
from autoscaler.domain.publication import Publication
from autoscaler.domain.reading import Observations, Unknown
from autoscaler.domain.service import ServiceId, Slo, Variant
from autoscaler.domain.state import ControllerState, Tick


class PortError(Exception):
    """The world did not do as asked; the service concerned holds."""


class UnavailableError(PortError):
    """Not reachable now; may work at the next tick."""


class RefusedError(PortError):
    """Understood and refused (rights, quota, a full disk); a person has to change something."""


class ConflictError(PortError):
    """Somebody else changed it meanwhile."""


class InvalidAnswerError(PortError):
    """The answer makes no sense."""


class Clock(Protocol):
    """Time, and waiting for it."""

    def now_s(self) -> float:
        """Seconds since the epoch; never decreases during a run."""
        ...

    def wait_until(self, at_s: float) -> None:
        """Return at ``at_s``, or earlier if woken."""
        ...


class Inventory(Protocol):
    """What exists."""

    def snapshot(self) -> ClusterSnapshot:
        """Devices, replicas and targets now. Raises UnavailableError."""
        ...


class MetricsSource(Protocol):
    """What the replicas and the gateway say."""

    def read(self, snapshot: ClusterSnapshot) -> Observations:
        """One reading, or the reason for none, for each ready or draining replica of the snapshot that has a metrics
        address, and for each service with a gateway. Bounded in time; one bad page never costs another's reading.
        Raises nothing.
        """
        ...


class ReplicaActuator(Protocol):
    """Who changes the number of replicas."""

    def scale(self, service: ServiceId, targets: Sequence[VariantTarget]) -> None:
        """Ask for these counts. Idempotent; returns before the replicas are there. Raises PortError."""
        ...


class DecisionStore(Protocol):
    """Where decisions go to be read by others."""

    def publish(self, decision: ServiceDecision) -> None:
        """Make it the service's latest. Raises PortError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRate:
    """A mean rate over [end_s - span_s, end_s]; ``lead_s``: how far ahead the forecaster will be asked to look.

    A gap (``end_s - span_s`` later than the end before) is unknown time, not zero load.
    """

    end_s: float
    span_s: float
    rate_rps: float
    lead_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What the ``quantile`` of the demand at ``now_s + lead_s`` will be, and ``further`` quantiles of it."""

    now_s: float
    lead_s: float
    quantile: float
    further: tuple[float, ...] = ()


class Forecaster(Protocol):
    """An online estimator of the demand to come; pure, its memory of a service is a ``Learned`` value.

    It takes many services at once, since most of the work on one is the same whatever their number. Each one's result
    is what it would be without the others. Raises ValueError where it refuses what any of them brings.
    """

    def start(self) -> Learned:
        """The memory of one that has seen nothing."""
        ...

    def learn_all(self, memories: Sequence[Learned], rates: Sequence[MeasuredRate]) -> list[Learned]:
        """Each memory with the rate of its own service taken in."""
        ...

    def forecast_all(self, memories: Sequence[Learned], questions: Sequence[Question]) -> list[Forecast | Unknown]:
        """From each memory the answer to its own question; Unknown(WARMING_UP) before enough was seen."""
        ...


class CapacityModel(Protocol):
    """An online estimator of what one replica can serve; pure, its memory is the ``Learned`` value."""

    def start(self) -> Learned:
        """The memory of one that has seen nothing."""
        ...

    def learn(self, learned: Learned, sample: LoadSample) -> Learned:
        """Take in one window of measured load."""
        ...

    def capacity(
        self, learned: Learned, *, variant: Variant, shape: RequestShape | Unknown, slo: Slo, fleet: int
    ) -> ReplicaCapacity | Unknown:
        """The rate of one replica, among ``fleet`` equal ones, with ``slo.share`` of requests within the SLO."""
        ...


class Publications(Protocol):
    """What may be told of each service, kept in memory: every answer comes at once, and wherever it is asked for."""

    def of(self, namespace: str, name: str) -> Publication | None:
        """The service's latest, None where no such service exists. Raises UnavailableError before all are known."""
        ...

    def within(self, namespace: str) -> Sequence[Publication]:
        """Those of a namespace, sorted by name. Raises UnavailableError before all are known."""
        ...

    def subscribe(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call ``wake`` after each change, in the writer's thread: it must return at once and raise nothing.

        Returns the function that ends it.
        """
        ...


class StartupModel(Protocol):
    """How long the next start will take, from past ones; pure."""

    def lead_time_s(self, *, starts_s: Sequence[float], still_starting_s: Sequence[float], assumed_s: float) -> float:
        """P90 of the measured start-up times; running starts that already took longer raise it.

        ``assumed_s`` answers while nothing was measured.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """The estimators that a decision uses."""

    forecaster: Forecaster
    capacity: CapacityModel
    startup: StartupModel


class Journal(Protocol):
    """Where ticks are kept, so that they can be explained, computed again, and continued after a restart."""

    def restore(self) -> ControllerState | None:
        """The state after the last recorded tick, or None where there is none (or it can't be read)."""
        ...

    def record(self, tick: Tick, plans: Plans, next_state: ControllerState) -> None:
        """Keep one tick: its inputs, its decision and the state after it. Raises PortError; nothing else is lost."""
        ...
