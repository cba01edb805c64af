"""Whole runs: equal seeds, honest accounts, and rivals in the same world."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from adapters.simulation.delays import Fixed, Lognormal
from adapters.simulation.fluid_fleet import FluidModel
from adapters.simulation.replicas import ReplicaKind
from adapters.simulation.source import Scraping
from autoscaler.codec import encode
from autoscaler.domain.plan import ServiceDecision
from autoscaler.domain.service import Bounds, ServiceId, Slo
from loadtests.rivals.seen import Bounds as RivalBounds
from loadtests.rivals.seen import Contender, Facts, Knob, Seen
from loadtests.simulation.ours import SHIPPED, Ours, Told, control
from loadtests.simulation.result import RunResult
from loadtests.simulation.rivalry import Rivalry
from loadtests.simulation.run import simulate, simulate_together
from loadtests.simulation.setup import SERVICE, FluidServing, Setup
from loadtests.simulation.world import World
from loadtests.workloads.workload import SecondCounts
from tests.simulation.world.runs import KINDS, counts, setup, step

NOTHING_KNOWN = Facts(capacity_rps=10.0)


def uneven(duration_s: int = 3600) -> SecondCounts:
    return counts(40.0 + 30.0 * np.sin(np.arange(duration_s) / 300.0))


class Always:
    """Wants so many, whatever comes."""

    def __init__(self, replicas: int) -> None:
        self.replicas = replicas
        self.seen: list[Seen] = []

    def desired(self, seen: Seen) -> int:
        self.seen.append(seen)
        return self.replicas


def always(replicas: int, *, interval_s: float = 15.0, lag_s: float | None = 0.0) -> Rivalry:
    def make(knob: float, bounds: RivalBounds, facts: Facts) -> Always:
        return Always(int(knob))

    knob = Knob(name="replicas", default=float(replicas), values=(float(replicas),))
    contender = Contender(
        name="always", how="as told", sources=(), interval_s=interval_s, lag_s=lag_s, knob=knob, make=make
    )
    return Rivalry(contender=contender, facts=NOTHING_KNOWN)


def decisions(world_setup: Setup, seed: int) -> bytes:
    told: list[ServiceDecision] = []
    control(World({SERVICE: world_setup}, seed), SHIPPED, told=Told(listener=told.append))
    return b"\n".join(encode(each) for each in told)


def test_the_same_seed_gives_the_same_bytes_and_another_does_not() -> None:
    kinds = (ReplicaKind(startup=Lognormal(median_s=40.0, p95_s=90.0)),)
    some = replace(setup(uneven(1800)), kinds=kinds, scraping=Scraping(interval_s=10.0, phase_s=3.0, missing=0.05))
    first = decisions(some, seed=1)
    assert first == decisions(some, seed=1)
    assert first != decisions(some, seed=2)


def flat_counts(rps: int, duration_s: int) -> SecondCounts:
    return SecondCounts(arrivals=np.full(duration_s, rps, dtype=np.int64), prompt_tokens=1.0, output_tokens=1.0)


def test_boot_and_drain_are_paid() -> None:
    """2 replicas for an hour; 3 more from 15 s on, of which 60 s of boot; then drains of 3 s."""
    fixed = setup(flat_counts(5, 3600), initial=2)
    assert simulate(fixed, always(2), seed=0).gpu_hours == pytest.approx(2.0)
    assert simulate(fixed, always(5), seed=0).gpu_hours == pytest.approx(5.0)
    assert simulate(replace(fixed, initial=5), always(2), seed=0).gpu_hours == pytest.approx(2.0 + 3 * 3.0 / 3600)


def test_what_is_not_served_is_missed() -> None:
    """12 requests/s on one replica of 10: the queue grows, so what is served late and never served are misses."""
    result = simulate(setup(flat_counts(12, 600), initial=1), always(1), seed=0)
    # At 2/s the queue reaches two seconds of work after 10 s; from then on all is late.
    assert result.score.missed == pytest.approx(12 * 600 - 12 * 12, abs=24)
    assert result.score.requests == 7200


def test_refused_requests_are_missed() -> None:
    held = FluidModel(capacity_rps=100.0, held_limit=50)
    nothing = replace(
        setup(flat_counts(10, 60), initial=0),
        serving=FluidServing(arrivals=flat_counts(10, 60), model=held),
        bounds=Bounds(min_replicas=0, max_replicas=3),
    )
    result = simulate(nothing, always(0), seed=0)
    assert result.share_in_slo == 0.0
    assert result.score.requests == 600
    assert result.gpu_hours == 0.0


def test_requests_lost_with_a_drain_that_is_cut_off_are_missed() -> None:
    slow = FluidModel(capacity_rps=10.0, service_s=30.0)
    serving = FluidServing(arrivals=flat_counts(10, 300), model=slow)
    cut = replace(setup(flat_counts(10, 300), initial=2), serving=serving, drain_limit_s=10.0)
    patient = simulate(replace(cut, drain_limit_s=60.0), always(1), seed=0)
    assert simulate(cut, always(1), seed=0).score.missed == patient.score.missed == 0  # gone before there was any

    class LetsOneGo(Always):
        def desired(self, seen: Seen) -> int:
            return 2 if seen.now_s < 150 else 1

    rivalry = always(2)
    contender = replace(rivalry.contender, make=lambda knob, bounds, facts: LetsOneGo(2))
    result = simulate(cut, replace(rivalry, contender=contender), seed=0)
    # Half of what came in the last 30 s runs on it, of which 10 s worth finish.
    assert result.score.missed == pytest.approx(0.5 * 10 * 20, abs=1)


def test_arrivals_are_open_loop() -> None:
    """However badly it is served, the same requests come."""
    some = setup(uneven(), initial=1)
    good, bad = simulate(some, always(9), seed=3), simulate(some, always(1), seed=3)
    assert good.score.requests == bad.score.requests
    assert good.timeline.demand_rps.tolist() == bad.timeline.demand_rps.tolist()
    assert bad.share_in_slo < 0.5 < good.share_in_slo


def test_the_warm_up_is_served_but_not_scored_whoever_decides() -> None:
    whole, later = setup(uneven(), initial=1), replace(setup(uneven(), initial=1), warmup_s=1800.0)
    for decider in (SHIPPED, always(6)):
        all_of_it, second_half = simulate(whole, decider, seed=1), simulate(later, decider, seed=1)
        assert all_of_it.timeline.desired.tolist() == second_half.timeline.desired.tolist()
        assert second_half.score.requests == uneven().arrivals[1800:].sum()
        assert second_half.score.missed == pytest.approx(all_of_it.timeline.missed[121:].sum())
        assert second_half.gpu_hours < all_of_it.gpu_hours
        assert second_half.scored_s == 1800.0


def test_a_timeline_adds_up() -> None:
    result = simulate(setup(step(40.0, 60.0)), SHIPPED, seed=1)
    line = result.timeline
    spans_s = np.diff(line.at_s, prepend=0.0)
    assert (line.demand_rps * spans_s).sum() == pytest.approx(result.score.requests)
    assert line.missed.sum() == pytest.approx(result.score.missed)
    paid = (line.ready + line.starting + line.draining)[:-1] * np.diff(line.at_s)
    assert paid.sum() / 3600 == pytest.approx(result.gpu_hours, rel=0.02)
    assert np.count_nonzero(np.diff(line.desired)) <= result.changes


def test_a_capacity_that_is_stated_wrong_costs_or_misses() -> None:
    flat = setup(counts(np.full(3 * 3600, 60.0)), initial=7)
    results: list[RunResult] = [
        simulate(flat, replace(SHIPPED, capacity_error=error), seed=1) for error in (1.0, 1.15, 0.85)
    ]
    right, too_high, too_low = results
    assert too_low.gpu_hours > right.gpu_hours > too_high.gpu_hours
    assert too_high.share_in_slo < right.share_in_slo <= too_low.share_in_slo


@pytest.mark.parametrize("error", [1.15, 1 / 1.15], ids=["too high", "too low"])
def test_a_wrong_capacity_is_put_right_by_what_the_fleet_serves(error: float) -> None:
    """Hours of restless traffic, the first of them not scored: a wrong statement neither misses nor costs more."""
    minutes = np.random.default_rng(5).lognormal(0.0, 0.08, size=8 * 60)
    wave = 150.0 * (1 + 0.4 * np.sin(np.arange(8 * 3600) / 3600.0 * 2.0))
    restless = replace(setup(counts(wave * np.repeat(minutes, 60)), initial=17), warmup_s=4 * 3600.0)
    right, wrong = (simulate(restless, replace(SHIPPED, capacity_error=each), seed=1) for each in (1.0, error))
    assert wrong.share_in_slo == pytest.approx(right.share_in_slo, abs=0.004)
    assert wrong.gpu_hours == pytest.approx(right.gpu_hours, rel=0.05)


def test_variants_of_other_capacity_and_price() -> None:
    """The cheaper per request is taken: half the capacity at a third of the price."""
    kinds = (
        ReplicaKind(variant="whole", startup=Fixed(60.0), cost=3.0),
        ReplicaKind(variant="half", startup=Fixed(60.0), cost=1.0),
    )
    arrivals = counts(np.full(3600, 30.0))
    serving = FluidServing(arrivals=arrivals, model=FluidModel(capacity_rps=10.0), weights={"half": 0.5})
    mixed = replace(setup(arrivals, initial=4), kinds=kinds, serving=serving)
    result = simulate(mixed, SHIPPED, seed=1)
    assert result.share_in_slo > 0.99
    assert result.gpu_hours < 0.85 * 3.0 * 4


def test_a_users_file_is_what_runs() -> None:
    """A forecast that is off, and an interval of its own."""
    text = (
        "forecast: {enabled: false}\nintervalSeconds: 60\n"
        "services: [{name: mine, slo: {ttft: 2s}, command: 'serve --port {port}'}]"
    )
    told: list[ServiceDecision] = []
    world = World({SERVICE: setup(uneven(1800))}, seed=1)
    control(world, Ours(text=text), told=Told(listener=told.append))
    assert [each.at_s - world.clock.begin_s for each in told][:3] == [0.0, 60.0, 120.0]
    assert all(not hasattr(each.forecast, "rps") for each in told)


def test_the_slo_and_the_bounds_are_those_of_the_setup() -> None:
    tight = replace(setup(uneven(), initial=3), bounds=Bounds(min_replicas=3, max_replicas=4), slo=Slo(ttft_s=2.0))
    line = simulate(tight, SHIPPED, seed=1).timeline
    assert {3.0, 4.0} == set(line.desired.tolist())


@pytest.mark.parametrize("lag_s", [0.0, 30.0])
def test_what_a_rival_sees(lag_s: float) -> None:
    """Replicas as they are, everything measured as old as its collector makes it."""
    rates: list[tuple[float, object, object, object]] = []

    class Looks(Always):
        def desired(self, seen: Seen) -> int:
            replicas = seen.per_replica(0.0)
            rates.append((seen.now_s, seen.rate_rps(60.0), seen.in_flight(0.0), replicas.running.tolist()))
            return 6

    rivalry = always(6, lag_s=lag_s)
    contender = replace(rivalry.contender, make=lambda knob, bounds, facts: Looks(6))
    arrivals = SecondCounts(arrivals=np.arange(900, dtype=np.int64) // 30, prompt_tokens=7.0, output_tokens=9.0)
    simulate(setup(arrivals, initial=6), replace(rivalry, contender=contender), seed=1)
    for now_s, rate, in_flight, running in rates[10:]:
        end = int(now_s - lag_s)
        assert rate == pytest.approx(arrivals.arrivals[end - 60 : end].mean())
        expected = arrivals.arrivals[end - 3 : end].sum()
        assert in_flight == pytest.approx(expected)
        assert running == pytest.approx([expected / 6] * 6)


def test_kinds_are_needed() -> None:
    with pytest.raises(ValueError, match="at least one kind"):
        replace(setup(uneven()), kinds=())
    with pytest.raises(ValueError, match="warmup_s"):
        replace(setup(uneven()), warmup_s=3600.0)
    with pytest.raises(ValueError, match="initial"):
        replace(setup(uneven()), kinds=KINDS, initial=31)


def test_several_services_under_one_controller() -> None:
    """Each is scaled for itself, and none is served by another's replicas."""
    quiet, busy = ServiceId("quiet"), ServiceId("busy")
    setups = {
        quiet: setup(counts(np.full(1800, 12.0), seed=1), initial=2),
        busy: setup(counts(np.full(1800, 60.0), seed=2), initial=7),
    }
    results = simulate_together(setups, SHIPPED, seed=1)
    for service, fewest, most in ((quiet, 2, 3), (busy, 6, 9)):
        assert results[service].score.requests == setups[service].serving.arrivals.arrivals.sum()  # type: ignore[union-attr]
        assert fewest <= results[service].timeline.desired[-1] <= most
        assert results[service].share_in_slo > 0.95
    with pytest.raises(ValueError, match="one world"):
        simulate_together({**setups, busy: setup(counts(np.full(900, 60.0)))}, SHIPPED, seed=1)
