"""llm-d WVA's two analyzers and the HPA that follows them, worked by hand."""

from __future__ import annotations

import math

import pytest

from loadtests.rivals.seen import Bounds
from loadtests.rivals.wva import CHART, Followed
from loadtests.rivals.wva_saturation import WVA_V1, SaturationSettings, saturation_target
from loadtests.rivals.wva_tokens import WVA_V2, TokenAnalyzer, TokenSettings, derived_capacity, fleet_target
from tests.rivals.scene import FACTS, LOST, WIDE, Scene, fleet

V1 = SaturationSettings()
V2 = TokenSettings()


@pytest.mark.parametrize(
    ("kv", "queues", "current", "last", "replicas"),
    [
        # Spare 0.05 is below 0.10.
        pytest.param([0.75, 0.75], [0, 0], 2, 2, 3, id="little KV is spare"),
        # Spare queue 5 - 2.5 is below 3.
        pytest.param([0.1, 0.1], [2.5, 2.5], 2, 2, 3, id="little queue is spare"),
        # Both saturated: nothing is spare.
        pytest.param([0.9, 0.1], [0, 7], 2, 2, 3, id="all saturated"),
        # The saturated one doesn't count: spare 0.7 of the other; fewer than two unsaturated, so no way down.
        pytest.param([0.9, 0.1], [0, 0], 2, 2, 2, id="one saturated"),
        # Load 0.2 on three is 0.3 on two: spare 0.5.
        pytest.param([0.2, 0.2, 0.2], [0, 0, 0], 3, 3, 2, id="down"),
        # Load 0.5 on three is 0.75 on two: spare 0.05.
        pytest.param([0.5, 0.5, 0.5], [0, 0, 0], 3, 3, 3, id="two would be too full"),
        # A queue of 1.5 on two is 3 on one: spare 2.
        pytest.param([0.1, 0.1], [1.5, 1.5], 2, 2, 2, id="one would queue too much"),
        pytest.param([0.9, 0.9], [9, 9], 3, 3, 3, id="blocked while one starts"),
        pytest.param([0.9, 0.9], [9, 9], 2, 3, 3, id="blocked while its last answer isn't there"),
        pytest.param([0.0], [0], 1, 1, 1, id="never below one"),
    ],
)
def test_v1(kv: list[float], queues: list[float], current: int, last: int, replicas: int) -> None:
    assert saturation_target(kv, queues, current=current, last=last, settings=V1) == replicas


@pytest.mark.parametrize(
    ("demand", "ready", "pending", "replicas"),
    [
        # Each holds 100. 300 / 0.85 - 300 = 53: one more.
        pytest.param(300.0, 3, 0, 4, id="up"),
        # 600 / 0.85 - 300 = 406: five more at once.
        pytest.param(600.0, 3, 0, 8, id="up at once"),
        # Two pending count: 353 - 500 is not more.
        pytest.param(300.0, 3, 2, 5, id="pending ones are supply on the way up"),
        # 240 / 0.85 = 282 is covered by 300; 240 / 0.70 = 343 is not: nothing.
        pytest.param(240.0, 3, 0, 3, id="between both thresholds"),
        # 500 - 210 / 0.70 = 200: two less.
        pytest.param(210.0, 5, 0, 3, id="down"),
        # 500 - 211 / 0.70 = 198.6: one less, rounded down.
        pytest.param(211.0, 5, 0, 4, id="down, rounded down"),
        pytest.param(0.0, 4, 0, 1, id="never below one"),
    ],
)
def test_v2(demand: float, ready: int, pending: int, replicas: int) -> None:
    found = fleet_target(demand=demand, per_replica=100.0, ready=ready, pending=pending, settings=V2)
    assert found == replicas


@pytest.mark.parametrize(
    ("prompt", "output", "tokens"),
    [
        # 2,048 x 500 / 1,000 = 1,024 at once, at most 256 sequences; each holds 500 + 250.
        pytest.param(500, 500, 256 * 750, id="bounded by sequences"),
        # 2,048 x 100 / 2,000 = 102.4; each holds 1,900 + 50.
        pytest.param(1900, 100, 102.4 * 1950, id="bounded by prefill"),
        pytest.param(1000, 0, 0.0, id="no outputs"),
    ],
)
def test_v2_derives_a_compute_bound(prompt: float, output: float, tokens: float) -> None:
    assert derived_capacity(prompt, output, batched_tokens=2048, max_seqs=256) == pytest.approx(tokens)


def analyzed(*scenes: Scene) -> int:
    analyzer = TokenAnalyzer(V2, FACTS)
    return [analyzer.decide(scene, scene.desired) for scene in scenes][-1]


def test_v2_counts_tokens_in_use_and_queued() -> None:
    # Memory bound 80,000 a replica (the derived bound, 2,048 x 200 / 1,100 = 372 -> 256 sequences of 1,000, is
    # higher). In use 2 x 60,000, queued 2 x 2 x 900 prompts: 123,600 / 0.85 = 145,412, less than 160,000; 176,571 at
    # 0.70 is more than that: nothing changes.
    assert analyzed(fleet(2, kv_each=(0.6, 0.6), waiting_each=(2.0, 2.0))) == 2
    # 20 requests held before the replicas, 1,100 tokens each: 145,600 / 0.85 = 171,294: one more.
    assert analyzed(fleet(2, kv_each=(0.6, 0.6), waiting_each=(2.0, 2.0), before=20.0)) == 3


def test_v2_remembers_what_a_full_queue_showed() -> None:
    # Six wait at 30,000 tokens in use: that is the bound. 2 x (30,000 + 5,400) / 0.85 = 83,294: 23,294 are lacking.
    crowded = fleet(2, kv_each=(0.3, 0.3), waiting_each=(6.0, 6.0))
    assert analyzed(crowded) == 3
    # Later without a queue the bound is still 30,000: 2 x 27,000 / 0.85 = 63,529 is over 60,000.
    later = fleet(2, kv_each=(0.27, 0.27), waiting_each=(0.0, 0.0))
    assert analyzed(crowded, later) == 3
    # Without that memory it is 80,000: 160,000 - 54,000 / 0.70 = 82,857 are spare.
    assert analyzed(later) == 1


def test_v2_remembers_by_class_of_output_length() -> None:
    crowded = fleet(2, kv_each=(0.3, 0.3), waiting_each=(6.0, 6.0))
    longer = fleet(2, kv_each=(0.27, 0.27), waiting_each=(0.0, 0.0), output=700.0)
    assert analyzed(crowded, longer) == 1


@pytest.mark.parametrize(
    "scene",
    [
        pytest.param(fleet(3, kv_each=(0.9,) * 3, prompt=LOST), id="lengths unknown"),
        pytest.param(fleet(3, kv_each=(math.nan,) * 3), id="no replica has metrics"),
    ],
)
def test_without_metrics_v2_holds(scene: Scene) -> None:
    assert analyzed(scene) == 3


def test_without_metrics_v1_holds() -> None:
    rival = WVA_V1.make(0.1, WIDE, FACTS)
    assert rival.desired(fleet(3, kv_each=(math.nan,) * 3)) == 3


def test_the_hpa_of_the_chart_waits_four_minutes_and_adds_ten() -> None:
    rival = Followed(lambda seen, last: 30, WIDE)
    answers, current = {}, 2
    for now_s in range(0, 500, 15):
        current = answers[now_s] = rival.desired(fleet(current, now_s=float(now_s)))
    # All of the last 240 s asked for 30 (the first sync recorded 2): at 240 s; 10 in 150 s: at 390 s the next.
    assert [answers[at] for at in (225, 240, 375, 390)] == [2, 12, 12, 22]
    assert CHART.up.tolerance == 0


def test_it_decides_once_a_minute() -> None:
    asked: list[float] = []

    def decide(seen: object, last: int) -> int:
        asked.append(seen.now_s)  # type: ignore[attr-defined]
        return last

    rival = Followed(decide, Bounds(min_replicas=1, max_replicas=9))
    for now_s in range(0, 130, 15):
        rival.desired(fleet(2, now_s=float(now_s)))
    assert asked == [0.0, 60.0, 120.0]


def test_the_knob_keeps_the_ratio_of_both_thresholds() -> None:
    # 40,000 in use, two replicas of 80,000. By 0.85 and 0.70: 160,000 - 57,143 are spare, more than one. By 0.35 and
    # 0.288: 114,286 are enough, but only 160,000 - 138,776 are spare.
    scene = fleet(2, kv_each=(0.2, 0.2), waiting_each=(0.0, 0.0))
    lax, strict = WVA_V2.make(0.85, WIDE, FACTS), WVA_V2.make(0.35, WIDE, FACTS)
    for now_s in range(0, 600, 15):
        lax_answer, strict_answer = (rival.desired(scene.at(float(now_s))) for rival in (lax, strict))
    assert (lax_answer, strict_answer) == (1, 2)
