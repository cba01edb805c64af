"""A service's recent past, thin enough to draw and to keep for a thousand services."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from autoscaler.domain.demand import Demand, Forecast
from autoscaler.domain.plan import Hold, Reason, ServiceDecision, VariantTarget
from autoscaler.domain.reading import Measured, Unknown, UnknownReason, is_known
from autoscaler.domain.service import Service


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One service at one tick.

    ``forecast_rps`` is the ``forecast_quantile`` of the demand foreseen for ``forecast_for_s``, ``forecast_median_rps``
    its median. ``capacity_rps``: what one ready replica serves within the SLO. ``held``: why the service was left as it
    is, None where it was planned. ``cost_per_hour``: of the ready, starting and draining replicas, in the user's unit.
    """

    at_s: float
    short_rps: Measured
    stable_rps: Measured
    backlog: Measured
    forecast_rps: Measured
    forecast_median_rps: Measured
    forecast_quantile: Measured
    forecast_for_s: Measured
    capacity_rps: Measured
    attained: Measured
    cost_per_hour: Measured
    ready: int
    starting: int
    draining: int
    failed: int
    desired: int
    binding: Reason
    held: Reason | None

    @property
    def occupied(self) -> int:
        """Replicas that hold devices: ready, starting and draining."""
        return self.ready + self.starting + self.draining


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Points, oldest first, at most ``max_points`` of the last ``keep_s`` seconds.

    All are kept until there are too many; then the older of two that lie closer than ``spacing_s`` to their
    predecessor goes, and the spacing doubles as often as it must, so that a short past is shown in full and a long one
    evenly. The newest point is always there.
    """

    keep_s: float
    max_points: int
    points: tuple[Point, ...] = ()
    spacing_s: float = 0.0

    def with_point(self, point: Point) -> Timeline:
        """With one more; those at or after its time are dropped (a clock set back, a repeated tick)."""
        kept = list(self.points)
        while kept and kept[-1].at_s >= point.at_s:
            kept.pop()
        if len(kept) >= 2 and point.at_s - kept[-2].at_s < self.spacing_s:
            kept.pop()
        oldest_s = point.at_s - self.keep_s
        first = next((index for index, old in enumerate(kept) if old.at_s >= oldest_s), len(kept))
        return replace(self, points=(*kept[first:], point))._thinned()

    def resized(self, max_points: int) -> Timeline:
        """The same past under another limit."""
        return replace(self, max_points=max_points)._thinned()

    def since(self, since_s: float) -> tuple[Point, ...]:
        """The points at or after ``since_s``."""
        return tuple(point for point in self.points if point.at_s >= since_s)

    def _thinned(self) -> Timeline:
        points, spacing_s = self.points, self.spacing_s
        while len(points) > self.max_points:
            spacing_s = spacing_s * 2 if spacing_s > 0 else (points[-1].at_s - points[0].at_s) / self.max_points
            points = _spaced(points, spacing_s)
        return replace(self, points=points, spacing_s=spacing_s)


def _spaced(points: tuple[Point, ...], spacing_s: float) -> tuple[Point, ...]:
    kept: list[Point] = []
    for point in points:
        if len(kept) >= 2 and point.at_s - kept[-2].at_s < spacing_s:
            kept.pop()
        kept.append(point)
    return tuple(kept)


def point_of(decision: ServiceDecision, service: Service | None) -> Point:
    """What the charts need of a decision; ``service`` knows the variants' cost (None: cost unknown)."""
    demand, forecast, capacity = decision.demand, decision.forecast, decision.capacity
    counted = demand if isinstance(demand, Demand) else None
    foreseen = forecast if isinstance(forecast, Forecast) else None
    no_demand = demand if isinstance(demand, Unknown) else Unknown(UnknownReason.NO_OBSERVATIONS)
    no_forecast = forecast if isinstance(forecast, Unknown) else Unknown(UnknownReason.WARMING_UP)
    return Point(
        at_s=decision.at_s,
        short_rps=finite(counted.short_rps) if counted else no_demand,
        stable_rps=finite(counted.stable_rps) if counted else no_demand,
        backlog=finite(counted.backlog) if counted else no_demand,
        forecast_rps=finite(foreseen.rps) if foreseen else no_forecast,
        forecast_median_rps=finite(foreseen.median_rps) if foreseen else no_forecast,
        forecast_quantile=finite(foreseen.quantile) if foreseen else no_forecast,
        forecast_for_s=finite(foreseen.at_s + foreseen.lead_s) if foreseen else no_forecast,
        capacity_rps=capacity if isinstance(capacity, Unknown) else finite(capacity.rps),
        attained=finite(counted.attained) if counted else no_demand,
        cost_per_hour=_cost_per_hour(decision, service),
        ready=decision.ready,
        starting=decision.starting,
        draining=decision.draining,
        failed=decision.failed,
        desired=decision.desired,
        binding=decision.binding,
        held=decision.outcome.reason if isinstance(decision.outcome, Hold) else None,
    )


def finite(value: Measured) -> Measured:
    """The value; NaN and the infinities, which JSON can't say, as Unknown(NOT_A_NUMBER)."""
    if is_known(value) and not math.isfinite(value):
        return Unknown(UnknownReason.NOT_A_NUMBER, str(value))
    return value


def _cost_per_hour(decision: ServiceDecision, service: Service | None) -> Measured:
    """Cost of the replicas that hold devices.

    A decision counts phases over all variants, so several variants are weighed as they were asked for; where none was
    asked for (the last one drains) the dearest is taken.
    """
    if service is None:
        return Unknown(UnknownReason.NOT_EXPORTED, "the service is not in the configuration")
    prices = {variant.name: variant.cost for variant in service.variants}
    asked = _asked(decision.current) or _asked(decision.targets())
    missing = sorted({target.variant for target in asked} - prices.keys())
    if missing:
        return Unknown(UnknownReason.NOT_EXPORTED, f"no cost is configured for variant {missing[0]}")
    occupied = decision.ready + decision.starting + decision.draining
    if not asked:
        return occupied * max(prices.values())
    total = sum(prices[target.variant] * target.replicas for target in asked)
    return occupied * total / sum(target.replicas for target in asked)


def _asked(targets: tuple[VariantTarget, ...]) -> tuple[VariantTarget, ...]:
    return tuple(target for target in targets if target.replicas > 0)
