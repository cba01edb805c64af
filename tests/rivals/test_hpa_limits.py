"""Stabilization windows and policies of the HPA, worked by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtests.rivals.hpa_limits import Behavior, HpaLimits, PolicyKind, ScalingPolicy, ScalingRules, Select
from loadtests.rivals.seen import Bounds
from tests.rivals.scene import WIDE

PODS, PERCENT = PolicyKind.PODS, PolicyKind.PERCENT


def rules(*policies: ScalingPolicy, window_s: float = 0.0, select: Select = Select.MAX) -> ScalingRules:
    return ScalingRules(window_s=window_s, policies=policies, select=select)


FREE = rules(ScalingPolicy(PERCENT, 10_000, 15))
AT_ONCE = rules(ScalingPolicy(PERCENT, 100, 15))


def answers(behavior: Behavior | None, begin: int, recommended: list[tuple[float, int]]) -> list[int]:
    limits, current, found = HpaLimits(behavior, WIDE), begin, []
    for now_s, replicas in recommended:
        current = limits.limited(now_s, current, replicas)
        found.append(current)
    return found


@pytest.mark.parametrize(
    ("begin", "recommended", "expected"),
    [
        # max(2 x 1, 4) = 4, then 8, 16, 32.
        pytest.param(1, [(0, 40), (15, 40), (30, 40), (45, 40), (60, 40)], [4, 8, 16, 32, 40], id="doubled each sync"),
        # A fresh HPA records the present 10, so it doesn't shrink until 300 s are over.
        pytest.param(10, [(0, 2), (15, 2), (300, 2), (315, 2)], [10, 10, 10, 2], id="a fresh one doesn't shrink"),
        # At 400 s the 6 of 200 s still counts, at 501 s only the 3 of 400 s and the 2.
        pytest.param(
            10, [(0, 10), (200, 6), (400, 3), (501, 2)], [10, 10, 6, 3], id="down to the largest of five minutes"
        ),
        pytest.param(2, [(0, 2), (15, 5), (30, 1)], [2, 4, 5], id="the unstabilized recommendation is recorded"),
    ],
)
def test_without_behavior(begin: int, recommended: list[tuple[float, int]], expected: list[int]) -> None:
    assert answers(None, begin, recommended) == expected


@pytest.mark.parametrize(
    ("behavior", "begin", "recommended", "expected"),
    [
        # Any block brings in 100 % or 4 pods in 15 s: 1 -> 5 -> 10 -> 20 -> 40, the documentation's defaults.
        pytest.param(
            Behavior(), 1, [(0, 40), (15, 40), (30, 40), (45, 40)], [5, 10, 20, 40], id="defaults of a block"
        ),
        # Within one period the period's begin counts: 1 + 4, and nothing more at 5 s.
        pytest.param(Behavior(), 1, [(0, 40), (5, 40), (15, 40)], [5, 5, 10], id="twice in one period"),
        # 4 pods a minute (the documentation's example): at 30 s none is left, at 60 s another 4.
        pytest.param(
            Behavior(up=rules(ScalingPolicy(PODS, 4, 60))),
            10, [(0, 30), (30, 30), (60, 30)], [14, 14, 18], id="pods per minute",
        ),
        # Min of 4 pods and 10 % of 80 = 8: 4.
        pytest.param(
            Behavior(up=rules(ScalingPolicy(PODS, 4, 60), ScalingPolicy(PERCENT, 10, 60), select=Select.MIN)),
            80, [(0, 200)], [84], id="the least of two",
        ),
        # The documentation's: 80 pods to 10 by max of 4 pods and 10 %: 72 (8), then 7.2 of 72, rounded: 64.
        pytest.param(
            Behavior(down=rules(ScalingPolicy(PODS, 4, 60), ScalingPolicy(PERCENT, 10, 60))),
            80, [(0, 10), (60, 10), (120, 10)], [72, 64, 57], id="the most of two, down",
        ),
        # Min downwards takes the smaller change: 4.
        pytest.param(
            Behavior(down=rules(ScalingPolicy(PODS, 4, 60), ScalingPolicy(PERCENT, 10, 60), select=Select.MIN)),
            80, [(0, 10)], [76], id="the least of two, down",
        ),
        pytest.param(
            Behavior(down=rules(ScalingPolicy(PERCENT, 100, 15), select=Select.DISABLED)),
            8, [(0, 1), (900, 1)], [8, 8], id="never down",
        ),
        # 10 % of one pod rounds up on the way up, so that it can grow.
        pytest.param(Behavior(up=rules(ScalingPolicy(PERCENT, 10, 60))), 1, [(0, 5)], [2], id="one can become two"),
        # Up only as high as all of the last 60 s asked for: 4 at 0 s, 6 at 30 s, so 4 still at 45 s; at 61 s it is 6.
        pytest.param(
            Behavior(up=rules(ScalingPolicy(PERCENT, 900, 15), window_s=60)),
            4, [(0, 4), (30, 6), (45, 9), (61, 9)], [4, 4, 4, 6], id="an upward window",
        ),
        # Four leave at 0 s; what was removed in the period counts back: from 16 at its begin 4 may be added.
        pytest.param(
            Behavior(up=rules(ScalingPolicy(PODS, 4, 60)), down=AT_ONCE),
            16, [(0, 12), (15, 40)], [12, 20], id="removed pods may come back",
        ),
        pytest.param(
            Behavior(up=FREE, down=rules(ScalingPolicy(PERCENT, 100, 15), window_s=0)),
            9, [(0, 9), (15, 2)], [9, 2], id="no window, down at once",
        ),
    ],
)  # fmt: skip
def test_by_rules(behavior: Behavior, begin: int, recommended: list[tuple[float, int]], expected: list[int]) -> None:
    assert answers(behavior, begin, recommended) == expected


@given(
    recommended=st.lists(st.tuples(st.integers(1, 120), st.integers(0, 60)), min_size=1, max_size=30),
    begin=st.integers(1, 40),
    rules_or_none=st.sampled_from([None, Behavior()]),
)
def test_stays_between_the_present_and_what_was_recommended(
    recommended: list[tuple[int, int]], begin: int, rules_or_none: Behavior | None
) -> None:
    bounds = Bounds(min_replicas=1, max_replicas=50)
    limits, current, now_s, asked = HpaLimits(rules_or_none, bounds), begin, 0.0, [begin]
    for gap_s, replicas in recommended:
        now_s += gap_s
        asked.append(replicas)
        found = limits.limited(now_s, current, replicas)
        assert bounds.within(min(current, *asked)) <= found <= bounds.within(max(current, *asked))
        current = found
