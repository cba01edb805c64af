"""A week of many services under one controller: `python -m benchmarks.simulate_week [--days 7] [--services 50]
[--interval 15]`.

Traffic by the minute with the swing of a day, fluid replicas that start in a minute, the shipped defaults but for the
interval of the ticks. Prints the CPU time of it all and, of a second run of the same world in which what was
decided is only repeated, that of the world: clock, cluster, fleets and the readings of every page. What is left is the
controller's.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from adapters.simulation.delays import Fixed
from adapters.simulation.fluid_fleet import FluidModel
from adapters.simulation.replicas import ReplicaKind
from autoscaler.compose import collect_garbage_less_often
from autoscaler.domain.plan import ServiceDecision
from autoscaler.domain.service import Bounds, ServiceId, Slo
from loadtests.simulation.ours import SHIPPED, Ours, Told, control
from loadtests.simulation.result import RunResult, result_of
from loadtests.simulation.setup import FluidServing, Setup
from loadtests.simulation.world import World
from loadtests.workloads.workload import SecondCounts

CAPACITY_RPS = 2.0
DAY_S, MINUTE_S = 86_400, 60


def traffic(number: int, *, days: float, mean_rps: float) -> SecondCounts:
    """Rates of single minutes: a day's swing with a phase of the service's own, and noise that lasts."""
    random = np.random.default_rng(number)
    minutes = max(1, round(days * DAY_S / MINUTE_S))
    swing = 1 + 0.6 * np.sin(2 * np.pi * (np.arange(minutes) * MINUTE_S / DAY_S + random.random()))
    noise = np.zeros(minutes)
    for minute, shock in enumerate(random.standard_normal(minutes - 1) * 0.05, start=1):
        noise[minute] = 0.97 * noise[minute - 1] + shock
    rates = np.repeat(mean_rps * swing * np.exp(noise), MINUTE_S)
    return SecondCounts(arrivals=random.poisson(rates).astype(np.int64), prompt_tokens=800.0, output_tokens=200.0)


def setups(*, days: float, services: int, replicas: int) -> dict[ServiceId, Setup]:
    """Services that need ``replicas`` on average together."""
    each = replicas / services
    return {
        ServiceId(f"service-{number:03}"): Setup(
            serving=FluidServing(
                arrivals=traffic(number, days=days, mean_rps=0.7 * each * CAPACITY_RPS),
                model=FluidModel(capacity_rps=CAPACITY_RPS, service_s=5.0),
            ),
            slo=Slo(ttft_s=2.0),
            bounds=Bounds(min_replicas=1, max_replicas=max(2, round(4 * each))),
            kinds=(ReplicaKind(startup=Fixed(60.0)),),
            initial=max(1, round(each)),
        )
        for number in range(services)
    }


def decided(world: World, *, interval_s: float) -> list[ServiceDecision]:
    """Run the controller to the end; everything that it decided."""
    decisions: list[ServiceDecision] = []
    told = Told(listener=decisions.append)
    control(world, Ours(text=f"intervalSeconds: {interval_s:g}\n{SHIPPED.text}"), told=told)
    world.finish()
    if told.errors:
        raise told.errors[0]
    return decisions


def repeated(world: World, decisions: list[ServiceDecision], *, interval_s: float) -> None:
    """The same ticks with the same looks and the same answers, and nobody who thinks."""
    source = world.source(world.setup.scraping)
    asked = {(each.at_s, each.service): each.targets() for each in decisions}
    turns = round(world.setup.duration_s / interval_s)
    for turn in range(turns + 1):
        world.clock.wait_until(world.clock.begin_s + turn * interval_s)
        source.read(world.inventory.snapshot())
        for part in world.parts:
            targets = asked.get((world.clock.now_s(), part.service))
            if targets is not None:
                world.actuator.scale(part.service, targets)
    world.finish()


def accounts(world: World) -> list[RunResult]:
    """Of every service."""
    return [result_of(world, part, decider="ours", seed=1) for part in world.parts]


def main() -> None:
    """Run it twice and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=float, default=7.0)
    parser.add_argument("--services", type=int, default=50)
    parser.add_argument("--replicas", type=int, default=200, help="that all services need together, on average")
    parser.add_argument("--interval", type=float, default=15.0, help="seconds between ticks")
    given = parser.parse_args()
    collect_garbage_less_often()
    them = setups(days=given.days, services=given.services, replicas=given.replicas)
    # What is compiled at first use is no matter here.
    decided(World(setups(days=0.02, services=2, replicas=8), seed=1), interval_s=15.0)

    began_s = time.process_time()
    world = World(them, seed=1)
    decisions = decided(world, interval_s=given.interval)
    results = accounts(world)
    whole_s = time.process_time() - began_s

    began_s = time.process_time()
    again = World(them, seed=1)
    repeated(again, decisions, interval_s=given.interval)
    world_s = time.process_time() - began_s
    hours = sum(each.gpu_hours for each in results)
    if not np.isclose(hours, sum(each.gpu_hours for each in accounts(again)), rtol=1e-3):
        raise RuntimeError("the second run was another one")
    share = 1 - sum(each.score.missed for each in results) / sum(each.score.requests for each in results)
    ticks = round(given.days * DAY_S / given.interval) + 1
    mean = hours / (24 * given.days)
    size = f"{given.days:g} days, {given.services} services, {mean:.0f} replicas on average"
    print(f"{size}: {ticks} ticks, {given.interval:g} s apart")
    print(f"{whole_s:.1f} s of CPU time, {1e3 * whole_s / ticks:.2f} ms a tick; {share:.2%} of the requests in SLO")
    print(f"of it the world {world_s:.1f} s ({world_s / whole_s:.0%}), the controller {whole_s - world_s:.1f} s")


if __name__ == "__main__":
    main()
