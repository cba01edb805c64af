"""KEDA: zero and one replica by its own polls, the rest by an HPA; what an empty answer does."""

from __future__ import annotations

import pytest

from loadtests.rivals.hpa import HPA_RATE, arrivals
from loadtests.rivals.keda import KEDA_QUEUE, KEDA_RATE, Keda, ScaledObject
from loadtests.rivals.seen import Bounds
from tests.rivals.scene import EMPTY, FACTS, LOST, WIDE, fleet, followed

FROM_ZERO = Bounds(min_replicas=0, max_replicas=20)


def test_with_a_replica_and_a_healthy_source_it_is_the_hpa() -> None:
    rates = [8.0, 90.0, 90.0, 200.0, 30.0, 30.0, 30.0, 5.0, 0.0]
    scenes = [fleet(1, now_s=60.0 * i, rate=rate) for i, rate in enumerate(rates)]
    assert followed(KEDA_RATE.make(0.8, WIDE, FACTS), scenes) == followed(HPA_RATE.make(0.8, WIDE, FACTS), scenes)


@pytest.mark.parametrize(
    ("ignore", "rate", "replicas"),
    [
        # Read as zero: down to one, as soon as the five minutes' window is over.
        pytest.param(True, EMPTY, 1, id="empty, ignored: zero"),
        pytest.param(False, EMPTY, 9, id="empty, an error: holds"),
        pytest.param(True, LOST, 9, id="unreachable: holds"),
    ],
)
def test_missing_values(ignore: bool, rate: object, replicas: int) -> None:  # noqa: FBT001
    rival = Keda(ScaledObject(threshold=8.0, ignore_null_values=ignore), arrivals, WIDE)
    scenes = [fleet(9, now_s=15.0 * i, rate=72.0 if i == 0 else rate) for i in range(24)]
    assert followed(rival, scenes)[-1] == replicas


def test_zero_after_the_cooldown_and_one_at_a_poll() -> None:
    rival = Keda(ScaledObject(threshold=8.0), arrivals, FROM_ZERO)
    busy = [fleet(1, now_s=15.0 * i, rate=4.0) for i in range(3)]
    # Last seen active at the poll of 30 s; 300 s later, at 330 s, it is let go.
    idle = [fleet(1, now_s=45.0 + 15 * i, rate=0.0) for i in range(25)]
    answers = followed(rival, busy + idle)
    went = 15.0 * answers.index(0)
    assert went == 330.0
    assert set(answers[answers.index(0) :]) == {0}

    # A poll was made at 390 s, the next is due at 420 s; the HPA is asleep and can't act before.
    again = [fleet(0, now_s=405.0 + 15 * i, rate=40.0) for i in range(3)]
    assert [rival.desired(scene) for scene in again] == [0, 1, 1]


def test_activation_threshold() -> None:
    rival = Keda(ScaledObject(threshold=8.0, activation=5.0), arrivals, FROM_ZERO)
    scenes = [fleet(0, now_s=30.0 * i, rate=rate) for i, rate in enumerate([4.0, 5.0, 5.1])]
    assert [rival.desired(scene) for scene in scenes] == [0, 0, 1]


def test_the_charts_queue_trigger() -> None:
    # 23 wait, 5 are allowed for each replica: 4.6, five; the HPA's limit from two is four.
    rival = KEDA_QUEUE.make(KEDA_QUEUE.knob.default, WIDE, FACTS)
    assert rival.desired(fleet(2, queue=23.0)) == 4
    assert KEDA_QUEUE.make(5.0, WIDE, FACTS).desired(fleet(4, queue=23.0)) == 5
