"""Enough replicas for the busiest minute, held throughout: what a team does without an autoscaler."""

from __future__ import annotations

import math
from dataclasses import dataclass

from autoscaler.domain.reading import Unknown
from loadtests.rivals.seen import Bounds, Contender, Facts, Knob, Rival, Seen


@dataclass(frozen=True, slots=True)
class StaticPeak:
    """Always ``replicas``."""

    replicas: int

    def desired(self, seen: Seen) -> int:
        """The same whatever is seen."""
        del seen
        return self.replicas


def _make(share: float, bounds: Bounds, facts: Facts) -> Rival:
    if isinstance(facts.peak_rps, Unknown):
        return StaticPeak(bounds.max_replicas)
    # The allowance for binary fractions keeps a peak of exactly n replicas at n.
    return StaticPeak(bounds.within(math.ceil(share * facts.peak_rps / facts.capacity_rps - 1e-9)))


STATIC_PEAK = Contender(
    name="static peak",
    how="replicas for the busiest minute of the whole traffic, known beforehand, times the knob",
    sources=(),
    interval_s=3600.0,
    lag_s=0.0,
    knob=Knob(
        name="share of the peak",
        default=1.0,
        values=(0.3, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2, 1.3),
    ),
    make=_make,
)
