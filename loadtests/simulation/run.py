"""One run: a setup, who decides, a seed -> what it cost and what it missed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from autoscaler.compose import collect_garbage_less_often
from autoscaler.domain.service import ServiceId
from loadtests.simulation.ours import Ours, Told, control
from loadtests.simulation.result import RunResult, result_of
from loadtests.simulation.rivalry import Rivalry, contend
from loadtests.simulation.setup import SERVICE, Setup
from loadtests.simulation.world import World


def simulate(setup: Setup, decider: Ours | Rivalry, *, seed: int) -> RunResult:
    """Run it to its end. The same arguments give the same result, to the last bit.

    Raises what the controller met unexpectedly, if it did: a result of a run that went on without deciding is worth
    nothing.
    """
    if isinstance(decider, Ours):
        return simulate_together({SERVICE: setup}, decider, seed=seed)[SERVICE]
    collect_garbage_less_often()
    world = World({SERVICE: setup}, seed)
    contend(world, decider)
    world.finish()
    return result_of(world, world.parts[0], decider=decider.name, seed=seed)


def simulate_together(setups: Mapping[ServiceId, Setup], ours: Ours, *, seed: int) -> dict[ServiceId, RunResult]:
    """As ``simulate``, with one controller for several services of one world. Variants of different capacity need
    different names. Raises ValueError where they have not, and where the setups don't agree in what the world is.
    """
    collect_garbage_less_often()
    world, told = World(setups, seed), Told()
    control(world, ours, told=told)
    if told.errors:
        raise told.errors[0]
    world.finish()
    faults = Counter({fault.value: count for fault, count in told.faults.items()})
    return {part.service: result_of(world, part, decider="ours", seed=seed, faults=faults) for part in world.parts}
