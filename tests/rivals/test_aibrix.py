"""AIBrix' APA and KPA, worked by hand: target 10 in flight a pod."""

from __future__ import annotations

import pytest

from loadtests.rivals.aibrix import AIBRIX_APA, Apa, ApaSettings, aibrix_kpa, apa_replicas, with_pending
from loadtests.rivals.seen import Rival
from tests.rivals.scene import FACTS, LOST, WIDE, fleet, followed

TEN = ApaSettings(target=10.0)


@pytest.mark.parametrize(
    ("current", "per_pod", "replicas"),
    [
        # 1.5 x 4.
        pytest.param(4, 15.0, 6, id="up"),
        pytest.param(4, 11.0, 4, id="upper end of the tolerance"),
        # 1.2 x 4 = 4.8.
        pytest.param(4, 12.0, 5, id="rounded up"),
        # 5 x 4 = 20, at most doubled.
        pytest.param(4, 50.0, 8, id="at most doubled"),
        pytest.param(4, 9.0, 4, id="lower end of the tolerance"),
        # 0.5 x 5 = 2.5, three.
        pytest.param(5, 5.0, 3, id="down, rounded up"),
        # 0.1 x 9 = 0.9, one; at most halved: floor(4.5).
        pytest.param(9, 1.0, 4, id="at most halved"),
    ],
)
def test_apa(current: int, per_pod: float, replicas: int) -> None:
    assert apa_replicas(current, per_pod, TEN) == replicas


@pytest.mark.parametrize(
    ("wanted", "per_pod", "current", "ready", "replicas"),
    [
        pytest.param(8, 20.0, 4, 4, 8, id="none pending"),
        # Two ready with 20 each are worth four: the two pending are enough.
        pytest.param(8, 20.0, 4, 2, 4, id="pending ones are enough"),
        # Two ready with 30 each are worth six.
        pytest.param(8, 30.0, 4, 2, 6, id="a part is still wanted"),
        # Down: two ready with 4 and two pending on target: (8 + 20) / 10 = 2.8, three.
        pytest.param(2, 4.0, 4, 2, 3, id="pending ones on target on the way down"),
    ],
)
def test_the_guard_for_pending_pods(wanted: int, per_pod: float, current: int, ready: int, replicas: int) -> None:
    assert with_pending(wanted, per_pod, current=current, ready=ready, target=10.0) == replicas


def test_replicas_that_load_are_not_ordered_again() -> None:
    rival = Apa(TEN, WIDE)
    # 80 in flight on 2 ready: 40 each, four times the target, doubled to 4.
    assert rival.desired(fleet(2, flight=80.0)) == 4
    # The two load; 2 ready with 40 each are worth 8, so four more, and not eight more in the next round.
    assert rival.desired(fleet(4, starting=2, now_s=10, flight=80.0)) == 8
    assert rival.desired(fleet(8, starting=6, now_s=20, flight=80.0)) == 8


@pytest.mark.parametrize(
    ("keeps_largest", "answers"),
    [
        # 40 asks for four, then 20 for two: the four of 10 s counts until 310 s.
        pytest.param(True, [4, 4, 4, 2], id="as documented"),
        pytest.param(False, [4, 2, 2, 2], id="as the code has it"),
    ],
)
def test_the_cooldown(keeps_largest: bool, answers: list[int]) -> None:  # noqa: FBT001
    rival = Apa(ApaSettings(target=10.0, cooldown_keeps_largest=keeps_largest), WIDE)
    scenes = [
        fleet(4, now_s=10, flight=40.0),
        fleet(4, now_s=20, flight=20.0),
        fleet(4, now_s=309, flight=20.0),
        fleet(4, now_s=310, flight=20.0),
    ]
    assert followed(rival, scenes) == answers


@pytest.mark.parametrize(
    ("rival", "replicas"),
    [
        # 80 in flight, 10 each: eight, at most twice 6.
        pytest.param(aibrix_kpa(10.0, WIDE), 8, id="as documented: the total"),
        # The mean over six pods is 13.3, taken for the total: two, at most halved: three. It shrinks while overloaded.
        pytest.param(aibrix_kpa(10.0, WIDE, as_released=True), 3, id="as released: the mean"),
    ],
)
def test_kpa(rival: Rival, replicas: int) -> None:
    # Past the panic of its begin and the 300 s of its cooldown.
    for now_s in range(0, 500, 10):
        answer = rival.desired(fleet(6, now_s=float(now_s), flight=80.0))
    assert answer == replicas


def test_without_a_metric_it_holds() -> None:
    assert AIBRIX_APA.make(0.8, WIDE, FACTS).desired(fleet(5, flight=LOST)) == 5


def test_its_default_target() -> None:
    # 80 % of 50 in flight: 40 each; 90 on each of two is 2.25 times, at most doubled.
    assert AIBRIX_APA.make(AIBRIX_APA.knob.default, WIDE, FACTS).desired(fleet(2, flight=180.0)) == 4
