"""What the level mixture remembers of a service, and what it foresees, as values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autoscaler.domain.learned import Learned
from predictors.conformal import UNIT, checked, sealed
from predictors.levels import LEVEL_WINDOWS_S, PEAK_WINDOWS_S, largest_rps, peaks_rps
from predictors.residuals import FIRST_SIGMA, first_histograms, first_volatility, residual_quantiles
from predictors.seasonal import PERIODS_S
from predictors.timeline import Floats, Floats32, Timeline

MODEL = "level-mixture"

# Ascending. Dense where the price of an error is high; -ln(1 - tau) is the scale in which answers between are linear.
TAUS: Floats = np.array(
    [0.3, 0.5, 0.65, 0.75, 0.82, 0.87, 0.9, 0.92, 0.94, 0.95, 0.96, 0.97, 0.98, 0.985, 0.99, 0.995, 0.998]
)

LEVELS = len(LEVEL_WINDOWS_S)
BASES = LEVELS + len(PEAK_WINDOWS_S) + len(PERIODS_S)
EXPERTS = BASES + LEVELS
SIGMA_UNIT = 0.1  # of the volatility
# The spread that is assumed of an expert counts as an hour of own errors: a calm hour says little of the next.
_FIRST_WINDOWS = 240.0
OUTLOOK_WIDTH = BASES + LEVELS + 2 * len(TAUS) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlooks:
    """What is foreseen of services, each at one moment, in log rates; the first axis is that of the services.

    ``bases`` (services, BASES), NaN where unknown; ``sigmas`` (services, LEVELS) the volatility of the levels;
    ``curves`` (services, 2, len(TAUS)) the mixture and persistence at ``TAUS``, ascending, NaN where unknown;
    ``ceilings`` (services, 1) what no answer exceeds.
    """

    bases: Floats
    sigmas: Floats
    curves: Floats
    ceilings: Floats

    def packed(self) -> Floats:
        """As one row of ``OUTLOOK_WIDTH`` for each service."""
        curves = self.curves.reshape(len(self.curves), -1)
        return np.concatenate((self.bases, self.sigmas, curves, self.ceilings), axis=1)

    @classmethod
    def unpacked(cls, rows: Floats) -> Outlooks:
        """Of what ``packed`` gave."""
        curves = rows[:, BASES + LEVELS : -1].reshape(len(rows), 2, -1)
        return cls(bases=rows[:, :BASES], sigmas=rows[:, BASES : BASES + LEVELS], curves=curves, ceilings=rows[:, -1:])


@dataclass(slots=True, kw_only=True)
class Memory:
    """A working copy of what was learned of a service: its fields are given new arrays, no array is ever changed.

    ``peaks``: see ``past_peaks``. ``pending``: packed outlooks by the bins until they are judged. ``histograms``:
    residuals of each expert, in units. ``quantiles``: of those, at ``TAUS``. ``volatility``: of the bases.
    ``losses``: decayed pinball losses of the experts, the mixture and persistence. ``shifts``: of the recalibration
    of the latter two. ``traffic``: see ``add_traffic``. ``judged``: how many outlooks were.
    """

    timeline: Timeline
    peaks: Floats
    pending: Floats32
    histograms: Floats32
    quantiles: Floats
    volatility: Floats
    losses: Floats
    shifts: Floats
    traffic: Floats
    judged: int

    @classmethod
    def empty(cls) -> Memory:
        """Nothing seen yet."""
        units = np.repeat((FIRST_SIGMA / UNIT, 1.0 / SIGMA_UNIT), (BASES, LEVELS))
        histograms = first_histograms(units, windows=_FIRST_WINDOWS)
        timeline = Timeline.empty()
        return cls(
            timeline=timeline,
            peaks=past_peaks([timeline])[0],
            pending=np.empty((0, OUTLOOK_WIDTH), dtype=np.float32),
            histograms=histograms,
            quantiles=residual_quantiles(histograms[None], TAUS)[0],
            volatility=first_volatility(BASES),
            losses=np.zeros((EXPERTS + 2, len(TAUS))),
            shifts=np.zeros((2, len(TAUS))),
            traffic=np.zeros(2),
            judged=0,
        )

    @classmethod
    def of(cls, learned: Learned) -> Memory:
        """Of what ``sealed`` gave. Raises ValueError for the memory of another forecaster."""
        arrays = checked(learned, MODEL)
        return cls(
            timeline=Timeline.of_arrays(arrays),
            peaks=arrays["peaks"],
            pending=arrays["pending"],
            histograms=arrays["histograms"],
            quantiles=arrays["quantiles"],
            volatility=arrays["volatility"],
            losses=arrays["losses"],
            shifts=arrays["shifts"],
            traffic=arrays["traffic"],
            judged=int(arrays["judged"][0]),
        )

    def sealed(self) -> Learned:
        """As a value."""
        own: dict[str, NDArray[Any]] = {
            "peaks": self.peaks,
            "pending": self.pending,
            "histograms": self.histograms,
            "quantiles": self.quantiles,
            "volatility": self.volatility,
            "losses": self.losses,
            "shifts": self.shifts,
            "traffic": self.traffic,
            "judged": np.array([self.judged]),
        }
        return sealed(MODEL, self.timeline.to_arrays() | own)


def past_peaks(timelines: Sequence[Timeline]) -> Floats:
    """The peaks of past minutes, and the largest rate known; they change once a minute."""
    return np.concatenate((peaks_rps(timelines), largest_rps(timelines)[:, None]), axis=1)
