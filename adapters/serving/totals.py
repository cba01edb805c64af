"""What only ever grows: counts of decisions and unknowns, replica time and cost, and how long ticks took."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from adapters.serving.timeline import Point
from autoscaler.domain.demand import Demand
from autoscaler.domain.plan import ServiceDecision
from autoscaler.domain.reading import Unknown, is_known

TICK_BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Of one service, since this process started.

    ``decisions`` by reason, ``unknowns`` by (signal, reason). ``replica_s``: seconds that ready, starting and draining
    replicas existed. ``cost``: what they cost, in the user's unit, where a cost was known. ``grown``/``shrunk``:
    changes of the desired number.
    """

    decisions: Mapping[str, int] = field(default_factory=dict)
    unknowns: Mapping[tuple[str, str], int] = field(default_factory=dict)
    replica_s: float = 0.0
    cost: float = 0.0
    grown: int = 0
    shrunk: int = 0

    def after(self, decision: ServiceDecision, point: Point, before: Point | None, longest_s: float) -> Totals:
        """With one more decision; ``before``: the point before it, None at the first.

        The time between two decisions is charged with the replicas of the earlier one, but no more than ``longest_s``
        of it: what happened during a longer silence is not known.
        """
        unknowns = dict(self.unknowns)
        for signal, unknown in unknowns_of(decision):
            key = (signal, unknown.reason.value)
            unknowns[key] = unknowns.get(key, 0) + 1
        reason = decision.binding.value
        counted = replace(
            self,
            decisions={**self.decisions, reason: self.decisions.get(reason, 0) + 1},
            unknowns=unknowns,
        )
        if before is None:
            return counted
        span_s = min(max(0.0, point.at_s - before.at_s), longest_s)
        price = before.cost_per_hour
        return replace(
            counted,
            replica_s=self.replica_s + before.occupied * span_s,
            cost=self.cost + (price * span_s / 3600 if is_known(price) else 0.0),
            grown=self.grown + (point.desired > before.desired),
            shrunk=self.shrunk + (point.desired < before.desired),
        )


def unknowns_of(decision: ServiceDecision) -> Iterator[tuple[str, Unknown]]:
    """The inputs of a decision that were not known, by signal."""
    demand = decision.demand
    if isinstance(demand, Demand):
        for signal in ("short_rps", "stable_rps", "backlog", "in_flight", "shape", "attained"):
            value = getattr(demand, signal)
            if isinstance(value, Unknown):
                yield signal, value
    else:
        yield "demand", demand
    for signal, estimate in (("forecast", decision.forecast), ("capacity", decision.capacity)):
        if isinstance(estimate, Unknown):
            yield signal, estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticks:
    """Rounds of the control loop. ``buckets``: durations by ``TICK_BOUNDS_S``, one more for those beyond."""

    last_s: float | None = None
    duration_sum_s: float = 0.0
    buckets: tuple[int, ...] = (0,) * (len(TICK_BOUNDS_S) + 1)

    def after(self, at_s: float, duration_s: float) -> Ticks:
        """With one more, begun at ``at_s``."""
        index = bisect_left(TICK_BOUNDS_S, duration_s)
        buckets = (*self.buckets[:index], self.buckets[index] + 1, *self.buckets[index + 1 :])
        return Ticks(last_s=at_s, duration_sum_s=self.duration_sum_s + duration_s, buckets=buckets)
