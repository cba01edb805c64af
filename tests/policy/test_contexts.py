"""The tokens that a batch holds: by the KV cache, or by the lengths of requests that have ended."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from autoscaler.domain.capacity import LoadSample
from autoscaler.domain.learned import Learned
from autoscaler.domain.reading import EngineReading, Measured, Observations, Unknown, UnknownReason
from tests.policy.world import KnownCapacity, World, models

ABSENT = Unknown(UnknownReason.NOT_EXPORTED)


@dataclass(frozen=True)
class Told(KnownCapacity):
    """Remembers what it was told of the contexts."""

    contexts: list[Measured] = field(default_factory=list)

    def learn(self, learned: Learned, sample: LoadSample) -> Learned:
        self.contexts.append(sample.context_tokens)
        return learned


@pytest.mark.parametrize(
    ("fraction", "capacity", "block", "expected"),
    [
        # Ten run, of 100 tokens of prompt and 100 of answer each, all alike: 100 + 50.
        pytest.param(0.01, 100_000.0, 1.0, 1500.0, id="less in the cache: what several have in common"),
        pytest.param(0.04, 100_000.0, 16.0, 3925.0, id="more in the cache: they last longer than those before"),
        pytest.param(0.016, 100_000.0, 16.0, 1525.0, id="as much in the cache, the halves of blocks taken off"),
        pytest.param(0.02, 100_000.0, 128.0, 1500.0, id="coarse blocks"),
        pytest.param(0.04, 100_000.0, 128.0, 4000.0, id="more than coarse blocks explain"),
        pytest.param(0.04, ABSENT, 16.0, 1500.0, id="a cache of unknown size"),
        pytest.param(ABSENT, 100_000.0, 16.0, 1500.0, id="a cache that is not told"),
        pytest.param(0.04, 100_000.0, ABSENT, 1500.0, id="a cache that may be reserved ahead"),
    ],
)
def test_what_ten_running_requests_hold(
    fraction: Measured, capacity: Measured, block: Measured, expected: float
) -> None:
    told = Told(rps=10.0)
    world = World(models=replace(models(), capacity=told))
    world.start(2)
    for _ in range(12):
        world.now_s += world.params.interval_s
        world.offer(60)
        engines: dict[str, EngineReading | Unknown] = {}
        for name, reading in world.observations().engines.items():
            assert isinstance(reading, EngineReading)
            engines[name] = replace(
                reading, running=10.0, kv_fraction=fraction, kv_capacity_tokens=capacity, kv_block_tokens=block
            )
        world.reconcile()
        world.decide(Observations(at_s=world.now_s, engines=engines, gateways={}))
    assert told.contexts[-1] == pytest.approx(expected)
