"""The fluid model of a fleet: requests are a liquid in one queue, and open replicas drain it at a fixed rate.

Fast enough for sweeps over weeks (a week of seconds takes milliseconds) and true to the engine model within about a
percent of the cost; it knows nothing of tokens, batches and caches. Steps are of one second. A request is in SLO if it
is served by the end of the step that lies its allowed time to first token after its own.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adapters.simulation.array_fleet import TTFT_BOUNDS_S
from adapters.simulation.fluid_outcomes import outcomes_of
from adapters.simulation.fluid_steps import (
    EXPIRED,
    REFUSED,
    SERVED_LATE,
    TOTALS,
    WAITED_S,
    Curves,
    Limits,
    serve,
)
from adapters.simulation.serving import BucketCounts, GatewayPage, Outcomes, ReplicaPage

_TICK_S = 1e-6  # clocks that show seconds since the epoch can't tell less apart
_PART = 1e-6  # of a request; sums of parts are no more exact


@dataclass(frozen=True, slots=True, kw_only=True)
class FluidModel:
    """What a replica does.

    ``capacity_rps``: requests it serves a second. ``ttft_slo_s``: whole seconds, at least 1. ``service_s``: from the
    first token of a request to its last; a closed replica stays for as long. ``prompt_tokens``, ``output_tokens``:
    means. ``held_limit``, ``held_s``: requests held while no replica is open, and how long.
    """

    capacity_rps: float
    ttft_slo_s: float = 2.0
    service_s: float = 0.0
    prompt_tokens: float = 1024.0
    output_tokens: float = 256.0
    held_limit: int = 1000
    held_s: float = 900.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.capacity_rps) and self.capacity_rps > 0):
            raise ValueError(f"capacity_rps must be positive and finite, got {self.capacity_rps}")
        if self.ttft_slo_s < 1 or self.ttft_slo_s != int(self.ttft_slo_s):
            raise ValueError(f"ttft_slo_s must be whole seconds, at least 1, got {self.ttft_slo_s}")
        if not (math.isfinite(self.service_s) and self.service_s >= 0):
            raise ValueError(f"service_s must be finite and at least 0, got {self.service_s}")
        if self.held_limit < 0 or self.held_s <= self.ttft_slo_s:
            raise ValueError(f"need held_limit >= 0 and held_s > ttft_slo_s, got {self.held_limit}, {self.held_s}")


@dataclass(slots=True, kw_only=True)
class _Fluid:
    """One replica. ``weight``: its capacity in parts of the model's.

    ``origin``: the fleet's figures per weight when it opened, ``own``: its own counters, once it is closed.
    """

    weight: float
    opened: bool = False
    closed_s: float | None = None
    gone: bool = False
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0)
    own: tuple[float, float, float] = (0.0, 0.0, 0.0)
    running_at_close: float = 0.0
    completed: float = 0.0


class FluidFleet:
    """A ServingFleet that works from arrivals per second."""

    def __init__(self, arrivals: NDArray[np.int64], model: FluidModel) -> None:
        """``arrivals``: whole requests in each second of the run. Raises ValueError."""
        if arrivals.ndim != 1 or not len(arrivals) or arrivals.min() < 0:
            raise ValueError(f"arrivals must be counts of one or more seconds, got shape {arrivals.shape}")
        self._model = model
        self._arrivals = arrivals.astype(np.float64)
        steps = len(arrivals)
        self._accepted = np.zeros(steps + 1)
        self._served = np.zeros(steps + 1)
        self._missed = np.zeros(steps)
        self._totals = np.zeros(TOTALS)
        self._patience = int(model.ttft_slo_s)
        self._curves = Curves(self._arrivals, self._accepted, self._served, self._missed, self._totals)
        self._limits = Limits(self._patience, float(model.held_limit), math.ceil(model.held_s))
        self._lag = round(model.service_s)
        self._step = 0
        self._now_s = 0.0
        self._stored = 0.0  # capacity that the present step has had so far
        self._replicas: list[_Fluid] = []
        self._serving: dict[int, _Fluid] = {}
        self._weight = 0.0
        self._lost = 0.0
        # First tokens, late ones, and seconds waited, for each unit of weight.
        self._each = (0.0, 0.0, 0.0)
        # Waiting and running requests for each unit of weight.
        self._present = (0.0, 0.0)
        after = bisect_left(TTFT_BOUNDS_S, model.ttft_slo_s)
        exact = after < len(TTFT_BOUNDS_S) and TTFT_BOUNDS_S[after] == model.ttft_slo_s
        # A step says no more of a time to first token than whether it was in time: two buckets around the threshold.
        self._in_time_from = after if exact else after - 1
        self._late_from = after + 1

    def add(self, *, weight: float = 1.0) -> int:
        """A new replica, not routed to yet. ``weight``: its capacity in parts of the model's."""
        self._replicas.append(_Fluid(weight=weight))
        return len(self._replicas) - 1

    def open(self, replica: int) -> None:
        """It serves from now on."""
        each = self._replicas[replica]
        each.opened, each.origin = True, self._each
        self._serving[replica] = each
        self._weight += each.weight
        self._share_out()

    def close(self, replica: int) -> None:
        """It takes nothing new."""
        each = self._replicas[replica]
        if not _serves(each):
            return
        each.own = self._counted(each)
        each.completed, each.running_at_close = self._split(each, each.own[0])
        each.closed_s = self._now_s
        del self._serving[replica]
        self._weight = sum(other.weight for other in self._serving.values())
        self._share_out()

    def remove(self, replica: int) -> None:
        """Gone; what runs on it is lost."""
        each = self._replicas[replica]
        running = self._split(each, self._counted(each)[0] if _serves(each) else each.own[0])[1]
        self.close(replica)
        each.gone = True
        if running > 0:
            self._lost += running
            self._missed[min(self._step, len(self._missed) - 1)] += running

    def advance(self, until_s: float) -> None:
        """Serve all whole seconds up to ``until_s``."""
        until_s = max(self._now_s, until_s)
        begin, end = self._step, min(len(self._arrivals), math.floor(until_s + _TICK_S))
        rate = self._weight * self._model.capacity_rps
        if end <= begin:
            self._stored += (until_s - self._now_s) * rate
            self._now_s = until_s
            return
        before = self._totals.copy()
        serve(self._curves, self._limits, begin, end, (self._stored + (begin + 1 - self._now_s) * rate, rate))
        if self._weight > 0:
            gained = self._totals - before
            first = float(self._served[end] - self._served[begin] - gained[EXPIRED])
            each = self._each
            self._each = (
                each[0] + first / self._weight,
                each[1] + float(gained[SERVED_LATE]) / self._weight,
                each[2] + float(gained[WAITED_S]) / self._weight,
            )
        self._step = end
        self._stored = max(0.0, until_s - end) * rate
        self._now_s = until_s
        self._share_out()

    def in_flight(self, replica: int) -> int:
        """Requests that it serves or that wait for it, rounded up."""
        each = self._replicas[replica]
        if not _serves(each):
            return math.ceil(self._split(each, each.own[0])[1] - 1e-9)
        running = self._split(each, self._counted(each)[0])[1]
        return math.ceil(running + self._present[0] * each.weight - 1e-9)

    def empty_since_s(self, replica: int) -> float | None:
        """One service time after it was closed."""
        closed_s = self._replicas[replica].closed_s
        if closed_s is None:
            return None
        empty_s = closed_s + self._model.service_s
        return empty_s if self._now_s >= empty_s - _TICK_S else None

    def page(self, replica: int) -> ReplicaPage:
        """Its even part of what the fleet did while it was open; parts of requests are counted as such."""
        each = self._replicas[replica]
        serves = _serves(each)
        first, late, waited_s = self._counted(each) if serves else each.own
        waiting = self._present[0] * each.weight if serves else 0.0
        completed, running = self._split(each, first)
        each.completed = completed
        return ReplicaPage(
            waiting=waiting,
            running=running,
            arrived=first + waiting,
            completed=completed,
            first_tokens=first,
            prompt_tokens=first * self._model.prompt_tokens,
            generation_tokens=(first + completed) / 2 * self._model.output_tokens,
            ttft=BucketCounts(TTFT_BOUNDS_S, self._ttft_counts(first, late), count=first, total=waited_s),
        )

    def gateway(self) -> GatewayPage:
        """Requests judged when they are served, or turned away."""
        step, queue = self._step, self._queue()
        turned_away = float(self._totals[REFUSED] + self._totals[EXPIRED])
        first = float(self._served[step] - self._totals[EXPIRED])
        late = float(self._totals[SERVED_LATE])
        running = float(self._served[step] - self._served[max(0, step - self._lag)])
        running = min(running, first)
        return GatewayPage(
            arrivals=float(self._accepted[step] + self._totals[REFUSED]),
            finished=max(0.0, first - running - self._lost),
            failed=self._lost,
            refused=turned_away,
            waiting=queue if self._weight <= 0 else 0.0,
            in_flight=queue + running,
            judged=first + turned_away,
            within_slo=max(0.0, first - late - self._lost),
            ttft=BucketCounts(
                TTFT_BOUNDS_S, self._ttft_counts(first, late), count=first, total=float(self._totals[WAITED_S])
            ),
            itl=None,
            e2e=BucketCounts((), (), count=0, total=0.0),
        )

    def outcomes(self) -> Outcomes:
        """Of every single request: an array element each, so for short runs only. Lost ones count as finished."""
        return outcomes_of(self._arrivals, self._accepted, self._served, self._step)

    @property
    def arrivals(self) -> NDArray[np.float64]:
        """Requests of each second of the run."""
        return self._arrivals

    def missed(self) -> NDArray[np.float64]:
        """Of the requests of each second so far those not in SLO, the unfinished among them; of the rest all."""
        missed, step = self._missed.copy(), self._step
        for came in range(max(0, step - self._patience), step):
            missed[came] += max(0.0, self._accepted[came + 1] - max(self._served[step], self._accepted[came]))
        missed[step:] += self._arrivals[step:]
        return missed

    def waits_s(self) -> NDArray[np.float64]:
        """How many seconds the last request of each second waited; NaN where that is not over, or there was none."""
        step = self._step
        served_in = np.searchsorted(self._served[: step + 1], self._accepted[1:] - _PART) - 1
        waits = served_in - np.arange(len(self._arrivals), dtype=np.float64)
        waits[(served_in >= step) | (np.diff(self._accepted) <= 0)] = np.nan
        return np.maximum(waits, 0.0)

    def _ttft_counts(self, first: float, late: float) -> tuple[float, ...]:
        begin, end = max(0, self._in_time_from), min(self._late_from, len(TTFT_BOUNDS_S))
        return (0.0,) * begin + (first - late,) * (end - begin) + (first,) * (len(TTFT_BOUNDS_S) - end)

    def _share_out(self) -> None:
        if self._weight > 0:
            running = float(self._served[self._step] - self._served[max(0, self._step - self._lag)])
            self._present = (self._queue() / self._weight, running / self._weight)

    def _queue(self) -> float:
        return float(self._accepted[self._step] - self._served[self._step])

    def _counted(self, each: _Fluid) -> tuple[float, float, float]:
        """First tokens, late ones and seconds waited, of one that serves."""
        weight, origin, now = each.weight, each.origin, self._each
        return weight * (now[0] - origin[0]), weight * (now[1] - origin[1]), weight * (now[2] - origin[2])

    def _split(self, each: _Fluid, first: float) -> tuple[float, float]:
        """Its ``first`` tokens, as completed and running requests. The former never shrink."""
        if each.gone or not each.opened:
            return each.completed, 0.0
        if each.closed_s is not None:
            spent = (self._now_s - each.closed_s) / self._model.service_s if self._model.service_s > 0 else 1.0
            running = each.running_at_close * max(0.0, 1.0 - spent)
            return max(each.completed, first - running), running
        completed = min(first, max(each.completed, first - self._present[1] * each.weight))
        return completed, first - completed


def _serves(each: _Fluid) -> bool:
    return each.opened and each.closed_s is None and not each.gone
