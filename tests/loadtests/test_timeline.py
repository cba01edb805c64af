"""The fleet's timeline from decisions, and what it cost."""

from __future__ import annotations

import dataclasses

import pytest

from autoscaler.domain.capacity import CapacityLimit, CapacitySource, ReplicaCapacity
from autoscaler.domain.demand import Forecast
from autoscaler.domain.plan import Plan, Reason, ServiceDecision, Stage, StageResult, VariantTarget
from autoscaler.domain.reading import Unknown, UnknownReason
from autoscaler.domain.service import ServiceId
from loadtests.scorecard import fleet_figures
from loadtests.timeline import FleetSample, changes, fleet_samples, replica_seconds

UNKNOWN = Unknown(UnknownReason.WARMING_UP)


def decision(at_s: float, *, ready: int, starting: int = 0, draining: int = 0, desired: int) -> ServiceDecision:
    return ServiceDecision(
        service=ServiceId("chat"),
        at_s=at_s,
        outcome=Plan(targets=(VariantTarget(variant="default", replicas=desired),)),
        stages=(
            StageResult(stage=Stage.SIZE, replicas=desired, reason=Reason.FORECAST_LOAD, detail="foreseen"),
            StageResult(stage=Stage.LIMIT, replicas=desired, reason=Reason.WITHIN_BOUNDS, detail="allowed"),
        ),
        binding=Reason.FORECAST_LOAD,
        current=(),
        demand=UNKNOWN,
        forecast=Forecast(at_s=at_s, lead_s=5.0, quantile=0.9, rps=7.0, median_rps=6.0, skill=None, by="mixture"),
        capacity=ReplicaCapacity(rps=2.0, limit=CapacityLimit.ITL, source=CapacitySource.PROFILE),
        ready=ready,
        starting=starting,
        draining=draining,
        failed=0,
        lead_s=5.0,
    )


def samples(*decisions: ServiceDecision) -> tuple[FleetSample, ...]:
    return fleet_samples(decisions, started_s=1000.0)


def test_decisions_become_samples_on_the_loads_clock() -> None:
    later, first = decision(1010.0, ready=2, starting=1, desired=3), decision(995.0, ready=1, desired=1)
    before, after = samples(later, first)
    assert (before.at_s, after.at_s) == (-5.0, 10.0)
    assert (after.ready, after.starting, after.draining, after.desired, after.paid) == (2, 1, 0, 3, 3)
    assert (after.forecast_rps, after.median_rps, after.capacity_rps) == (7.0, 6.0, 2.0)
    assert after.demand_rps is None
    assert (after.reason, after.detail) == ("ForecastLoad", "foreseen")


def test_unknown_stays_unknown() -> None:
    blind = dataclasses.replace(decision(1000.0, ready=1, desired=1), forecast=UNKNOWN, capacity=UNKNOWN)
    [sample] = samples(blind)
    assert (sample.forecast_rps, sample.median_rps, sample.capacity_rps) == (None, None, None)


TIMELINE = (
    decision(990.0, ready=1, desired=1),
    decision(1010.0, ready=1, starting=2, desired=3),
    decision(1020.0, ready=3, desired=3),
    decision(1050.0, ready=2, draining=1, desired=2),
    decision(1060.0, ready=2, desired=2),
    decision(1200.0, ready=1, desired=1),
)


@pytest.mark.parametrize(
    ("until_s", "expected"),
    [
        pytest.param(10.0, 10, id="before the first change"),
        pytest.param(100.0, 10 + 3 * 10 + 3 * 30 + 3 * 10 + 2 * 40, id="boot and drain are paid"),
        pytest.param(55.0, 10 + 3 * 10 + 3 * 30 + 3 * 5, id="cut inside a sample"),
    ],
)
def test_replica_seconds(until_s: float, expected: float) -> None:
    assert replica_seconds(samples(*TIMELINE), until_s=until_s) == pytest.approx(expected)


def test_figures_count_the_load_alone() -> None:
    figures = fleet_figures(samples(*TIMELINE), duration_s=100.0)
    assert (figures.replica_seconds, figures.peak_replicas, figures.changes) == (240.0, 3, 2)


def test_change_at_the_very_begin_counts() -> None:
    ordered = samples(decision(999.0, ready=1, desired=1), decision(1001.0, ready=1, desired=4))
    assert changes(ordered, until_s=100.0) == 1


def test_no_decision_costs_nothing() -> None:
    assert replica_seconds((), until_s=10.0) == 0.0
    assert changes((), until_s=10.0) == 0
