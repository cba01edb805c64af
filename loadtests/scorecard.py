"""How a load went: what the requests got, what the fleet cost, and what other fleets would have cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autoscaler.domain.service import Slo
from loadtests.baselines import Baseline
from loadtests.records import LoadResult, Outcome
from loadtests.timeline import FleetSample, changes, replica_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentiles:
    """Of a time in seconds, over the requests that have it; None where none has."""

    p50: float | None
    p95: float | None
    p99: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Percentiles:
        """Percentiles by linear interpolation between the sorted values."""
        if not values:
            return cls(p50=None, p95=None, p99=None)
        p50, p95, p99 = np.quantile(np.array(values), (0.5, 0.95, 0.99)).tolist()
        return cls(p50=p50, p95=p95, p99=p99)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceFigures:
    """What the requests got. Missed: not within the SLO, the refused and the unfinished included.

    ``ttft_s``: of requests that got a first token. ``itl_s``: over requests, each with the mean gap of its
    tokens. ``late_s``: how late the generator itself was; where it isn't small the load was not as planned.
    """

    label: str
    slo: Slo
    requests: int
    finished: int
    refused: int
    unfinished: int
    in_slo: int
    ttft_s: Percentiles
    itl_s: Percentiles
    late_s: Percentiles
    output_tokens: int

    @property
    def share_in_slo(self) -> float:
        """Share of all requests; 1 where there was none."""
        return self.in_slo / self.requests if self.requests else 1.0

    @property
    def lost(self) -> int:
        """Requests without a whole answer."""
        return self.refused + self.unfinished


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetFigures:
    """What the fleet cost from the load's first second to its last. ``changes`` of the desired number."""

    replica_seconds: float
    peak_replicas: int
    changes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scorecard:
    """All of it. ``failures``: why the run did not do its job; empty when it did."""

    service: ServiceFigures
    fleet: FleetFigures
    baselines: tuple[Baseline, ...]
    failures: tuple[str, ...]


def service_figures(result: LoadResult) -> ServiceFigures:
    """Judge every planned request; one without a record (the generator itself was stopped) is unfinished."""
    records, head = result.records, result.head
    outcomes = [record.outcome for record in records]
    missing = max(0, head.requests - len(records))
    return ServiceFigures(
        label=head.label,
        slo=head.slo,
        requests=len(records) + missing,
        finished=outcomes.count(Outcome.FINISHED),
        refused=outcomes.count(Outcome.REFUSED),
        unfinished=outcomes.count(Outcome.UNFINISHED) + missing,
        in_slo=sum(record.within(head.slo) for record in records),
        ttft_s=Percentiles.of([record.ttft_s for record in records if record.ttft_s is not None]),
        itl_s=Percentiles.of([record.itl_s for record in records if record.itl_s is not None]),
        late_s=Percentiles.of([record.late_s for record in records]),
        output_tokens=sum(record.output_tokens for record in records),
    )


def fleet_figures(samples: Sequence[FleetSample], *, duration_s: float) -> FleetFigures:
    """What the fleet cost during the load."""
    during = [sample.paid for sample in samples if 0 <= sample.at_s <= duration_s]
    return FleetFigures(
        replica_seconds=replica_seconds(samples, until_s=duration_s),
        peak_replicas=max(during, default=0),
        changes=changes(samples, until_s=duration_s),
    )


def score(
    service: ServiceFigures,
    fleet: FleetFigures,
    *,
    static: Baseline,
    others: Sequence[Baseline],
    required_share: float,
) -> Scorecard:
    """The card, judged: the share in SLO reached, no request lost, fewer replica-seconds than the static
    peak.
    """
    failures = []
    if not service.requests:
        failures.append("no request was sent")
    if service.share_in_slo < required_share:
        failures.append(f"{service.share_in_slo:.2%} of requests in SLO, {required_share:.0%} asked for")
    if service.lost:
        failures.append(f"{service.lost} requests without a whole answer")
    if not fleet.replica_seconds < static.replica_seconds:
        spent = f"{fleet.replica_seconds:.0f} replica-seconds"
        failures.append(f"{spent}, not fewer than the static peak's {static.replica_seconds:.0f}")
    return Scorecard(service=service, fleet=fleet, baselines=(static, *others), failures=tuple(failures))
