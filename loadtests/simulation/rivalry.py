"""A rival as the one who decides."""

from __future__ import annotations

import math
from dataclasses import dataclass

from adapters.simulation.source import Scraping
from autoscaler.domain.plan import VariantTarget
from autoscaler.ports import PortError
from loadtests.rivals.seen import Bounds, Contender, Facts
from loadtests.simulation.setup import SERVICE
from loadtests.simulation.sightings import Sightings
from loadtests.simulation.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Rivalry:
    """A contender with a setting of its knob (None: its default), and what it is told of the replicas."""

    contender: Contender
    facts: Facts
    knob: float | None = None

    @property
    def setting(self) -> float:
        """Of the knob."""
        return self.contender.knob.default if self.knob is None else self.knob

    @property
    def name(self) -> str:
        """The contender's, and the setting."""
        return f"{self.contender.name} {self.contender.knob.name}={self.setting:g}"


def contend(world: World, rivalry: Rivalry) -> None:
    """Ask the rival every interval, as its own controller would decide, to the end of the run.

    What it wants is asked of the first kind of replica. A change that is refused is asked for again next time, and
    while the cluster can't be read nothing is decided.
    """
    setup, contender = world.setup, rivalry.contender
    bounds = Bounds(min_replicas=setup.bounds.min_replicas, max_replicas=setup.bounds.max_replicas)
    rival = contender.make(rivalry.setting, bounds, rivalry.facts)
    # Readings of the run's source bear their own age.
    source = world.source(setup.scraping if contender.lag_s is None else Scraping())
    sightings = Sightings(world, source, every_s=contender.interval_s, lag_s=contender.lag_s or 0.0)
    variant = setup.kinds[0].variant
    for turn in range(math.floor(setup.duration_s / contender.interval_s) + 1):
        world.clock.wait_until(world.clock.begin_s + turn * contender.interval_s)
        try:
            seen = sightings.now()
            wanted = bounds.within(rival.desired(seen))
            if wanted != seen.desired:
                world.actuator.scale(SERVICE, [VariantTarget(variant=variant, replicas=wanted)])
        except PortError:
            continue
