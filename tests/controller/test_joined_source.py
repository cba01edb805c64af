"""Sources of metrics as one: none waits for another."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Barrier

import pytest

from autoscaler.compose import JoinedSource
from autoscaler.domain.cluster import ClusterSnapshot
from autoscaler.domain.reading import Observations, Unknown, UnknownReason
from autoscaler.ports import UnavailableError

SNAPSHOT = ClusterSnapshot(at_s=10.0, devices=(), replicas=(), targets=())


@dataclass
class Meeting:
    """A source that answers only once as many as the barrier has parties are asked."""

    replica: str
    at_s: float
    barrier: Barrier
    fails: bool = False

    def read(self, snapshot: ClusterSnapshot) -> Observations:
        self.barrier.wait(timeout=30)
        if self.fails:
            raise UnavailableError(self.replica)
        return Observations(at_s=self.at_s, engines={self.replica: Unknown(UnknownReason.TIMEOUT)}, gateways={})


def test_sources_are_asked_at_the_same_time() -> None:
    together = Barrier(3)
    joined = JoinedSource([Meeting(name, at_s, together) for name, at_s in (("a", 11.0), ("b", 13.0), ("c", 12.0))])
    for _ in range(2):
        told = joined.read(SNAPSHOT)
        assert list(told.engines) == ["a", "b", "c"]
        assert told.at_s == 13.0


def test_what_one_raises_is_raised() -> None:
    together = Barrier(2)
    with pytest.raises(UnavailableError, match="b"):
        JoinedSource([Meeting("a", 11.0, together), Meeting("b", 11.0, together, fails=True)]).read(SNAPSHOT)
