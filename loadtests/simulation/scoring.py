"""Which requests were in SLO, and how long they took, whatever model of a fleet served them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from adapters.simulation.fluid_fleet import FluidFleet
from adapters.simulation.requests import Requests
from adapters.simulation.serving import ServingFleet
from autoscaler.domain.service import Slo

Floats = NDArray[np.float64]
PERCENTILES = (50.0, 90.0, 99.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Of the requests that arrived within a time. All that did not finish in time are missed: the late, the refused,
    the lost and the unfinished.

    ``ttft_s``, ``itl_s``: at ``PERCENTILES``, of those that got so far; NaN where the model doesn't know.
    """

    requests: float
    missed: float
    ttft_s: tuple[float, ...]
    itl_s: tuple[float, ...]

    @property
    def share_in_slo(self) -> float:
        """1 where there was no request."""
        return 1.0 - self.missed / self.requests if self.requests > 0 else 1.0


class Judge(Protocol):
    """Knows what became of the requests."""

    @property
    def fleet(self) -> ServingFleet: ...
    def score(self, since_s: float, until_s: float) -> Score:
        """Of the requests that arrived in [since_s, until_s)."""
        ...

    def cumulated(self, edges_s: Floats) -> tuple[Floats, Floats]:
        """Requests, and missed ones, that had arrived before each of these times."""
        ...


class FluidJudge:
    """Of a fluid fleet: whole seconds."""

    def __init__(self, fleet: FluidFleet) -> None:
        self.fleet = fleet

    def score(self, since_s: float, until_s: float) -> Score:
        """See ``Judge``."""
        window = slice(round(since_s), round(until_s))
        arrivals, missed = self.fleet.arrivals[window], self.fleet.missed()[window]
        waits = self.fleet.waits_s()[window]
        return Score(
            requests=float(arrivals.sum()),
            missed=float(missed.sum()),
            ttft_s=_weighted(waits, arrivals),
            itl_s=(np.nan,) * len(PERCENTILES),
        )

    def cumulated(self, edges_s: Floats) -> tuple[Floats, Floats]:
        """See ``Judge``."""
        places = np.clip(np.round(edges_s).astype(np.int64), 0, len(self.fleet.arrivals))
        return _reached(self.fleet.arrivals)[places], _reached(self.fleet.missed())[places]


class RequestJudge:
    """Of a fleet that serves single requests."""

    def __init__(self, fleet: ServingFleet, requests: Requests, slo: Slo) -> None:
        self.fleet = fleet
        self._requests = requests
        self._slo = slo

    def score(self, since_s: float, until_s: float) -> Score:
        """See ``Judge``."""
        outcomes = self.fleet.outcomes()
        at_s = self._requests.at_s
        chosen = (at_s >= since_s) & (at_s < until_s)
        met = outcomes.in_slo(self._slo)[chosen]
        return Score(
            requests=float(len(met)),
            missed=float(len(met) - np.count_nonzero(met)),
            ttft_s=_percentiles(outcomes.ttft_s[chosen]),
            itl_s=_percentiles(outcomes.itl_s[chosen]),
        )

    def cumulated(self, edges_s: Floats) -> tuple[Floats, Floats]:
        """See ``Judge``."""
        missed = ~self.fleet.outcomes().in_slo(self._slo)
        places = np.searchsorted(self._requests.at_s, edges_s)
        return places.astype(np.float64), _reached(missed.astype(np.float64))[places]


def _reached(values: Floats) -> Floats:
    return np.concatenate([[0.0], np.cumsum(values)])


def _percentiles(values: Floats) -> tuple[float, ...]:
    known = values[~np.isnan(values)]
    if not len(known):
        return (np.nan,) * len(PERCENTILES)
    return tuple(float(each) for each in np.percentile(known, PERCENTILES))


def _weighted(values: Floats, weights: Floats) -> tuple[float, ...]:
    known = ~np.isnan(values) & (weights > 0)
    values, weights = values[known], weights[known]
    if not len(values):
        return (np.nan,) * len(PERCENTILES)
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    places = np.searchsorted(reached, np.asarray(PERCENTILES) / 100 * reached[-1])
    return tuple(float(each) for each in values[order][np.minimum(places, len(values) - 1)])
