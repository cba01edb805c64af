"""The sweep's fluid run by hand, against the simulated run of the same rivals, and its search."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from numpy.typing import NDArray

from adapters.simulation.delays import Fixed
from adapters.simulation.fluid_fleet import FluidModel
from adapters.simulation.replicas import ReplicaKind
from autoscaler.domain import service
from loadtests.rivals.aibrix import AIBRIX_APA
from loadtests.rivals.dynamo_throughput import DYNAMO_THROUGHPUT
from loadtests.rivals.hpa import HPA_IN_FLIGHT, HPA_RATE
from loadtests.rivals.keda import KEDA_RATE
from loadtests.rivals.knative import KNATIVE_KPA
from loadtests.rivals.ray_serve import RAY_SERVE
from loadtests.rivals.roster import ENGINE_RIVALS, RIVALS, rival
from loadtests.rivals.seen import Bounds, Contender, Facts, Knob, Rival, Seen
from loadtests.rivals.static_peak import STATIC_PEAK
from loadtests.rivals.sweep import SweepResult, SweepSetup, best_in_hindsight, sweep_run
from loadtests.simulation.rivalry import Rivalry
from loadtests.simulation.run import simulate
from loadtests.simulation.setup import FluidServing, Setup
from loadtests.workloads.workload import SecondCounts

Ints = NDArray[np.int64]
BOUNDS = Bounds(min_replicas=1, max_replicas=30)


class Planned:
    """Asks for what a list says, tick after tick."""

    def __init__(self, plan: list[int]) -> None:
        self._plan = iter(plan)

    def desired(self, seen: Seen) -> int:
        return next(self._plan)


def planned(plan: list[int], *, interval_s: float = 10.0) -> Contender:
    def make(knob: float, bounds: Bounds, facts: Facts) -> Rival:
        return Planned(plan)

    knob = Knob(name="none", default=1.0, values=(1.0,))
    return Contender(name="planned", how="", sources=(), interval_s=interval_s, lag_s=0.0, knob=knob, make=make)


def setup(counts: list[int] | Ints, *, boot_s: int, begin: int, service_s: float = 5.0) -> SweepSetup:
    facts = Facts(capacity_rps=2.0, service_s=service_s, peak_rps=40.0)
    return SweepSetup(counts=np.array(counts), facts=facts, boot_s=boot_s, bounds=BOUNDS, begin_replicas=begin)


@pytest.mark.parametrize(
    ("plan", "boot_s", "begin", "seconds"),
    [
        # 2 x 40.
        pytest.param([2, 2, 2, 2], 10, 2, 80, id="constant"),
        # 2 x 10 and, from the order at 10 s on, 3 x 30: the boot is paid.
        pytest.param([2, 3, 3, 3], 20, 2, 110, id="boot is paid"),
        # Three for 10 s, two for 30 s, and 5 s until the third has finished its requests.
        pytest.param([3, 2, 2, 2], 10, 3, 95, id="drain is paid"),
        # Ordered at 0 s, let go at 10 s while starting: nothing to drain. 3 x 10 + 2 x 30.
        pytest.param([3, 2, 2, 2], 20, 2, 90, id="a starting one goes at once"),
        # Let go at 30 s, 10 s before the end, with a service time of 5 s: 3 x 30 + 2 x 10 + 5.
        pytest.param([3, 3, 3, 2], 10, 3, 115, id="late"),
    ],
)
def test_what_is_paid(plan: list[int], boot_s: int, begin: int, seconds: float) -> None:
    found = sweep_run(planned(plan), 1.0, setup([0] * 40, boot_s=boot_s, begin=begin))
    assert found.replica_hours * 3600 == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("counts", "share"),
    [
        pytest.param([2] * 10, 1.0, id="exactly its capacity"),
        # Six at once on 2/s: two each in this and the next two seconds.
        pytest.param([6] + [0] * 9, 1.0, id="served by the end of the second step after their own"),
        pytest.param([8] + [0] * 9, 6 / 8, id="two are late"),
        # The last second's four are followed by nothing: only two are served before the end.
        pytest.param([0] * 9 + [4], 2 / 4, id="unfinished ones are misses"),
        pytest.param([0] * 10, 1.0, id="nothing came"),
    ],
)
def test_who_is_in_time(counts: list[int], share: float) -> None:
    assert sweep_run(planned([1]), 1.0, setup(counts, boot_s=5, begin=1)).share_in_slo == pytest.approx(share)


def test_ready_after_its_boot() -> None:
    found = sweep_run(planned([1, 4, 4, 2]), 1.0, setup([0] * 40, boot_s=12, begin=1))
    # Ordered at 10 s, ready at 22 s; the target of two at 30 s takes two away.
    assert found.ready[1:].tolist() == [1] * 22 + [4] * 8 + [2] * 10
    assert found.changes == 2


def wandering(seed: int, seconds: int = 4 * 3600) -> Ints:
    """Rates between about 4 and 40 requests a second."""
    rng = np.random.default_rng(seed)
    rate = 12 * np.exp(np.clip(np.cumsum(rng.standard_normal(seconds)) * 0.02, -1.1, 1.1))
    return rng.poisson(rate).astype(np.int64)


def simulated(contender: Contender, case: SweepSetup) -> tuple[float, float]:
    """Hours and share of the same in a simulated run."""
    counts = SecondCounts(arrivals=case.counts, prompt_tokens=1024.0, output_tokens=256.0)
    model = FluidModel(capacity_rps=case.facts.capacity_rps, service_s=case.facts.service_s)
    result = simulate(
        Setup(
            serving=FluidServing(arrivals=counts, model=model),
            slo=service.Slo(ttft_s=2.0),
            bounds=service.Bounds(
                min_replicas=case.bounds.min_replicas,
                max_replicas=case.bounds.max_replicas,
            ),
            kinds=(ReplicaKind(variant="default", startup=Fixed(float(case.boot_s))),),
            initial=case.begin_replicas,
        ),
        Rivalry(contender=contender, facts=case.facts),
        seed=0,
    )
    return result.gpu_hours, result.share_in_slo


@pytest.mark.parametrize(
    ("contender", "tolerance"),
    [
        pytest.param(STATIC_PEAK, 1e-9, id="static peak"),
        pytest.param(HPA_RATE, 1e-9, id="HPA, request rate"),
        pytest.param(KEDA_RATE, 1e-9, id="KEDA"),
        pytest.param(DYNAMO_THROUGHPUT, 1e-9, id="Dynamo, throughput"),
        # Requests on replicas that drain still count in the sweep, and no longer in the simulated run.
        pytest.param(AIBRIX_APA, 0.01, id="AIBrix APA"),
        pytest.param(HPA_IN_FLIGHT, 0.01, id="HPA, in flight"),
        pytest.param(KNATIVE_KPA, 0.01, id="Knative KPA"),
        pytest.param(RAY_SERVE, 0.02, id="Ray Serve"),
    ],
)
@pytest.mark.parametrize("boot_s", [60, 300])
def test_the_same_as_the_simulated_run(contender: Contender, tolerance: float, boot_s: int) -> None:
    fresh = dataclasses.replace(contender, lag_s=0.0)
    case = setup(wandering(boot_s, 7200), boot_s=boot_s, begin=10)

    hours, share = simulated(fresh, case)
    swept = sweep_run(fresh, fresh.knob.default, case)

    assert swept.replica_hours == pytest.approx(hours, rel=tolerance)
    assert swept.share_in_slo == pytest.approx(share, abs=max(1e-9, tolerance))


def test_the_best_knob_reaches_the_share_at_less_cost_than_any_of_its_values() -> None:
    case = setup(wandering(5), boot_s=60, begin=10)
    told: list[SweepResult] = []
    best = best_in_hindsight(HPA_RATE, case, share=0.99, told=told.append)
    assert best is not None
    assert best.share_in_slo >= 0.99
    every = [sweep_run(HPA_RATE, value, case) for value in HPA_RATE.knob.values]
    assert best.replica_hours <= min(run.replica_hours for run in every if run.share_in_slo >= 0.99)
    assert best in told


def test_no_best_knob_where_none_reaches_it() -> None:
    # 500 requests at once, on at most 30 replicas of 2/s.
    case = setup([0] * 300 + [500] + [0] * 300, boot_s=60, begin=1)
    assert best_in_hindsight(HPA_RATE, case, share=0.99) is None


@pytest.mark.parametrize("contender", RIVALS, ids=lambda each: each.name)
def test_every_rival_stays_within_its_bounds_and_costs_more_when_asked_to(contender: Contender) -> None:
    case = setup(wandering(9, 7200), boot_s=60, begin=10)
    facts = dataclasses.replace(case.facts, kv_capacity_tokens=2 * 5 * 1152 / 0.8)
    case = dataclasses.replace(case, facts=facts)
    cheapest, dearest = (sweep_run(contender, contender.knob.values[at], case) for at in (0, -1))
    assert dearest.replica_hours > cheapest.replica_hours
    assert dearest.ready.max() <= BOUNDS.max_replicas
    assert cheapest.ready.min() >= BOUNDS.min_replicas
    assert contender.knob.default in contender.knob.values


def test_names_are_unique_and_found() -> None:
    assert [rival(each.name) for each in ENGINE_RIVALS] == list(ENGINE_RIVALS)
    with pytest.raises(ValueError, match="no rival 'x'; there are: static peak, HPA"):
        rival("x")
