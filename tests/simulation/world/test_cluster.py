"""The life of replicas, who goes first, and what is paid."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.simulation.delays import Fixed, Lognormal
from adapters.simulation.fluid_fleet import FluidModel
from adapters.simulation.ledger import paid_hours
from adapters.simulation.replicas import ReplicaKind
from autoscaler.domain.cluster import Phase
from autoscaler.domain.plan import VariantTarget
from autoscaler.ports import RefusedError
from tests.simulation.world.worlds import CHAT, SmallWorld, small_world


def paid_s(world: SmallWorld, since_s: float = 0.0) -> float:
    begin_s = world.clock.begin_s
    stays = world.cluster.stays(CHAT)
    return 3600 * paid_hours(stays, since_s=begin_s + since_s, until_s=world.clock.now_s())


def test_a_replica_is_ready_after_scheduling_and_start_and_paid_from_its_order() -> None:
    world = small_world()
    world.at(10.0)
    world.ask(1)
    (replica,) = world.cluster.snapshot().replicas
    assert (replica.phase, replica.created_s, replica.metrics_url) == (Phase.STARTING, world.clock.begin_s + 10, None)
    world.at(74.9)
    assert world.count(Phase.READY) == 0
    world.at(75.0)
    (replica,) = world.cluster.snapshot().replicas
    assert (replica.phase, replica.ready_s) == (Phase.READY, world.clock.begin_s + 75)
    assert replica.metrics_url is not None
    assert paid_s(world) == pytest.approx(65.0)


def test_nothing_is_served_before_it_is_ready() -> None:
    world = small_world()
    world.ask(1)
    world.at(64.0)
    assert world.cluster.fleet(CHAT).gateway().waiting == 640
    world.at(66.0)
    assert world.cluster.fleet(CHAT).gateway().finished == 10


def test_starting_ones_go_first_and_the_one_that_would_be_ready_last_before_others() -> None:
    world = small_world(ready=2)
    world.at(10.0)
    world.ask(3)
    world.at(20.0)
    world.ask(4)
    assert world.phases() == {"1": Phase.READY, "2": Phase.READY, "3": Phase.STARTING, "4": Phase.STARTING}
    world.ask(3)
    assert "4" not in world.phases()
    world.ask(2)
    assert world.phases() == {"1": Phase.READY, "2": Phase.READY}
    assert world.cluster.changes[-1] == (world.clock.now_s(), CHAT, 2)


def test_of_ready_ones_the_idlest_goes() -> None:
    kinds = (ReplicaKind(startup=Fixed(60.0)),)
    world = small_world(ready=1, kinds=kinds, model=FluidModel(capacity_rps=20.0, service_s=30.0))
    world.at(100.0)
    world.ask(2)
    world.at(161.0)  # the second one has just begun, and has less to do
    world.ask(1)
    assert world.phases() == {"1": Phase.READY, "2": Phase.DRAINING}


def test_a_drain_is_paid_until_the_last_request() -> None:
    world = small_world(ready=2, model=FluidModel(capacity_rps=10.0, service_s=20.0))
    world.at(100.0)
    world.ask(1)
    assert world.count(Phase.DRAINING) == 1
    world.at(119.0)
    assert world.count(Phase.DRAINING) == 1
    world.at(500.0)
    assert world.count(Phase.DRAINING) == 0
    assert paid_s(world) == pytest.approx(500.0 + 120.0)
    assert world.cluster.fleet(CHAT).gateway().failed == 0


def test_a_drain_that_takes_too_long_is_cut_off_and_its_requests_are_lost() -> None:
    world = small_world(ready=2, model=FluidModel(capacity_rps=10.0, service_s=100.0), drain_limit_s=60.0)
    world.at(200.0)
    world.ask(1)
    world.at(260.0)
    assert world.count(Phase.DRAINING) == 0
    assert world.cluster.fleet(CHAT).gateway().failed > 0
    assert paid_s(world) == pytest.approx(2 * 200 + 60 + 60)


def test_a_crash_loses_requests_and_is_followed_by_a_new_start_of_the_same_replica() -> None:
    world = small_world(ready=1, model=FluidModel(capacity_rps=20.0, service_s=4.0))
    world.at(100.0)
    world.cluster.crash("chat-default-1")
    (replica,) = world.cluster.snapshot().replicas
    assert (replica.phase, replica.restarts) == (Phase.FAILED, 1)
    assert world.cluster.fleet(CHAT).gateway().failed == 40
    world.at(111.0)
    assert world.phases() == {"1": Phase.STARTING}
    world.at(171.0)
    assert world.phases() == {"1": Phase.READY}
    record = world.cluster.record("chat-default-1")
    assert record is not None
    assert record.index is not None
    assert world.fleet.page(record.index).completed < 100  # another engine, whose counters began at zero
    assert paid_s(world) == pytest.approx(171.0)


def test_a_crash_loop_is_put_off_ever_longer() -> None:
    world = small_world()
    world.cluster.crash_looping = True
    world.ask(1)
    restarts = []
    for minute in range(1, 60):
        world.at(60.0 * minute)
        restarts.append(world.cluster.snapshot().replicas[0].restarts)
    assert restarts[-1] < 15
    world.cluster.crash_looping = False
    world.at(59 * 60.0 + 400.0)
    assert world.count(Phase.READY) == 1


def test_without_a_place_nothing_is_paid_and_the_first_free_one_is_taken() -> None:
    world = small_world(ready=1, places=1)
    world.at(10.0)
    world.ask(2)
    waiting = world.cluster.snapshot().replicas[1]
    assert waiting.unschedulable_since_s == world.clock.begin_s + 10
    world.at(100.0)
    assert paid_s(world) == pytest.approx(100.0)
    world.cluster.unschedulable = True
    world.ask(1)
    world.ask(0)
    world.ask(1)
    world.at(200.0)
    assert world.count(Phase.STARTING) == 1
    world.cluster.set_schedulable()
    world.at(265.0)
    assert world.count(Phase.READY) == 1


def test_another_shape_of_a_place_takes_time() -> None:
    kinds = (
        ReplicaKind(variant="whole", startup=Fixed(60.0), repartition=Fixed(30.0)),
        ReplicaKind(variant="half", startup=Fixed(60.0), repartition=Fixed(30.0), cost=0.5),
    )
    world = small_world(kinds=kinds, places=1, ready=1)
    world.at(10.0)
    world.ask(0, "whole")
    world.ask(1, "half")
    world.at(99.0)
    assert world.count(Phase.READY) == 0
    world.at(100.0)
    assert world.count(Phase.READY) == 1
    assert paid_s(world) == pytest.approx(10.0 + 0.5 * 90.0)


def test_unknown_variants_are_refused() -> None:
    with pytest.raises(RefusedError, match="'large'"):
        small_world().cluster.scale(CHAT, [VariantTarget(variant="large", replicas=1)])


def test_snapshots_share_what_has_not_changed() -> None:
    world = small_world(ready=3)
    world.at(1.0)
    before = world.cluster.snapshot()
    world.at(2.0)
    assert world.cluster.snapshot().replicas is before.replicas
    world.ask(4)
    assert all(a is b for a, b in zip(world.cluster.snapshot().replicas, before.replicas, strict=False))


steps = st.lists(st.tuples(st.integers(1, 200), st.integers(0, 6)), max_size=15)


@settings(deadline=None)
@given(steps, st.integers(0, 4))
def test_every_moment_of_every_replica_is_paid_once(plan: list[tuple[int, int]], places: int) -> None:
    """What is paid is the integral of the replicas that have a place; and in the end there are as many as asked."""
    kinds = (ReplicaKind(startup=Lognormal(median_s=30.0, p95_s=90.0)),)
    world = small_world(kinds=kinds, places=places or None, model=FluidModel(capacity_rps=10.0, service_s=3.0))
    paid, now_s, asked = 0.0, 0, 0
    for wait_s, replicas in plan:
        for _ in range(wait_s):
            snapshot = world.cluster.snapshot()
            paid += sum(each.unschedulable_since_s is None for each in snapshot.replicas)
            now_s += 1
            world.at(float(now_s))
        world.ask(replicas)
        asked = replicas
    assert paid_s(world) == pytest.approx(paid)
    live = [each for each in world.cluster.snapshot().replicas if each.phase is not Phase.DRAINING]
    assert len(live) == asked
