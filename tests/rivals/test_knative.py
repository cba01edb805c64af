"""Knative's KPA, worked by hand from its formulas: target 10, stable window 60 s, panic window 6 s."""

from __future__ import annotations

import pytest

from loadtests.rivals.knative import KNATIVE_KPA, KNATIVE_RPS, Kpa, KpaSettings
from tests.rivals.scene import FACTS, LOST, WIDE, Scene, fleet


def kpa(**settings: float) -> Kpa:
    return Kpa(KpaSettings(target=10.0, **settings), WIDE)  # type: ignore[arg-type]


def seen(ready: int, stable: float, burst: float, *, now_s: float = 0.0) -> Scene:
    return fleet(ready, now_s=now_s, flights={60.0: stable, 6.0: burst})


@pytest.mark.parametrize(
    ("ready", "stable", "burst", "replicas"),
    [
        pytest.param(1, 7.0, 7.0, 1, id="one is enough"),
        # ceil(41 / 10) = 5; the burst's 5 over 1 ready is more than twice: panic, all the same 5.
        pytest.param(1, 41.0, 41.0, 5, id="up"),
        # Stable asks for 2, the burst for 10: 10 / 1 is over 2: panic takes the burst's.
        pytest.param(1, 15.0, 95.0, 10, id="panic takes the larger"),
        # The burst asks for 1 of 1 ready: no panic.
        pytest.param(1, 25.0, 9.0, 3, id="the stable window alone"),
    ],
)
def test_one_decision(ready: int, stable: float, burst: float, replicas: int) -> None:
    assert kpa().desired(seen(ready, stable, burst)) == replicas


def settled(ready: int) -> Kpa:
    """One that has been over its first panic for long."""
    rival = kpa()
    rival.desired(seen(ready, 10.0 * ready, 10.0 * ready))
    rival.desired(seen(ready, 10.0 * ready, 10.0 * ready, now_s=61))
    return rival


def test_it_shrinks_by_half_at_most() -> None:
    # 100 ready are used by 1: floor(100 / 2) = 50.
    assert settled(100).desired(seen(100, 5.0, 5.0, now_s=63)) == 50


def test_a_fresh_one_with_replicas_starts_in_panic() -> None:
    rival = kpa()
    assert rival.desired(seen(8, 10.0, 10.0)) == 8
    assert rival.desired(seen(8, 10.0, 10.0, now_s=60)) == 8
    # One stable window is over: floor(8 / 2).
    assert rival.desired(seen(8, 10.0, 10.0, now_s=61)) == 4


def test_in_panic_it_only_grows_until_a_stable_window_without_a_breach() -> None:
    rival = settled(2)
    assert rival.desired(seen(2, 20.0, 20.0, now_s=100)) == 2
    # 65 asks for 7, over twice 2: panic.
    assert rival.desired(seen(2, 25.0, 65.0, now_s=102)) == 7
    assert rival.desired(seen(7, 30.0, 15.0, now_s=104)) == 7
    # A higher burst raises the mark, though 9 is below twice 7.
    assert rival.desired(seen(7, 30.0, 85.0, now_s=120)) == 9
    assert rival.desired(seen(9, 30.0, 10.0, now_s=162)) == 9
    # The last breach was at 102 s; at 163 s more than 60 s have passed: ceil(60 / 10).
    assert rival.desired(seen(9, 60.0, 10.0, now_s=163)) == 6


def test_scale_down_delay_keeps_the_largest() -> None:
    rival = kpa(scale_down_delay_s=30.0, panic_threshold=9.0)
    assert [rival.desired(seen(1, load, load, now_s=at)) for at, load in ((0, 10.0), (2, 19.0), (4, 9.0))] == [1, 2, 2]
    assert rival.desired(seen(2, 9.0, 9.0, now_s=31.9)) == 2
    assert rival.desired(seen(2, 9.0, 9.0, now_s=32)) == 1


def test_without_data_the_last_answer_stands() -> None:
    assert kpa().desired(fleet(6, flight=LOST)) == 6


def test_its_defaults() -> None:
    # 70 % of 50 in flight at capacity: 35 each; 200 need 6 (5.7).
    rival = KNATIVE_KPA.make(KNATIVE_KPA.knob.default, WIDE, FACTS)
    assert rival.desired(fleet(1, flight=200.0)) == 6
    assert (KNATIVE_KPA.interval_s, KNATIVE_KPA.lag_s) == (2.0, 1.0)


def test_by_the_rate() -> None:
    # 70 % of 10/s: 7/s each; 50/s need 8 (7.1), whatever is in flight.
    rival = KNATIVE_RPS.make(KNATIVE_RPS.knob.default, WIDE, FACTS)
    assert rival.desired(fleet(1, rate=50.0, flight=900.0)) == 8
