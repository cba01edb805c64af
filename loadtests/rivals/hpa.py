"""Kubernetes' HorizontalPodAutoscaler on an external or per-pod metric.

Source: kubernetes/kubernetes, ``pkg/controller/podautoscaler/replica_calculator.go`` (``GetExternalMetricReplicas``,
``GetExternalPerPodMetricReplicas``, ``calcPlainMetricReplicas``, ``getUsageRatioReplicaCount``) and
``horizontal.go``; defaults: sync every 15 s, tolerance 0.1, stabilization 300 s down and 0 s up. Values are compared
in whole thousandths, as the HPA does (``Quantity.MilliValue``, rounded up).

The HPA has no target of its own: the user sets it. Here the target is a share (the knob) of what a replica is truly
able to do, 80 % by default, which favours it: users seldom know that number. Its metric is read through the metrics
source of the run, as a 60-second mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from autoscaler.domain.reading import Measured, Unknown
from loadtests.rivals.hpa_limits import Behavior, HpaLimits
from loadtests.rivals.seen import Bounds, Contender, Facts, Knob, Rival, Seen

SYNC_S = 15.0
RATE_WINDOW_S = 60.0
SOURCES = (
    "kubernetes/kubernetes pkg/controller/podautoscaler/replica_calculator.go",
    "kubernetes/kubernetes pkg/controller/podautoscaler/horizontal.go",
)
UTILISATION = Knob(
    name="target, share of capacity",
    default=0.8,
    values=(1.3, 1.2, 1.1, 1.05, 1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6, 0.55, 0.5, 0.45, 0.4, 0.3, 0.2),
)

Read = Callable[[Seen], Measured]


@dataclass(frozen=True, slots=True)
class Tolerances:
    """Shares of the target within which the replicas stay (both ends included)."""

    down: float = 0.1
    up: float = 0.1

    def hold(self, ratio: float) -> bool:
        """Whether ``ratio`` of the metric to its target asks for no change."""
        return 1.0 - self.down <= ratio <= 1.0 + self.up


def by_value(usage: int, target: int, *, current: int, ready: int, tolerances: Tolerances) -> int:
    """Target type ``Value``: the ratio scales the ready pods. ``usage`` and ``target`` in thousandths."""
    ratio = usage / target
    if current == 0:
        return math.ceil(ratio)
    return current if tolerances.hold(ratio) else math.ceil(ratio * ready)


def by_average(usage: int, target: int, *, pods: int, tolerances: Tolerances) -> int:
    """Target type ``AverageValue``: the total by the target. ``pods``: all of them, ready or not."""
    if pods and tolerances.hold(usage / (target * pods)):
        return pods
    return math.ceil(usage / target)


def by_pods(
    values: list[int], target: int, *, current: int, missing: int, unready: int, tolerances: Tolerances
) -> int | None:
    """Metric type ``Pods``: the mean of ``values`` by the target; None without any value (the HPA then holds).

    Pods without a metric count as the target on the way down and as zero on the way up; ``unready`` (not Running) as
    zero on the way up. A direction that this turns around is not followed.
    """
    if not values:
        return None
    ratio = sum(values) / len(values) / target
    grows_with_unready = unready > 0 and ratio > 1.0
    if not grows_with_unready and not missing:
        return current if tolerances.hold(ratio) else math.ceil(ratio * len(values))
    counted = len(values) + missing + (unready if grows_with_unready else 0)
    total = sum(values) + (missing * target if ratio < 1.0 else 0)
    imputed = total / counted / target
    if tolerances.hold(imputed) or (ratio < 1.0 < imputed) or (imputed < 1.0 < ratio):
        return current
    replicas = math.ceil(imputed * counted)
    turned = (imputed < 1.0 and replicas > current) or (imputed > 1.0 and replicas < current)
    return current if turned else replicas


class Hpa:
    """One HPA with one metric. ``recommend``: replicas, or None when the metric can't be had (the HPA then holds)."""

    def __init__(self, recommend: Callable[[Seen, Tolerances], int | None], limits: HpaLimits, bounds: Bounds) -> None:
        self._recommend = recommend
        self._limits = limits
        self._bounds = bounds
        self._tolerances = Tolerances(*limits.tolerances)

    def desired(self, seen: Seen) -> int:
        """One sync."""
        recommended = self._recommend(seen, self._tolerances)
        if recommended is None:
            return self._bounds.within(seen.desired)
        return self._limits.limited(seen.now_s, seen.desired, recommended)


def arrivals(seen: Seen) -> Measured:
    """Requests per second, all replicas together."""
    return seen.rate_rps(RATE_WINDOW_S)


def unanswered(seen: Seen) -> Measured:
    """Requests in flight, queued ones included, all replicas together."""
    return seen.in_flight(RATE_WINDOW_S)


def milli(value: float) -> int:
    """Whole thousandths, rounded up (a quantity's ``MilliValue``)."""
    # Nothing is rounded up for the noise of binary fractions.
    return math.ceil(value * 1000 - 1e-6)


def average_hpa(read: Read, target: float, bounds: Bounds, behavior: Behavior | None = None) -> Rival:
    """An HPA on a total with an ``AverageValue`` target."""

    def recommend(seen: Seen, tolerances: Tolerances) -> int | None:
        total = read(seen)
        if isinstance(total, Unknown):
            return None
        return by_average(milli(total), milli(target), pods=seen.ready + seen.starting, tolerances=tolerances)

    return Hpa(recommend, HpaLimits(behavior, bounds), bounds)


def value_hpa(read: Read, target: float, bounds: Bounds, behavior: Behavior | None = None) -> Rival:
    """An HPA with a ``Value`` target on the mean over the ready replicas of what ``read`` gives in total.

    A ``Value`` target on the total itself would multiply the fleet without end; the mean is what its users mean.
    """

    def recommend(seen: Seen, tolerances: Tolerances) -> int | None:
        total = read(seen)
        if isinstance(total, Unknown) or not seen.ready:
            return None
        usage = milli(total / seen.ready)
        return by_value(usage, milli(target), current=seen.desired, ready=seen.ready, tolerances=tolerances)

    return Hpa(recommend, HpaLimits(behavior, bounds), bounds)


def pods_hpa(target: float, bounds: Bounds, behavior: Behavior | None = None) -> Rival:
    """An HPA on each pod's requests in flight. A pod that still loads its model is Running without a metric."""

    def recommend(seen: Seen, tolerances: Tolerances) -> int | None:
        each = seen.per_replica(0.0)
        values = [milli(value) for value in (each.running + each.waiting).tolist() if not math.isnan(value)]
        missing = len(each.running) - len(values) + seen.starting
        return by_pods(values, milli(target), current=seen.desired, missing=missing, unready=0, tolerances=tolerances)

    return Hpa(recommend, HpaLimits(behavior, bounds), bounds)


def _contender(name: str, how: str, make: Callable[[float, Bounds, Facts], Rival]) -> Contender:
    return Contender(name=name, how=how, sources=SOURCES, interval_s=SYNC_S, lag_s=None, knob=UTILISATION, make=make)


HPA_RATE = _contender(
    "HPA, request rate",
    "HPA, external metric, AverageValue: requests/s by a share of a replica's capacity",
    lambda share, bounds, facts: average_hpa(arrivals, share * facts.capacity_rps, bounds),
)
HPA_IN_FLIGHT = _contender(
    "HPA, in flight",
    "HPA, external metric, AverageValue: requests in flight by a share of those at a replica's capacity",
    lambda share, bounds, facts: average_hpa(unanswered, share * facts.concurrency, bounds),
)
HPA_VALUE = _contender(
    "HPA, utilisation",
    "HPA, external metric, Value: the mean utilisation of ready replicas",
    lambda share, bounds, facts: value_hpa(arrivals, share * facts.capacity_rps, bounds),
)
HPA_PODS = _contender(
    "HPA, in flight per pod",
    "HPA, Pods metric: each pod's requests in flight, pods without a metric imputed",
    lambda share, bounds, facts: pods_hpa(share * facts.concurrency, bounds),
)
