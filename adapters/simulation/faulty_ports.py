"""The ports of a simulated world with faults in them: metrics that fail, an API that refuses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace

from adapters.simulation.clock import VirtualClock
from adapters.simulation.faults import Fault, FaultKind, active
from autoscaler.domain.cluster import ClusterSnapshot
from autoscaler.domain.plan import VariantTarget
from autoscaler.domain.reading import EngineReading, GatewayReading, Observations, Unknown, UnknownReason
from autoscaler.domain.service import ServiceId
from autoscaler.ports import ConflictError, Inventory, MetricsSource, ReplicaActuator, UnavailableError

_NAN = Unknown(UnknownReason.NOT_A_NUMBER, "NaN on the page")
_KEPT = ("replica", "at_s", "engine", "asleep", "sources", "warnings", "started_s", "heartbeat")
_WITHOUT = {
    FaultKind.SOURCE_DOWN: Unknown(UnknownReason.UNREACHABLE, "connection refused"),
    FaultKind.EMPTY_PAGES: Unknown(UnknownReason.EMPTY_PAGE, "no series on the page"),
}


class FaultySource:
    """A MetricsSource whose pages suffer from the faults that are on."""

    def __init__(self, inner: MetricsSource, *, clock: VirtualClock, faults: Sequence[Fault]) -> None:
        self._inner = inner
        self._clock = clock
        self._faults = tuple(faults)
        self._kept: Observations | None = None

    def read(self, snapshot: ClusterSnapshot) -> Observations:
        """What comes through."""
        seen = self._inner.read(snapshot)
        now_s = self._clock.elapsed_s
        seen = self._old(seen, now_s)
        for kind, reason in _WITHOUT.items():
            if active(self._faults, kind, now_s) is not None:
                seen = Observations(
                    at_s=seen.at_s,
                    engines=dict.fromkeys(seen.engines, reason),
                    gateways=dict.fromkeys(seen.gateways, reason),
                )
        if active(self._faults, FaultKind.NOT_A_NUMBER, now_s) is not None:
            seen = Observations(
                at_s=seen.at_s,
                engines={name: _without_numbers(each) for name, each in seen.engines.items()},
                gateways=dict.fromkeys(seen.gateways, _NAN),
            )
        dark = active(self._faults, FaultKind.PART_DARK, now_s)
        if dark is not None:
            hidden = sorted(seen.engines)[: round(dark.size * len(seen.engines))]
            unreachable = dict.fromkeys(hidden, _WITHOUT[FaultKind.SOURCE_DOWN])
            seen = replace(seen, engines={**seen.engines, **unreachable})
        skew = active(self._faults, FaultKind.SKEWED_CLOCK, now_s)
        if skew is not None:
            seen = _shifted(seen, lambda at_s: at_s + skew.size)
        return seen

    def _old(self, seen: Observations, now_s: float) -> Observations:
        """As at the begin of the fault, where pages are stale or frozen; replicas that are newer have none."""
        stale = active(self._faults, FaultKind.STALE_PAGES, now_s) is not None
        frozen = active(self._faults, FaultKind.FROZEN_PAGES, now_s) is not None
        if not (stale or frozen):
            self._kept = None
            return seen
        kept = self._kept = self._kept or seen
        lost = _WITHOUT[FaultKind.SOURCE_DOWN]
        old = Observations(
            at_s=seen.at_s,
            engines={name: kept.engines.get(name, lost) for name in seen.engines},
            gateways={name: kept.gateways.get(name, lost) for name in seen.gateways},
        )
        return _shifted(old, lambda _: seen.at_s) if frozen else old


class FaultyInventory:
    """An Inventory that can be out of reach."""

    def __init__(self, inner: Inventory, *, clock: VirtualClock, faults: Sequence[Fault]) -> None:
        self._inner = inner
        self._clock = clock
        self._faults = tuple(faults)

    def snapshot(self) -> ClusterSnapshot:
        """What exists. Raises UnavailableError while that fault is on."""
        if active(self._faults, FaultKind.INVENTORY_DOWN, self._clock.elapsed_s) is not None:
            raise UnavailableError("the cluster's API does not answer")
        return self._inner.snapshot()


class FaultyActuator:
    """A ReplicaActuator that can meet conflicts."""

    def __init__(self, inner: ReplicaActuator, *, clock: VirtualClock, faults: Sequence[Fault]) -> None:
        self._inner = inner
        self._clock = clock
        self._faults = tuple(faults)

    def scale(self, service: ServiceId, targets: Sequence[VariantTarget]) -> None:
        """Pass it on. Raises ConflictError while that fault is on."""
        if active(self._faults, FaultKind.CONFLICT, self._clock.elapsed_s) is not None:
            raise ConflictError("the object has been modified; apply your changes to the latest version")
        self._inner.scale(service, targets)


def _without_numbers(reading: EngineReading | Unknown) -> EngineReading | Unknown:
    """The engine's own series as NaN: not known, each of them. Those of its process stay."""
    if isinstance(reading, Unknown):
        return reading
    shown = {
        each.name: _NAN
        for each in fields(reading)
        if each.name not in _KEPT and not _is_never(getattr(reading, each.name))
    }
    return replace(reading, **shown)  # type: ignore[arg-type]


def _is_never(value: object) -> bool:
    return isinstance(value, Unknown) and value.reason is UnknownReason.NOT_EXPORTED


def _shifted(seen: Observations, moved: Callable[[float], float]) -> Observations:
    return Observations(
        at_s=seen.at_s,
        engines={
            name: replace(each, at_s=moved(each.at_s)) if isinstance(each, EngineReading) else each
            for name, each in seen.engines.items()
        },
        gateways={
            name: replace(each, at_s=moved(each.at_s)) if isinstance(each, GatewayReading) else each
            for name, each in seen.gateways.items()
        },
    )
