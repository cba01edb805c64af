"""A replica is saturated where requests waited all the time: what it completes then is what it can serve."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from autoscaler.domain.capacity import LoadSample
from autoscaler.domain.learned import Learned
from tests.policy.world import KnownCapacity, World, models


@dataclass(frozen=True)
class Told(KnownCapacity):
    """Remembers which windows were called saturated."""

    saturated: list[bool] = field(default_factory=list)

    def learn(self, learned: Learned, sample: LoadSample) -> Learned:
        self.saturated.append(sample.saturated)
        return learned


@pytest.mark.parametrize(
    ("waiting", "expected"),
    [
        pytest.param([(0, 0), (0, 0), (0, 0)], [False, False], id="nobody waits"),
        pytest.param([(0, 0), (1, 1), (0, 0)], [False, False], id="two looks found one that waited for its prefill"),
        pytest.param([(0, 0), (5, 5), (5, 5)], [False, True], id="a queue that lasts"),
        pytest.param([(5, 5), (5, 0), (5, 0)], [False, False], id="on one of two replicas"),
    ],
)
def test_a_queue_at_both_ends_of_a_window(waiting: list[tuple[int, int]], expected: list[bool]) -> None:
    told = Told(rps=10.0)
    world = World(models=replace(models(), capacity=told))
    world.start(2)
    world.ticks(4, rps=4.0)
    told.saturated.clear()
    for queues in waiting:
        for name, queue in zip(world.ready(), queues, strict=False):
            world.engines[name].waiting = float(queue)
        world.tick(4.0)
    assert told.saturated[1:] == expected
