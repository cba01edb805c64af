"""An engine under loads, as its client and its page saw it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from autoscaler.domain.reading import EngineReading
from loadtests.arrivals import Arrivals
from loadtests.calibration.steady import SteadyLoad
from loadtests.calibration.watching import PageWatch
from loadtests.client import Target
from loadtests.openloop import offer
from loadtests.records import RequestRecord

# Between two looks at the page: several within each window, and no work that the engine would feel.
READ_EVERY_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Driven:
    """One turn of one load. ``records`` in the order in which requests ended, ``readings`` oldest first."""

    arrivals: Arrivals
    records: tuple[RequestRecord, ...]
    readings: tuple[EngineReading, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """Where an engine is asked, where its page is, and how long its last answers of a turn are waited for."""

    target: Target
    metrics_url: str
    drain_s: float


def drive(
    loads: Sequence[SteadyLoad], *, turns: int, engine: Engine, tell: Callable[[str], None]
) -> Mapping[SteadyLoad, Sequence[Driven]]:
    """Each load's turns.

    The loads take turns: what changes about the machine meanwhile (its clock, its neighbours) then bears on all alike.
    A turn begins when the last request of the one before has ended. ``tell`` hears what is done next.
    """
    driven: dict[SteadyLoad, list[Driven]] = {load: [] for load in loads}
    for turn in range(turns):
        for load in loads:
            tell(f"{load.label}, turn {turn + 1} of {turns}")
            driven[load].append(drive_once(load.turn(turn), engine))
    return driven


def drive_once(arrivals: Arrivals, engine: Engine) -> Driven:
    """Send the plan and read the page meanwhile, until all requests have ended or the drain is over."""
    # Prompts that no earlier turn has sent: none is in the prefix cache.
    target = replace(engine.target, salt=time.time_ns())
    records: list[RequestRecord] = []
    with PageWatch(engine.metrics_url, interval_s=READ_EVERY_S) as watch:
        offer(arrivals, target=target, drain_s=engine.drain_s, on_record=records.append)
    return Driven(arrivals=arrivals, records=tuple(records), readings=tuple(watch.readings))
