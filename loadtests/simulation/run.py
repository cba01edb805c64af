"""One run: a setup, who decides, a seed -> what it cost and what it missed."""

from __future__ import annotations

from collections import Counter

from autoscaler.compose import collect_garbage_less_often
from loadtests.simulation.ours import Ours, Told, control
from loadtests.simulation.result import RunResult, result_of
from loadtests.simulation.rivalry import Rivalry, contend
from loadtests.simulation.setup import Setup
from loadtests.simulation.world import World


def simulate(setup: Setup, decider: Ours | Rivalry, *, seed: int) -> RunResult:
    """Run it to its end. The same arguments give the same result, to the last bit.

    Raises what the controller met unexpectedly, if it did: a result of a run that went on without deciding is worth
    nothing.
    """
    collect_garbage_less_often()
    world = World(setup, seed)
    if isinstance(decider, Ours):
        told = Told()
        control(world, decider, told=told)
        if told.errors:
            raise told.errors[0]
        world.finish()
        faults = Counter({fault.value: count for fault, count in told.faults.items()})
        return result_of(world, decider="ours", seed=seed, faults=faults)
    contend(world, decider)
    world.finish()
    return result_of(world, decider=decider.name, seed=seed)
