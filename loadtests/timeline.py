"""The fleet over time, as the controller told it: replicas, demand and forecast at each decision."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from autoscaler.domain.demand import Demand, Forecast
from autoscaler.domain.plan import ServiceDecision
from autoscaler.domain.reading import is_known


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSample:
    """One decision. ``at_s``: seconds since the begin of the load, negative before it. Unknown figures are
    None.
    """

    at_s: float
    ready: int
    starting: int
    draining: int
    desired: int
    demand_rps: float | None
    forecast_rps: float | None
    median_rps: float | None
    capacity_rps: float | None
    lead_s: float
    reason: str
    detail: str

    @property
    def paid(self) -> int:
        """Replicas that occupy their devices: boot and drain included."""
        return self.ready + self.starting + self.draining


def fleet_samples(decisions: Sequence[ServiceDecision], *, started_s: float) -> tuple[FleetSample, ...]:
    """The decisions in order of time, on the load's clock (``started_s``: its begin, seconds since the
    epoch).
    """
    ordered = sorted(decisions, key=lambda decision: decision.at_s)
    return tuple(_sample(decision, started_s) for decision in ordered)


def _sample(decision: ServiceDecision, started_s: float) -> FleetSample:
    demand, forecast, capacity = decision.demand, decision.forecast, decision.capacity
    rate = demand.short_rps if isinstance(demand, Demand) else None
    return FleetSample(
        at_s=decision.at_s - started_s,
        ready=decision.ready,
        starting=decision.starting,
        draining=decision.draining,
        desired=decision.desired,
        demand_rps=rate if rate is not None and is_known(rate) else None,
        forecast_rps=forecast.rps if isinstance(forecast, Forecast) else None,
        median_rps=forecast.median_rps if isinstance(forecast, Forecast) else None,
        capacity_rps=getattr(capacity, "rps", None),
        lead_s=decision.lead_s,
        reason=decision.binding.value,
        detail=_why(decision),
    )


def _why(decision: ServiceDecision) -> str:
    """The sentence of the last stage that gave the binding reason."""
    texts = [stage.detail for stage in decision.stages if stage.reason == decision.binding]
    return texts[-1] if texts else ""


def replica_seconds(samples: Sequence[FleetSample], *, until_s: float) -> float:
    """Replica-seconds paid from 0 to ``until_s``, each sample holding until the next one. Needs a sample
    at or before 0 s to be exact; without one the first sample is taken to have held from 0 s on.
    """
    total = 0.0
    for index, sample in enumerate(samples):
        begin = 0.0 if index == 0 else max(0.0, sample.at_s)
        end = samples[index + 1].at_s if index + 1 < len(samples) else until_s
        total += sample.paid * max(0.0, min(end, until_s) - min(begin, until_s))
    return total


def changes(samples: Sequence[FleetSample], *, until_s: float) -> int:
    """How often the desired number changed between 0 and ``until_s``."""
    within = [sample.desired for sample in samples if sample.at_s <= until_s]
    before = [sample.desired for sample in samples if sample.at_s <= 0]
    counted = within[max(0, len(before) - 1) :]
    return sum(a != b for a, b in itertools.pairwise(counted))
