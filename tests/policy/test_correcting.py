"""The rate of a replica, corrected by what the fleet was seen to serve."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.domain.capacity import CapacityLimit, CapacitySource, ReplicaCapacity
from autoscaler.domain.cluster import Phase, Replica
from autoscaler.domain.demand import Demand, DemandSource
from autoscaler.domain.params import Params
from autoscaler.domain.reading import Measured, Unknown, UnknownReason
from autoscaler.domain.service import Service
from autoscaler.domain.state import ServiceState
from autoscaler.policy.correcting import LARGEST, correct, corrected
from autoscaler.policy.learning import fresh
from tests.policy.world import CHAT, models, service

PARAMS = Params()
UNKNOWN = Unknown(UnknownReason.UNREACHABLE)
RATE = 10.0
REPLICAS = 4


def capacity(rps: float = RATE) -> ReplicaCapacity:
    return ReplicaCapacity(rps=rps, limit=CapacityLimit.ITL, source=CapacitySource.FITTED)


def ready(count: int) -> list[Replica]:
    return [
        Replica(name=f"r{index}", service=CHAT, variant="default", phase=Phase.READY, created_s=0.0)
        for index in range(count)
    ]


def demand(*, rps: Measured, missed: Measured = 0.0, backlog: Measured = 0.0, span_s: float = 15.0) -> Demand:
    arrived = UNKNOWN if isinstance(rps, Unknown) else rps * span_s
    return Demand(
        at_s=0.0,
        source=DemandSource.ENGINES,
        short_rps=rps,
        burst_rps=0.0,
        stable_rps=rps,
        high_rps=rps,
        tick_rps=rps,
        tick_span_s=span_s,
        felt_rps=rps,
        load_rps=rps,
        backlog=backlog,
        in_flight=0.0,
        shape=UNKNOWN,
        coverage=1.0,
        window_full=True,
        attained=1.0,
        arrived=arrived,
        missed=missed,
        idle_s=0.0,
    )


class Fleet:
    """Windows in a row."""

    def __init__(self) -> None:
        self.service: Service = service()
        self.state: ServiceState = fresh(self.service, models(), PARAMS)
        self.now_s = 1000.0

    def see(self, seen: Demand, *, replicas: int = REPLICAS, rps: float | None = RATE) -> float:
        self.now_s += seen.tick_span_s
        self.state = correct(
            self.state,
            now_s=self.now_s,
            service=self.service,
            demand=seen,
            replicas=ready(replicas),
            capacities={"default": UNKNOWN if rps is None else capacity(rps)},
            params=PARAMS,
        )
        return self.state.correction


@pytest.mark.parametrize(
    ("rps", "missed", "backlog", "sign"),
    [
        pytest.param(42.0, 0.0, 0.0, 1, id="served more than the model says"),
        pytest.param(38.0, 0.0, 0.0, 0, id="served less, all well: nothing new"),
        pytest.param(38.0, 57.0, 0.0, -1, id="late below the model's rate, without a queue"),
        pytest.param(38.0, 57.0, 30.0, 0, id="a queue came up below it: perhaps a burst"),
        pytest.param(42.0, 0.0, 30.0, 0, id="a queue above it: as expected"),
        pytest.param(42.0, 57.0, 0.0, 0, id="late above it: as expected"),
        pytest.param(8.0, 30.0, 30.0, 0, id="lightly loaded: another fault"),
        pytest.param(80.0, 0.0, 0.0, 0, id="far beyond: the figures are not of one window"),
        pytest.param(0.0, 0.0, 0.0, 0, id="idle"),
    ],
)
def test_a_window_tells_on_which_side_the_true_rate_lies(rps: float, missed: float, backlog: float, sign: int) -> None:
    fleet = Fleet()
    fleet.see(demand(rps=38.0))
    after = fleet.see(demand(rps=rps, missed=missed, backlog=backlog))
    assert (after > 0) - (after < 0) == sign


@pytest.mark.parametrize(
    ("left", "sign"),
    [(120.0, 0), (220.0, -1), (0.0, 0)],
    ids=["worked off at the model's rate", "worked off slowly", "gone meanwhile"],
)
def test_a_queue_that_stays_tells_what_is_served(left: float, sign: int) -> None:
    """Fifteen seconds of 30 requests/s, before them 270 waiting: at 40 requests/s 120 are left."""
    fleet = Fleet()
    fleet.see(demand(rps=60.0, backlog=270.0))
    after = fleet.see(demand(rps=30.0, backlog=left, missed=200.0))
    assert (after > 0) - (after < 0) == sign


@pytest.mark.parametrize(
    ("first", "left", "sign"),
    [(270.0, 30.0, 0), (30.0, 270.0, 0), (270.0, 90.0, -1)],
    ids=["short at its end", "short at its begin", "long at both"],
)
def test_short_queues_may_be_those_of_two_bursts(first: float, left: float, sign: int) -> None:
    """At 40 requests/s 30 are three quarters of a second; 480 are served in the window, where 600 could be."""
    fleet = Fleet()
    fleet.see(demand(rps=60.0, backlog=first))
    after = fleet.see(demand(rps=(480.0 + left - first) / 15, backlog=left, missed=200.0))
    assert (after > 0) - (after < 0) == sign


def test_bursts_on_a_fleet_with_room_leave_a_right_rate_alone() -> None:
    """A day of four fifths of the fleet's true rate, in batches that queue for half a second to a second each."""
    drawn = random.Random(3)
    fleet = Fleet()
    for _ in range(5760):
        served = REPLICAS * RATE
        fleet.see(demand(rps=0.8 * served, backlog=drawn.uniform(0.5, 1.0) * served, missed=0.02 * 480))
    assert fleet.state.correction == 0


def test_replicas_that_came_or_went_end_the_window() -> None:
    fleet = Fleet()
    fleet.see(demand(rps=38.0))
    assert fleet.see(demand(rps=42.0), replicas=REPLICAS + 1) == 0
    assert fleet.see(demand(rps=42.0), replicas=REPLICAS) == 0
    assert fleet.see(demand(rps=42.0), replicas=REPLICAS) > 0


@pytest.mark.parametrize(
    "unknown",
    [
        demand(rps=UNKNOWN),
        demand(rps=42.0, missed=UNKNOWN),
        demand(rps=42.0, backlog=UNKNOWN),
        replace(demand(rps=42.0), coverage=0.9),
        replace(demand(rps=42.0), stuck=("r1",)),
        replace(demand(rps=42.0), asleep=("r1",)),
    ],
    ids=["rate", "misses", "backlog", "part of the fleet", "a stuck replica", "a sleeping one"],
)
def test_what_is_unknown_tells_nothing(unknown: Demand) -> None:
    fleet = Fleet()
    fleet.see(demand(rps=38.0))
    assert fleet.see(unknown) == 0
    assert fleet.state.trial is None  # the window is over: its sums would lack a part
    fleet.see(demand(rps=42.0))
    assert fleet.see(demand(rps=42.0)) > 0


def test_without_a_model_there_is_nothing_to_correct() -> None:
    fleet = Fleet()
    fleet.see(demand(rps=42.0), rps=None)
    assert fleet.see(demand(rps=42.0), rps=None) == 0
    assert corrected(UNKNOWN, 0.1) is UNKNOWN


def test_short_ticks_make_one_window() -> None:
    fleet = Fleet()
    told = [fleet.see(demand(rps=42.0, span_s=1.0)) for _ in range(46)]
    assert len(set(told)) == 4
    assert told[14] == 0 < told[15] == told[29] < told[30]


@pytest.mark.parametrize(("rps", "learns"), [(0.05, False), (0.1, True)], ids=["too few in 5 minutes", "enough"])
def test_few_requests_are_waited_for_but_not_for_ever(rps: float, *, learns: bool) -> None:
    fleet = Fleet()
    told = [fleet.see(demand(rps=1.05 * rps), replicas=1, rps=rps) for _ in range(60)]
    assert (told[-1] > 0) is learns
    assert told[12] == 0
    assert fleet.state.trial is not None
    assert fleet.now_s - fleet.state.trial.since_s < 300


@pytest.mark.parametrize("truth", [1 / 1.15, 1.0, 1.15], ids=["too high", "right", "too low"])
def test_a_wrong_model_is_put_right_within_a_day_of_windows(truth: float) -> None:
    """A fluid fleet of true rate ``truth`` times the model's, sized by the corrected model with a tenth to spare."""
    drawn = random.Random(7)
    fleet = Fleet()
    queue = 0.0
    for _ in range(5760):
        rate = 400.0 * drawn.lognormvariate(0.0, 0.06)
        replicas = math.ceil(440.0 / (RATE * math.exp(fleet.state.correction)))
        served = replicas * RATE * truth
        queue = max(0.0, queue + 15 * (rate - served))
        late = max(0.0, queue - 2 * served)
        fleet.see(demand(rps=rate, backlog=queue, missed=late), replicas=replicas)
    assert math.exp(fleet.state.correction) == pytest.approx(truth, rel=0.05)


@given(
    seen=st.lists(
        st.builds(
            demand,
            rps=st.one_of(st.just(UNKNOWN), st.floats(0, 1e4)),
            missed=st.one_of(st.just(UNKNOWN), st.floats(0, 1e4)),
            backlog=st.one_of(st.just(UNKNOWN), st.floats(0, 1e4)),
            span_s=st.sampled_from([1.0, 15.0, 60.0]),
        ),
        max_size=30,
    ),
    start=st.floats(-LARGEST, LARGEST),
)
def test_a_correction_is_bounded_and_never_made_of_the_unknown(seen: list[Demand], start: float) -> None:
    fleet = Fleet()
    fleet.state = replace(fleet.state, correction=start)
    for each in seen:
        before = fleet.state.correction
        after = fleet.see(each)
        assert abs(after) <= LARGEST
        if isinstance(each.tick_rps, Unknown) or isinstance(each.backlog, Unknown) or isinstance(each.missed, Unknown):
            assert after == before


def test_while_lengths_change_the_model_is_late_and_not_wrong() -> None:
    """Late windows below the model's rate, of which some come while that falls by a quarter."""
    fleet = Fleet()
    fleet.see(demand(rps=38.0))
    late = demand(rps=28.0, missed=57.0)
    for rps in (9.0, 8.0, 7.5):
        assert fleet.see(late, rps=rps) == 0
    waited = 0
    while fleet.see(late, rps=7.5) == 0:
        waited += 1
    # Until the mean of ten minutes has come within 5 % of the new rate: four fifths of the way.
    assert 600 < waited * 15 < 1800


def test_a_few_late_requests_are_chance() -> None:
    """Two of 195 may be late, and seven are: more than twice as many, but nothing to go by."""
    fleet = Fleet()
    fleet.see(demand(rps=13.0))
    assert fleet.see(demand(rps=13.0, missed=7.0), replicas=REPLICAS, rps=3.4) == 0
