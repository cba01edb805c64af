"""The warm-up is the same for whoever decides, and for the bound."""

from __future__ import annotations

import dataclasses

import pytest
from typer.testing import CliRunner

from adapters.simulation.delays import Fixed
from adapters.simulation.fluid_fleet import FluidModel
from adapters.simulation.replicas import ReplicaKind
from autoscaler.cli import app
from loadtests.bounds.layers import b60
from loadtests.compare.choice import Choice, ChoiceError
from loadtests.compare.choosing import study_of
from loadtests.compare.records import Record
from loadtests.compare.running import FLUID_SERVICE_S, facts_of, initial_replicas, perform
from loadtests.compare.store import key_of
from loadtests.compare.study import OURS, Case, OurPolicy, Policy, RivalPolicy, Run
from loadtests.rivals.roster import rival
from loadtests.simulation.ours import SHIPPED
from loadtests.simulation.rivalry import Rivalry
from loadtests.simulation.run import simulate
from loadtests.simulation.setup import FluidServing, Setup

WARMUP_S = 420
SHIPPED_POLICY = OurPolicy(label=OURS, text=SHIPPED.text)
POLICIES: list[Policy] = [
    SHIPPED_POLICY,
    *(RivalPolicy(label=name, knob=0.8) for name in ("HPA, request rate", "Ray Serve")),
]


@pytest.fixture(scope="module")
def cold(choice: Choice) -> Case:
    """It grows within the warm-up, and again after it."""
    traces = ("steps:2x120,10x400,4x300,16x400",)
    return study_of(dataclasses.replace(choice, traces=traces, seeds=1, metric_lag_s=0.0)).cases[0]


@pytest.fixture(scope="module")
def warm(cold: Case) -> Case:
    return dataclasses.replace(cold, warmup_s=WARMUP_S)


def records(case: Case) -> list[Record]:
    return [perform(Run(case=case, policy=policy, seed=0)) for policy in POLICIES]


def test_all_are_scored_on_the_same_requests_against_the_same_bound(cold: Case, warm: Case) -> None:
    scored = warm.workload.counts(0).arrivals[WARMUP_S:]
    bound = b60(scored, capacity_rps=warm.capacity_rps, boot_s=warm.boot_s, min_replicas=1)
    for record, whole in zip(records(warm), records(cold), strict=True):
        assert record.requests == scored.sum()
        assert record.bound_hours == pytest.approx(bound.replica_hours)
        assert record.hours == pytest.approx(len(scored) / 3600)
        assert record.buckets.missed.sum() == pytest.approx(record.missed, abs=1e-6)
        assert len(record.buckets.ready) * record.buckets.bucket_s == pytest.approx(len(scored), abs=15)
        assert record.gpu_hours < whole.gpu_hours
        assert record.missed <= whole.missed + 1e-6
        assert record.changes <= whole.changes


@pytest.mark.parametrize(
    ("label", "knob", "tolerance"),
    [("static peak", 1.0, 1e-9), ("HPA, request rate", 0.7, 1e-9), ("Ray Serve", 0.8, 0.02)],
)
def test_a_swept_rival_is_scored_as_one_in_the_world(warm: Case, label: str, knob: float, tolerance: float) -> None:
    """The sweep's fast run and the event queue agree on what was paid and missed after the warm-up."""
    counts = warm.workload.counts(0)
    swept = perform(Run(case=warm, policy=RivalPolicy(label=label, knob=knob), seed=0))
    model = FluidModel(capacity_rps=warm.capacity_rps, service_s=FLUID_SERVICE_S)
    scored = dataclasses.replace(counts, arrivals=counts.arrivals[WARMUP_S:])
    world = simulate(
        Setup(
            serving=FluidServing(arrivals=counts, model=model),
            slo=warm.slo,
            bounds=warm.bounds,
            kinds=(ReplicaKind(startup=Fixed(warm.boot_s)),),
            initial=initial_replicas(warm, counts.arrivals),
            warmup_s=float(WARMUP_S),
        ),
        Rivalry(contender=dataclasses.replace(rival(label), lag_s=0.0), facts=facts_of(warm, scored), knob=knob),
        seed=0,
    )
    assert swept.gpu_hours == pytest.approx(world.gpu_hours, rel=tolerance)
    assert swept.missed == pytest.approx(world.score.missed, rel=tolerance, abs=1e-6 + 20 * (tolerance > 1e-6))
    assert swept.changes == world.changes or tolerance > 1e-6


def test_it_is_a_part_of_the_key(cold: Case, warm: Case) -> None:
    assert key_of(Run(case=cold, policy=SHIPPED_POLICY, seed=0)) != key_of(
        Run(case=warm, policy=SHIPPED_POLICY, seed=0)
    )


@pytest.mark.parametrize("warmup_s", [pytest.param(1220.0, id="all of it"), pytest.param(0.5, id="half a second")])
def test_impossible_ones_are_told(choice: Choice, warmup_s: float) -> None:
    traces = ("steps:2x120,10x400,4x300,16x400",)
    with pytest.raises(ChoiceError, match=r"--warmup must be whole seconds.*\(20m20s\), got"):
        study_of(dataclasses.replace(choice, traces=traces, warmup_s=warmup_s))


@pytest.mark.parametrize("word", ["soon", "-1m", "90"])
def test_what_is_no_duration_is_told(word: str) -> None:
    answer = CliRunner().invoke(app, ["compare", "--trace", "steps:1x60", f"--warmup={word}"])
    assert answer.exit_code == 2
    assert f'--warmup: not a duration such as "500ms", "2s" or "1m30s", got {word!r}' in answer.stderr
