"""KEDA: an external metric through an HPA, and its own switch between zero and one replica.

Sources: kedacore/keda, ``pkg/scaling/executor/scale_scaledobjects.go`` (activation, cooldown; 1..N is the HPA's),
``pkg/scalers/prometheus_scaler.go`` (``ignoreNullValues``), ``apis/keda/v1alpha1/scaledobject_types.go`` (defaults:
polling interval 30 s, cooldown 300 s, metric type AverageValue, activation threshold 0). The HPA reads the metric live
at each of its syncs; the polling interval rules activation alone.

With at least one replica and a healthy source it is an HPA with an AverageValue target. It differs where data are
missing: an answer without a value counts as zero by default (``ignoreNullValues: true``), while an error of the
source holds. The queue trigger is that of vllm-project/production-stack's chart
(``helm/templates/scaledobject-vllm.yaml``: waiting requests, threshold 5, polling 15 s, cooldown 360 s), read as the
sum over pods: as shipped, its query gives one series a pod and fails from the second pod on.
"""

from __future__ import annotations

from dataclasses import dataclass

from autoscaler.domain.reading import Measured, Unknown, UnknownReason
from loadtests.rivals.hpa import SOURCES, SYNC_S, UTILISATION, Read, arrivals, average_hpa
from loadtests.rivals.hpa_limits import Behavior
from loadtests.rivals.seen import Bounds, Contender, Facts, Knob, Rival, Seen

# What a query without a result, or with one that isn't a number, looks like; anything else is an error.
_NULL = frozenset({UnknownReason.EMPTY_PAGE, UnknownReason.MISSING_SERIES, UnknownReason.NOT_A_NUMBER})


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledObject:
    """The settings of one ScaledObject with one Prometheus trigger. ``threshold``: per replica."""

    threshold: float
    activation: float = 0.0
    polling_s: float = 30.0
    cooldown_s: float = 300.0
    ignore_null_values: bool = True
    behavior: Behavior | None = None


class Keda:
    """One ScaledObject."""

    def __init__(self, settings: ScaledObject, read: Read, bounds: Bounds) -> None:
        self._settings = settings
        self._read = read
        self._bounds = bounds
        # KEDA's HPA has at least one replica; zero is KEDA's own business.
        awake = Bounds(min_replicas=max(1, bounds.min_replicas), max_replicas=bounds.max_replicas)
        self._hpa = average_hpa(self._value, settings.threshold, awake, settings.behavior)
        self._active_at_s: float | None = None
        self._polled_at_s: float | None = None
        self._asleep = False

    def desired(self, seen: Seen) -> int:
        """One sync of the HPA, and a poll when one is due."""
        if self._bounds.min_replicas == 0:
            self._poll(seen)
            if self._asleep:
                return 0
            if seen.desired == 0:
                return 1
        return self._hpa.desired(seen)

    def _poll(self, seen: Seen) -> None:
        due = self._polled_at_s is None or seen.now_s - self._polled_at_s >= self._settings.polling_s
        if not due:
            return
        self._polled_at_s = seen.now_s
        value = self._value(seen)
        if isinstance(value, Unknown):
            return
        if value > self._settings.activation:
            self._asleep, self._active_at_s = False, seen.now_s
        elif self._active_at_s is None or seen.now_s - self._active_at_s >= self._settings.cooldown_s:
            # A ScaledObject that was never active goes to zero at once (initialCooldownPeriod 0).
            self._asleep = True

    def _value(self, seen: Seen) -> Measured:
        value = self._read(seen)
        if isinstance(value, Unknown) and value.reason in _NULL and self._settings.ignore_null_values:
            return 0.0
        return value


def _by_rate(share: float, bounds: Bounds, facts: Facts) -> Rival:
    return Keda(ScaledObject(threshold=share * facts.capacity_rps), arrivals, bounds)


def _by_queue(threshold: float, bounds: Bounds, facts: Facts) -> Rival:
    del facts
    return Keda(
        ScaledObject(threshold=threshold, polling_s=15.0, cooldown_s=360.0),
        lambda seen: seen.waiting(0.0),
        bounds,
    )


KEDA_RATE = Contender(
    name="KEDA, request rate",
    how="KEDA, Prometheus trigger: requests/s by a share of a replica's capacity, empty answers read as zero",
    sources=(
        "kedacore/keda pkg/scaling/executor/scale_scaledobjects.go",
        "kedacore/keda pkg/scalers/prometheus_scaler.go",
        *SOURCES,
    ),
    interval_s=SYNC_S,
    lag_s=None,
    knob=UTILISATION,
    make=_by_rate,
)
KEDA_QUEUE = Contender(
    name="KEDA, waiting requests",
    how="KEDA with the trigger of vLLM production-stack's chart: waiting requests by 5 a replica",
    sources=("vllm-project/production-stack helm/templates/scaledobject-vllm.yaml", *KEDA_RATE.sources),
    interval_s=SYNC_S,
    lag_s=None,
    knob=Knob(
        name="waiting requests a replica",
        default=5.0,
        values=(50.0, 20.0, 10.0, 5.0, 3.0, 2.0, 1.0, 0.5, 0.2, 0.1, 0.05, 0.02),
    ),
    make=_by_queue,
)
