"""Step by step: the state of the world, the time that passes, the decision."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autoscaler.domain.cluster import Phase
from autoscaler.domain.params import Params
from autoscaler.domain.plan import Hold, Plan, Reason, Stage
from autoscaler.domain.service import (
    Behavior,
    PolicyType,
    RatePolicy,
    ScalingRules,
    SelectPolicy,
)
from tests.policy.world import CHAT, World, models, service


def test_a_load_step_is_answered_in_the_tick_that_sees_it() -> None:
    world = World()
    world.start(2)
    world.ticks(6, 15)
    part = world.tick(55)
    assert (part.desired, part.binding) == (6, Reason.MEASURED_LOAD)


def test_at_short_intervals_a_step_shows_within_two_seconds_and_chance_does_not() -> None:
    world = World(params=Params(interval_s=1.0), models=models(rps=10.0))
    world.start(2)
    world.ticks(70, 15)
    assert [world.tick(rps).desired for rps in (13, 17, 14, 18, 12, 20)] == [2] * 6
    assert 5 <= max(world.tick(80).desired for _ in range(2)) <= 9


def test_starting_replicas_are_supply_so_growth_does_not_cascade() -> None:
    world = World(boot_s=120)
    world.start(1)
    world.ticks(6, 8)
    assert [world.tick(35).desired for _ in range(6)] == [4] * 6


def test_a_shrink_waits_for_the_down_window_and_goes_to_its_largest_need() -> None:
    world = World(models=models(foreseen=lambda _: 0.0))
    world.start(6)
    world.ticks(8, 55)
    desired = [world.tick(rps).desired for rps in (12, 12, 32, 12, 12, 12, 12, 12, 12)]
    # 55 req/s leaves the 60-s window after four ticks, then 32 req/s dominates until it leaves too
    assert desired == [6, 6, 6, 6, 4, 4, 4, 2, 2]


def test_replicas_go_when_even_the_higher_quantile_asks_for_less_and_then_to_the_middle() -> None:
    """Foreseen are 30 req/s (3 replicas), and at the higher quantile 59, later 49 (5 replicas)."""
    later_s = World().now_s + 300
    world = World(models=models(foreseen=lambda at_s: 30.0, kept=lambda at_s: 59.0 if at_s < later_s else 49.0))
    world.start(6)
    world.ticks(8, 45)
    desired = [world.tick(20).desired for _ in range(20)]
    assert desired == sorted(desired, reverse=True)
    assert set(desired) == {6, 4}


def test_a_window_of_the_users_own_is_shrunk_to_its_largest_need() -> None:
    rules = ScalingRules(stabilization_window_s=30.0)
    own = service(behavior=Behavior(scale_down=rules))
    world = World(models=models(foreseen=lambda _: 30.0, kept=lambda _: 49.0), services=(own,))
    world.start(6)
    world.ticks(8, 45)
    assert {world.tick(20).desired for _ in range(20)} == {5}


@pytest.mark.parametrize(
    ("boot_s", "ticks"),
    [
        pytest.param(30.0, 2, id="one interval at the least"),
        pytest.param(185.0, 4, id="a fifth of the lead time"),
        pytest.param(900.0, 5, id="a minute at the most"),
    ],
)
def test_a_shrink_waits_the_longer_the_longer_a_start_takes(boot_s: float, ticks: int) -> None:
    world = World(models=models(foreseen=lambda _: 0.0), boot_s=boot_s)
    world.start(4)
    world.ticks(80, 55)
    desired = [world.tick(12).desired for _ in range(8)]
    assert desired == [6] * (ticks - 1) + [2] * (9 - ticks)


def test_until_a_start_was_measured_a_shrink_waits_for_a_minute() -> None:
    world = World(models=models(foreseen=lambda _: 0.0), boot_s=30.0)
    world.start(6)
    world.ticks(80, 55)
    assert [world.tick(12).desired for _ in range(6)] == [6, 6, 6, 6, 2, 2]


def test_without_a_forecast_the_down_window_is_five_minutes() -> None:
    world = World()
    world.start(6)
    world.ticks(30, 55)
    desired = [world.tick(12).desired for _ in range(22)]
    assert desired.index(2) == 20


def test_a_fresh_controller_does_not_shrink_before_its_windows_are_full() -> None:
    world = World(models=models(foreseen=lambda _: 0.0))
    world.start(6)
    desired = [world.tick(12).desired for _ in range(8)]
    # the first tick only sets the baseline (its need is unknown: six), then come 60 s of measuring
    assert desired == [6, 6, 6, 6, 6, 2, 2, 2]


def test_a_restart_is_a_gap_and_the_window_fills_again() -> None:
    world = World(models=models(foreseen=lambda _: 0.0))
    world.start(6)
    world.ticks(10, 55)
    world.now_s += 600
    first = world.tick(12)
    assert isinstance(first.outcome, Hold)
    assert [world.tick(12).desired for _ in range(5)][:3] == [6, 6, 6]


def test_a_forecast_raises_ahead_of_the_load_and_never_lowers() -> None:
    world = World(models=models(foreseen=lambda at_s: 30.0))
    world.start(2)
    assert world.ticks(5, 25).desired == 3
    world.models = models(foreseen=lambda at_s: 0.0)
    assert world.tick(25).desired == 3


def test_a_forecast_is_capped_by_the_largest_need_of_the_week() -> None:
    world = World(models=models(foreseen=lambda at_s: 10_000.0))
    world.start(2)
    part = world.ticks(6, 15)
    assert part.desired == 3
    assert next(stage for stage in part.stages if stage.stage is Stage.SIZE).reason is Reason.SOFT_CAP


def test_a_backlog_asks_for_the_replicas_that_work_it_off() -> None:
    world = World()
    world.start(1)
    world.ticks(5, 5)
    world.engines[world.ready()[0]].waiting = 1200
    # 5 measured + 1200 that arrived at once in 15 s + 1200/60 to drain them
    assert world.tick(5).desired == 10
    assert world.tick(5).desired == 10


def test_a_foreign_owner_is_reported_and_never_fought() -> None:
    world = World()
    world.start(2)
    world.ticks(5, 15)
    world.owner = "keda-operator"
    part = world.tick(90)
    assert part.outcome == Hold(reason=Reason.FOREIGN_OWNER, detail="keda-operator also writes the replica count")
    assert part.desired == 2


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        pytest.param(ScalingRules(policies=(RatePolicy(type=PolicyType.PODS, value=2, period_s=60),)), 4, id="pods"),
        pytest.param(
            ScalingRules(policies=(RatePolicy(type=PolicyType.PERCENT, value=50, period_s=60),)), 3, id="percent"
        ),
        pytest.param(
            ScalingRules(
                policies=(
                    RatePolicy(type=PolicyType.PODS, value=4, period_s=60),
                    RatePolicy(type=PolicyType.PERCENT, value=50, period_s=60),
                ),
                select_policy=SelectPolicy.MIN,
            ),
            3,
            id="min-of-two",
        ),
        pytest.param(ScalingRules(select_policy=SelectPolicy.DISABLED), 2, id="disabled"),
        pytest.param(ScalingRules(stabilization_window_s=60), 2, id="stabilized"),
        pytest.param(ScalingRules(tolerance=3.0), 2, id="within-tolerance"),
        pytest.param(ScalingRules(), 8, id="no-limit"),
    ],
)
def test_scale_up_rules_speak_hpa(rules: ScalingRules, expected: int) -> None:
    world = World(services=(service(behavior=Behavior(scale_up=rules)),))
    world.start(2)
    world.ticks(6, 15)
    assert world.tick(75).desired == expected


def test_rate_policies_allow_the_next_step_after_their_period() -> None:
    rules = ScalingRules(policies=(RatePolicy(type=PolicyType.PODS, value=2, period_s=30),))
    world = World(services=(service(behavior=Behavior(scale_up=rules)),))
    world.start(2)
    world.ticks(6, 15)
    assert [world.tick(95).desired for _ in range(6)] == [4, 4, 6, 6, 8, 8]


def test_failed_replicas_are_replaced_while_others_serve() -> None:
    world = World()
    world.start(3)
    world.ticks(6, 25)
    broken = world.ready()[0]
    world.replicas[broken] = replace(world.replicas[broken], phase=Phase.FAILED)
    assert world.tick(25).desired == 4


def test_a_crash_loop_of_all_replicas_does_not_grow() -> None:
    world = World()
    world.start(3)
    world.ticks(6, 25)
    for name in world.ready():
        world.replicas[name] = replace(world.replicas[name], phase=Phase.FAILED)
    assert world.ticks(4).desired == 3


def test_the_headroom_follows_the_share_in_slo() -> None:
    def run(late_share: float) -> float:
        world = World(models=models(foreseen=lambda _: 0.0))
        world.start(3)
        for _ in range(60):
            world.now_s += 15
            world.offer(300, late=300 * late_share)
            world.decide()
        return world.state.services[CHAT].theta

    assert run(0.0) < run(0.01) < run(0.2)


def test_measured_starts_replace_the_assumed_start_up_time() -> None:
    world = World(services=(service(startup_s=500),), boot_s=45)
    world.start(1)
    assert world.ticks(5, 5).lead_s == 515
    world.ticks(6, 25)
    assert world.tick(25).lead_s == pytest.approx(60)


def test_plan_names_every_variant_it_decided() -> None:
    world = World()
    world.start(1)
    part = world.ticks(5, 5)
    assert isinstance(part.outcome, Plan)
    assert [stage.stage for stage in part.stages] == list(Stage)
