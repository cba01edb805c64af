"""Whatever becomes of the replicas, every request has one outcome, and only a removal loses any."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from adapters.simulation.batch_fleet import BatchFleet, BatchServer
from adapters.simulation.engine_fleet import EngineFleet
from adapters.simulation.requests import Requests
from adapters.simulation.serving import Outcome, Router, ServingFleet
from adapters.simulation.step_times import picoseconds
from autoscaler.domain.service import Slo
from tests.simulation.engine.workloads import CASES, random_requests

SLO = Slo(e2e_s=5.0)
HELD_LIMIT = 20


@dataclass
class Changing:
    """A fleet whose replicas come and go, and what must hold of it."""

    fleet: ServingFleet
    requests: Requests
    now_s: float = 0.0
    present: list[int] = field(default_factory=list)
    closed: set[int] = field(default_factory=set)
    lost: int = 0

    def advance(self, span_s: float) -> None:
        self.now_s += span_s
        self.fleet.advance(self.now_s)

    def change(self, kind: str, pick: int) -> None:
        if kind == "add":
            self.present.append(self.fleet.add())
        elif self.present:
            replica = self.present[pick % len(self.present)]
            if kind == "open":
                self.fleet.open(replica)
                self.closed.discard(replica)
            elif kind == "close":
                self.fleet.close(replica)
                self.closed.add(replica)
            else:
                self.lost += self.fleet.in_flight(replica)
                self.fleet.remove(replica)
                self.present.remove(replica)
                self.closed.discard(replica)

    def check(self) -> None:
        gateway, code = self.fleet.gateway(), self.fleet.outcomes().code
        counts = np.bincount(code, minlength=len(Outcome)).tolist()
        now = picoseconds(self.now_s)
        assert gateway.arrivals == sum(picoseconds(at_s) <= now for at_s in self.requests.at_s.tolist())
        assert gateway.finished == counts[Outcome.FINISHED]
        assert gateway.failed == counts[Outcome.LOST] == self.lost
        assert gateway.refused == counts[Outcome.REFUSED]
        assert gateway.in_flight == gateway.arrivals - sum(counts[1:]) >= gateway.waiting
        assert gateway.waiting <= HELD_LIMIT
        flying = 0
        for replica in self.present:
            page, in_flight = self.fleet.page(replica), self.fleet.in_flight(replica)
            assert page.waiting + page.running == in_flight == page.arrived - page.completed
            is_empty = replica in self.closed and in_flight == 0
            assert (self.fleet.empty_since_s(replica) is not None) == is_empty
            flying += in_flight
        assert flying == gateway.in_flight - gateway.waiting


CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["add", "open", "open", "close", "remove"]),
        st.integers(0, 50),
        st.sampled_from([0.0, 0.1, 1.0]),
    ),
    max_size=40,
)


def _check_through(fleet: ServingFleet, requests: Requests, changes: list[tuple[str, int, float]]) -> None:
    world = Changing(fleet=fleet, requests=requests)
    for kind, pick, share in changes:
        world.change(kind, pick)
        # A change without time passing shows in no counter of the gateway but the lost.
        world.advance(share * requests.duration_s / 10)
        world.check()
    world.change("add", 0)
    world.fleet.open(world.present[-1])
    world.advance(requests.duration_s + 1e5)
    world.check()
    assert fleet.gateway().in_flight == 0


@settings(max_examples=60, deadline=None)
@example(changes=[("add", 0, 0.0)], name="h100", router=Router.LEAST_IN_FLIGHT, seed=31)  # begins within a picosecond
@given(
    changes=CHANGES, name=st.sampled_from(sorted(CASES)), router=st.sampled_from(list(Router)), seed=st.integers(0, 99)
)
def test_engines_lose_only_what_is_in_flight_at_a_removal(
    changes: list[tuple[str, int, float]], name: str, router: Router, seed: int
) -> None:
    case = CASES[name]
    requests = random_requests(np.random.default_rng(seed), case, replicas=2, size=150, load=1.0)
    fleet = EngineFleet(
        requests, times=case.times, shape=case.shape, slo=SLO, router=router, held_limit=HELD_LIMIT, held_s=3.0
    )
    _check_through(fleet, requests, changes)


@settings(max_examples=60, deadline=None)
@given(changes=CHANGES, router=st.sampled_from(list(Router)), seed=st.integers(0, 99))
def test_batch_servers_lose_only_what_is_in_flight_at_a_removal(
    changes: list[tuple[str, int, float]], router: Router, seed: int
) -> None:
    requests = random_requests(np.random.default_rng(seed), CASES["tight"], replicas=2, size=150, load=1.0)
    server = BatchServer(base_s=0.2, per_request_s=0.1, max_batch=8, max_delay_s=0.3)
    fleet = BatchFleet(requests, server=server, slo=SLO, router=router, held_limit=HELD_LIMIT, held_s=3.0)
    _check_through(fleet, requests, changes)


def test_same_requests_give_the_same_bytes() -> None:
    case = CASES["small-cache"]
    requests = random_requests(np.random.default_rng(1), case, replicas=3, size=400, load=1.1)
    results = []
    for _ in range(2):
        fleet = EngineFleet(requests, times=case.times, shape=case.shape, slo=SLO)
        for _ in range(3):
            fleet.open(fleet.add())
        fleet.advance(1e4)
        outcomes = fleet.outcomes()
        results.append((outcomes.ttft_s.tobytes(), outcomes.finish_s.tobytes(), str(fleet.gateway())))
    assert results[0] == results[1]


def test_more_replicas_than_there_is_room_for_at_first() -> None:
    """Rows grow, and move together when a replica goes: each keeps its own counters."""
    case = CASES["tight"]
    requests = random_requests(np.random.default_rng(4), case, replicas=100, size=4000, load=0.8)
    fleet = EngineFleet(requests, times=case.times, shape=case.shape, slo=SLO, router=Router.ROUND_ROBIN)
    for _ in range(100):
        fleet.open(fleet.add())
    fleet.advance(requests.duration_s / 2)
    arrived = {replica: fleet.page(replica).arrived for replica in range(100)}
    assert max(arrived.values()) - min(arrived.values()) <= 1
    for replica in range(0, 100, 3):
        fleet.close(replica)
        fleet.remove(replica)
    kept = [replica for replica in range(100) if replica % 3]
    assert {replica: fleet.page(replica).arrived for replica in kept} == {replica: arrived[replica] for replica in kept}
    fleet.advance(requests.duration_s + 1e4)
    gained = [fleet.page(replica).arrived - arrived[replica] for replica in kept]
    assert max(gained) - min(gained) <= 1
    assert fleet.gateway().in_flight == 0
