"""The same requests through the simulated engine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adapters.simulation.engine_fleet import EngineFleet
from adapters.simulation.readings import token_reading
from adapters.simulation.requests import Requests
from adapters.simulation.serving import Outcome
from adapters.simulation.step_times import EngineShape, StepTimes
from autoscaler.domain.reading import EngineReading
from autoscaler.domain.service import Slo
from loadtests.arrivals import Arrivals
from loadtests.calibration.coefficients import Coefficients
from loadtests.calibration.driving import Driven
from loadtests.calibration.figures import Figures

# Every request is followed to its end; the fleet asks for an objective, which nothing here looks at.
_TO_THE_END_S = 86400.0
_SLO = Slo(e2e_s=_TO_THE_END_S)

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """By request of the plan: times as the engine alone makes them, without any overhead.

    ``running``: sequences that ran when it came, the queue not counted. ``finished``: False for those it refuses.
    """

    ttft_s: Floats
    itl_s: Floats
    finish_s: Floats
    running: Floats
    finished: NDArray[np.bool_]


def requests_of(arrivals: Arrivals) -> Requests:
    """The plan as a simulated engine takes it; every prompt is its own, so that none is in the prefix cache."""
    return Requests(
        at_s=arrivals.at_s,
        prompt_tokens=arrivals.prompt_tokens,
        output_tokens=arrivals.output_tokens,
        cached_tokens=np.zeros(len(arrivals), dtype=np.int64),
        duration_s=arrivals.duration_s,
    )


def replay(arrivals: Arrivals, *, times: StepTimes, shape: EngineShape) -> Replayed:
    """The plan on one simulated engine, to the last request's end."""
    fleet = EngineFleet(requests_of(arrivals), times=times, shape=shape, slo=_SLO)
    fleet.open(fleet.add())
    fleet.advance(arrivals.duration_s + _TO_THE_END_S)
    outcomes = fleet.outcomes()
    finished = outcomes.code == Outcome.FINISHED
    ends_s = np.sort(outcomes.finish_s[finished])
    in_flight = np.arange(len(arrivals)) - np.searchsorted(ends_s, arrivals.at_s, side="right")
    return Replayed(
        ttft_s=outcomes.ttft_s,
        itl_s=outcomes.itl_s,
        finish_s=outcomes.finish_s,
        running=np.clip(in_flight, 0, shape.max_num_seqs).astype(np.float64),
        finished=finished,
    )


def simulated_pages(turn: Driven, *, times: StepTimes, shape: EngineShape) -> tuple[EngineReading, ...]:
    """What the pages of a simulated engine say under that turn, read when the real one's were."""
    fleet = EngineFleet(requests_of(turn.arrivals), times=times, shape=shape, slo=_SLO)
    replica = fleet.add()
    fleet.open(replica)
    pages, begin_s = [], turn.readings[0].at_s
    for reading in turn.readings:
        fleet.advance(reading.at_s - begin_s)
        page = fleet.page(replica)
        pages.append(
            token_reading(page, replica=reading.replica, at_s=reading.at_s, started_s=begin_s, alive_s=reading.at_s)
        )
    return tuple(pages)


def predicted(arrivals: Arrivals, coefficients: Coefficients) -> Figures:
    """What a client of that engine would see in a turn. Raises ValueError where too little would finish."""
    replayed = replay(arrivals, times=coefficients.times, shape=coefficients.shape)
    overhead = coefficients.overhead
    beside_s = overhead.fixed_s + overhead.per_running_s * replayed.running
    kept = replayed.finished
    return Figures.of(
        ttft_s=(replayed.ttft_s + beside_s)[kept],
        itl_s=replayed.itl_s[kept],
        end_s=(replayed.finish_s + beside_s)[kept],
        output_tokens=arrivals.output_tokens[kept],
    )
