"""Replicas that were asked for and don't come: what is asked for instead, and what their absence is not taken for."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.domain.cluster import Phase, Replica
from autoscaler.domain.demand import Demand
from autoscaler.domain.plan import Reason
from autoscaler.domain.service import Bounds
from autoscaler.domain.state import Shortage
from autoscaler.policy.supply import due, shortage, supply, with_asked
from tests.policy.world import CHAT, World, service

NOW_S = 10_000.0
USUAL_S = 60.0


def replica(name: str, phase: Phase, *, age_s: float = 3600.0, **changes: object) -> Replica:
    base = Replica(name=name, service=CHAT, variant="default", phase=phase, created_s=NOW_S - age_s)
    return replace(base, **changes)  # type: ignore[arg-type]


def ready(count: int) -> list[Replica]:
    return [replica(f"ready-{index}", Phase.READY) for index in range(count)]


@pytest.mark.parametrize(
    ("others", "broken", "comes"),
    [
        pytest.param([], 0, True, id="all are ready"),
        pytest.param([replica("a", Phase.DRAINING)], 0, True, id="one goes"),
        pytest.param([replica("a", Phase.STARTING, age_s=120.0)], 0, True, id="one starts"),
        pytest.param([replica("a", Phase.STARTING, age_s=121.0)], 1, True, id="one is late"),
        pytest.param([replica("a", Phase.FAILED, age_s=5.0)], 1, True, id="one has failed"),
        pytest.param([replica("a", Phase.STARTING, age_s=5.0, restarts=1)], 1, True, id="one starts again"),
        pytest.param([replica(name, Phase.FAILED) for name in "ab"], 2, False, id="two have failed"),
        pytest.param([replica(name, Phase.STARTING) for name in "ab"], 2, False, id="two are late"),
        pytest.param(
            [replica(name, Phase.STARTING, unschedulable_since_s=NOW_S - 900.0) for name in "ab"],
            0,
            False,
            id="no node takes two: none would take others",
        ),
        pytest.param([replica("stuck", Phase.READY)], 1, True, id="one is stuck"),
    ],
)
def test_what_is_broken_and_whether_more_would_come(others: list[Replica], broken: int, *, comes: bool) -> None:
    told = supply(NOW_S, [*ready(8), *others], useless={"stuck"}, usual_s=USUAL_S)
    assert told == ({"default": 8}, broken, comes)


def test_two_bad_nodes_of_many_do_not_tell_that_starts_fail() -> None:
    failed = [replica(name, Phase.FAILED) for name in "ab"]
    assert supply(NOW_S, [*ready(18), *failed], useless=(), usual_s=USUAL_S).comes
    assert not supply(NOW_S, [*ready(17), *failed], useless=(), usual_s=USUAL_S).comes


def wide(boot_s: float) -> World:
    """A service whose bounds are far off."""
    return World(services=(service(bounds=Bounds(min_replicas=1, max_replicas=10_000)),), boot_s=boot_s)


def loop(world: World) -> None:
    """All that is not ready has failed, and starts again for ever."""
    for key, each in world.replicas.items():
        if each.phase is not Phase.READY:
            world.replicas[key] = replace(each, phase=Phase.FAILED, restarts=each.restarts + 1)


def crowded(world: World, waiting: float, rps: float, *, late: float = 0.0) -> None:
    """One tick in which the ready replicas serve and ``waiting`` more requests wait."""
    for key in world.ready():
        world.engines[key].waiting = waiting / len(world.ready())
    world.offer(rps * world.params.interval_s, late=late)


def test_in_a_crash_loop_waiting_requests_ask_for_no_more() -> None:
    world = wide(1e9)
    world.start(4)
    world.ticks(30, 30)
    for turn in range(1, 60):
        loop(world)
        crowded(world, 300.0 * turn, 40)
        part = world.tick()
    # 80 req/s of 10 need 8 replicas by what the queue grows by and what is served; as many again replace them
    stages = {stage.stage: stage for stage in part.stages}
    assert part.desired <= 16
    assert {stage.reason for stage in stages.values()} & {Reason.STARTS_FAIL, Reason.REPLACE_FAILED}


def test_more_arrivals_ask_for_more_even_in_a_crash_loop() -> None:
    world = wide(1e9)
    world.start(4)
    world.ticks(30, 30)
    for _ in range(10):
        loop(world)
        crowded(world, 0.0, 190)
        part = world.tick()
    assert part.desired >= 19


def test_what_is_missed_for_want_of_replicas_does_not_raise_the_headroom() -> None:
    world = wide(1e9)
    world.start(4)
    world.ticks(30, 30)
    before = world.state.services[CHAT]
    for turn in range(1, 60):
        loop(world)
        crowded(world, 300.0 * turn, 40, late=300.0)
        world.tick()
    after = world.state.services[CHAT]
    # but for the tick in which the first failure was seen, and the one before
    one_tick = before.theta + 2 * 600.0 / (0.01 * after.day_arrivals)
    assert after.shortage is not None
    assert before.theta - 0.1 < after.theta < one_tick


def test_what_is_missed_while_the_queue_of_a_shortage_is_served_does_not_either() -> None:
    world = wide(1e9)
    world.start(4)
    world.ticks(30, 30)
    for turn in range(1, 20):
        loop(world)
        crowded(world, 300.0 * turn, 40, late=300.0)
        world.tick()
    for key, each in world.replicas.items():
        world.replicas[key] = replace(each, phase=Phase.READY, ready_s=world.now_s)
    world.tick(40)
    short = world.state.services[CHAT]
    for left in range(10, 0, -1):
        crowded(world, 300.0 * left, 80, late=1200.0)
        world.tick()
    drained = world.state.services[CHAT]
    assert (short.shortage is not None, drained.theta) == (True, short.theta)
    for key in world.ready():
        world.engines[key].waiting = 0.0
    world.ticks(2, 40)
    assert world.state.services[CHAT].shortage is None


def test_what_is_missed_while_replicas_start_in_time_does_raise_it() -> None:
    world = wide(60.0)
    world.start(4)
    world.ticks(30, 30)
    before = world.state.services[CHAT].theta
    for _ in range(4):
        crowded(world, 100.0, 60, late=600.0)
        world.tick()
    assert world.state.services[CHAT].theta > before


def test_on_the_way_to_the_maximum_misses_raise_the_headroom_and_at_it_they_do_not() -> None:
    world = World(services=(service(bounds=Bounds(max_replicas=6)),), boot_s=60.0)
    world.start(4)
    world.ticks(30, 30)
    thetas, ready = [world.state.services[CHAT].theta], []
    for _ in range(8):
        crowded(world, 100.0, 90, late=600.0)
        part = world.tick()
        assert part.desired == 6
        thetas.append(world.state.services[CHAT].theta)
        ready.append(part.ready)
    rises = [after > before for before, after in pairwise(thetas)]
    # What the tick before saw of the limit is what a tick's misses are put down to.
    assert rises == [True] * (ready.index(6) + 1) + [False] * (len(ready) - ready.index(6) - 1)


@settings(max_examples=50)
@given(
    rates=st.lists(st.floats(1, 100), min_size=1, max_size=12),
    queues=st.lists(st.floats(0, 2e4), min_size=12, max_size=12),
    serving=st.integers(1, 6),
)
def test_however_long_the_queue_no_more_than_twice_the_need_is_asked_for_while_nothing_comes(
    rates: list[float], queues: list[float], serving: int
) -> None:
    world = wide(1e9)
    world.start(serving)
    world.ticks(8, 10.0 * serving)
    world.start(serving + 4, ready=False)
    loop(world)
    asked = world.tick(10.0 * serving).desired
    for rps, waiting in zip(rates, queues, strict=False):
        loop(world)
        crowded(world, waiting, rps)
        part = world.tick()
        sized = next(stage for stage in part.stages if stage.stage == "size")
        told = dict(sized.inputs)
        asked_of = max(float(told["measured_rps"]), float(told["foreseen_rps"]))
        need = max(1, math.ceil(asked_of / float(told["replica_rps"]) - 1e-9))
        asked = max(asked, 2 * need)
        assert part.desired <= asked


@settings(max_examples=30)
@given(count=st.integers(2, 20), data=st.data())
def test_a_replacement_that_breaks_as_well_is_not_replaced_again(count: int, data: st.DataObject) -> None:
    broken = data.draw(st.integers(1, count - 1))
    world = World(boot_s=1e9, services=(service(bounds=Bounds(max_replicas=100)),))
    world.start(count)
    for _ in range(8):
        world.tick(10.0 * count - 1)
    for key in world.ready()[:broken]:
        world.replicas[key] = replace(world.replicas[key], phase=Phase.FAILED)
    asked = []
    for _ in range(20):
        loop(world)
        asked.append(world.tick(10.0 * count - 1).desired)
    assert set(asked) == {count + broken}


def test_a_replacement_that_serves_is_kept_until_the_broken_one_serves_again() -> None:
    world = World(boot_s=30.0)
    world.start(4)
    world.ticks(8, 38)
    sick = world.ready()[0]
    asked = []
    for _ in range(20):
        world.replicas[sick] = replace(world.replicas[sick], phase=Phase.FAILED)
        asked.append(world.tick(38).desired)
    assert (set(asked), len(world.ready())) == ({5}, 4)
    world.replicas[sick] = replace(world.replicas[sick], phase=Phase.READY, ready_s=world.now_s)
    assert world.ticks(30, 38).desired == 4


def test_before_a_start_was_measured_nobody_is_late() -> None:
    world = World(services=(service(startup_s=30.0),), boot_s=1e9)
    world.start(2)
    world.ticks(8, 18)
    assert {world.tick(38).desired for _ in range(20)} == {4}


SHORT = Shortage(since_s=NOW_S - 100.0, seen_s=NOW_S - 60.0)


@pytest.mark.parametrize(
    ("later_s", "waiting", "is_put_down_to_it"),
    [
        pytest.param(0.0, 100.0, True, id="its queue is there"),
        pytest.param(0.0, 1.0, False, id="its queue is gone"),
        pytest.param(280.0, 100.0, True, id="until what it asks for has started"),
        pytest.param(281.0, 100.0, False, id="a queue that stays has another cause"),
    ],
)
def test_a_short_shortage_lasts_until_its_queue_is_gone(
    later_s: float, waiting: float, *, is_put_down_to_it: bool
) -> None:
    world = World()
    world.start(2)
    demand = world.ticks(8, 15).demand
    assert isinstance(demand, Demand)
    demand = replace(demand, backlog=waiting)
    told = shortage(SHORT, now_s=NOW_S + later_s, short=False, demand=demand)
    assert told == (SHORT if is_put_down_to_it else None)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        pytest.param([4] * 9, 4, id="as ever"),
        pytest.param([4] * 8, 0, id="not known for long enough"),
        pytest.param([4] * 9 + [6] * 8, 4, id="those just asked for are not due"),
        pytest.param([4] * 9 + [6] * 9, 6, id="they are after twice the time of a start"),
        pytest.param([6] * 9 + [4], 4, id="those no longer asked for are not"),
        pytest.param([6] * 9 + [4] + [6] * 8, 4, id="asked for again"),
    ],
)
def test_what_was_asked_for_long_enough_is_due(counts: list[int], expected: int) -> None:
    asked: tuple[tuple[float, int], ...] = ()
    for turn, count in enumerate(counts):
        asked = with_asked(asked, now_s=NOW_S + 15.0 * turn, asked=count, usual_s=USUAL_S)
    assert due(asked, now_s=NOW_S + 15.0 * (len(counts) - 1), usual_s=USUAL_S) == expected
    assert len(asked) <= 4


def test_what_is_missed_with_replicas_that_are_gone_does_not_raise_the_headroom() -> None:
    """Nothing has failed, as far as can be seen: they were taken away, and others start in their place in time."""
    world = World(boot_s=60.0)
    world.start(3)
    world.ticks(4, 25)
    world.ticks(30, 38)
    for key in world.ready()[:2]:
        del world.replicas[key], world.engines[key]
    thetas = []
    for _ in range(4):
        crowded(world, 300.0, 20, late=300.0)
        part = world.tick()
        thetas.append(world.state.services[CHAT].theta)
        assert (part.failed, part.starting >= 2) == (0, True)
    # the first tick is the one in which they were lost
    assert len(set(thetas)) == 1
