"""Ray Serve's policy, worked by hand: target 10 ongoing requests a replica."""

from __future__ import annotations

import pytest

from loadtests.rivals.ray_serve import RAY_SERVE, RayServe, RaySettings, scaled
from loadtests.rivals.seen import Bounds
from tests.rivals.scene import FACTS, LOST, WIDE, Scene, fleet, followed

TEN = RaySettings(target_ongoing=10.0)


@pytest.mark.parametrize(
    ("wanted", "current", "up", "down", "replicas"),
    [
        pytest.param(4.2, 2, 1.0, 1.0, 5, id="up, rounded up"),
        # 2 + 0.5 x (6 - 2).
        pytest.param(6.0, 2, 0.5, 1.0, 4, id="half the way up"),
        # 10 + 0.5 x (4 - 10).
        pytest.param(4.0, 10, 1.0, 0.5, 7, id="half the way down"),
        # 10 + 0.1 x (8.5 - 10) = 9.85 rounds up to 10: stuck, so one less.
        pytest.param(8.5, 10, 1.0, 0.1, 9, id="stuck on the way down"),
        # 9.5 needs ten: not stuck.
        pytest.param(9.5, 10, 1.0, 0.1, 10, id="not stuck"),
    ],
)
def test_factors(wanted: float, current: int, up: float, down: float, replicas: int) -> None:
    settings = RaySettings(target_ongoing=10.0, upscaling_factor=up, downscaling_factor=down)
    assert scaled(wanted, current, settings) == replicas


def every_ten_s(loads: list[float], replicas: int) -> list[Scene]:
    return [fleet(replicas, now_s=10.0 * i, flight=load) for i, load in enumerate(loads)]


def test_up_after_30_s_of_wanting() -> None:
    # Five replicas are wanted from 10 s on: at 40 s they have been for 30 s.
    answers = followed(RayServe(TEN, WIDE), every_ten_s([20.0, 50.0, 50.0, 50.0, 50.0], 2))
    assert answers == [2, 2, 2, 2, 5]


def test_an_interruption_starts_the_delay_anew() -> None:
    answers = followed(RayServe(TEN, WIDE), every_ten_s([50.0, 50.0, 20.0, 50.0, 50.0, 50.0, 50.0], 2))
    assert answers == [2, 2, 2, 2, 2, 2, 5]


def test_down_after_600_s() -> None:
    answers = followed(RayServe(TEN, WIDE), every_ten_s([15.0] * 61, 5))
    assert answers[:60] == [5] * 60
    assert answers[60] == 2


def test_to_zero_from_one_only_and_back_at_once() -> None:
    bounds = Bounds(min_replicas=0, max_replicas=9)
    rival = RayServe(RaySettings(target_ongoing=10.0, downscale_delay_s=20, downscale_to_zero_delay_s=50), bounds)
    assert followed(rival, every_ten_s([0.0] * 9, 5)) == [5, 5, 1, 1, 1, 1, 1, 1, 0]
    assert rival.desired(fleet(0, now_s=100, flight=0.0)) == 0
    assert rival.desired(fleet(0, now_s=100.1, flight=3.0)) == 1


def test_without_metrics_it_holds() -> None:
    assert RAY_SERVE.make(0.8, WIDE, FACTS).desired(fleet(4, flight=LOST)) == 4


def test_its_running_replicas_count() -> None:
    # Two of five run: 100 / 10 is ten whatever runs, since the ratio multiplies those that run.
    rival = RayServe(RaySettings(target_ongoing=10.0, upscale_delay_s=0), WIDE)
    assert rival.desired(fleet(5, starting=3, flight=100.0)) == 10
