"""A capacity that a user states in requests per second, in place of one that is learned.

The configuration has no key for it: live, a replica's rate comes from its step time. A fluid fleet has no steps, so
there it is stated, right or wrong by a known part, and the rest of the controller works as ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autoscaler.domain.capacity import CapacityLimit, CapacitySource, LoadSample, ReplicaCapacity, RequestShape
from autoscaler.domain.learned import Learned
from autoscaler.domain.reading import Unknown
from autoscaler.domain.service import Slo, Variant


@dataclass(frozen=True, slots=True)
class StatedCapacity:
    """A CapacityModel that answers what it was told, by variant (requests/s of one replica), and learns nothing."""

    rps: Mapping[str, float]

    def start(self) -> Learned:
        """An empty memory."""
        return Learned("stated", {})

    def learn(self, learned: Learned, sample: LoadSample) -> Learned:
        """The same memory."""
        return learned

    def capacity(
        self, learned: Learned, *, variant: Variant, shape: RequestShape | Unknown, slo: Slo, fleet: int
    ) -> ReplicaCapacity | Unknown:
        """What was stated for this variant."""
        return ReplicaCapacity(
            rps=self.rps[variant.name],
            limit=CapacityLimit.SATURATION,
            source=CapacitySource.PROFILE,
            detail="stated",
        )
