"""An engine that the simulator itself plays, driven as a real one would be: its truth is known."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from adapters.simulation.engine_fleet import EngineFleet
from adapters.simulation.readings import token_reading
from adapters.simulation.step_times import EngineShape
from autoscaler.domain.capacity import StepTime
from autoscaler.domain.reading import EngineReading
from autoscaler.domain.service import Slo
from loadtests.arrivals import Arrivals
from loadtests.calibration.coefficients import NO_OVERHEAD, Coefficients, Overhead
from loadtests.calibration.driving import READ_EVERY_S, Driven
from loadtests.calibration.replaying import replay, requests_of
from loadtests.calibration.steady import SteadyLoad
from loadtests.records import Outcome, RequestRecord

SHAPE = EngineShape(kv_tokens=200_000, chunk_tokens=2048, max_num_seqs=16)
_BETWEEN_S = 20.0


def an_engine(step: StepTime, overhead: Overhead = NO_OVERHEAD, shape: EngineShape = SHAPE) -> Coefficients:
    """The truth to be recovered."""
    return Coefficients(step=step, windows=0, error=0.0, shape=shape, overhead=overhead)


def driven(load: SteadyLoad, truth: Coefficients, *, turns: int, at_s: float) -> list[Driven]:
    """Its turns on that engine, the first of them at ``at_s``."""
    made = []
    for number in range(turns):
        arrivals = load.turn(number)
        readings = tuple(_pages(arrivals, truth, at_s=at_s))
        made.append(Driven(arrivals=arrivals, records=_records(arrivals, truth), readings=readings))
        at_s = readings[-1].at_s + _BETWEEN_S
    return made


def _pages(arrivals: Arrivals, truth: Coefficients, *, at_s: float) -> Iterator[EngineReading]:
    fleet = EngineFleet(requests_of(arrivals), times=truth.times, shape=truth.shape, slo=Slo(itl_s=1.0))
    replica = fleet.add()
    fleet.open(replica)
    since_s = 0.0
    while since_s <= arrivals.duration_s or fleet.in_flight(replica):
        fleet.advance(since_s)
        now_s = at_s + since_s
        yield token_reading(fleet.page(replica), replica="engine", at_s=now_s, started_s=at_s, alive_s=now_s)
        since_s += READ_EVERY_S


def _records(arrivals: Arrivals, truth: Coefficients) -> tuple[RequestRecord, ...]:
    replayed = replay(arrivals, times=truth.times, shape=truth.shape)
    beside_s = truth.overhead.fixed_s + truth.overhead.per_running_s * replayed.running
    made = [
        RequestRecord(
            number=number,
            due_s=float(arrivals.at_s[number]),
            late_s=0.0,
            prompt_tokens=int(arrivals.prompt_tokens[number]),
            asked_tokens=int(arrivals.output_tokens[number]),
            output_tokens=int(arrivals.output_tokens[number]),
            outcome=Outcome.FINISHED,
            status=200,
            ttft_s=float(replayed.ttft_s[number] + beside_s[number]),
            itl_s=float(replayed.itl_s[number]) if arrivals.output_tokens[number] > 1 else None,
            e2e_s=float(replayed.finish_s[number] + beside_s[number] - arrivals.at_s[number]),
        )
        for number in np.flatnonzero(replayed.finished).tolist()
    ]
    return tuple(sorted(made, key=lambda each: each.due_s + each.e2e_s))
