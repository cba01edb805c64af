"""What is kept of measured windows, in at most 5 KiB: loads with their ITL, rates when saturated, and durations.

Windows of load are spread over the operating range (four to a bucket of batch size, the latest replace the oldest), so
that an hour at one load doesn't push out what was learned at others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autoscaler.domain.capacity import LoadSample, StepTime
from autoscaler.domain.reading import Measured, Unknown
from predictors import batch_memory
from predictors.step_time import Fit, Misfit, fit_step_time

Array = NDArray[np.float64]

_PER_BUCKET = 4
_BUCKETS = 16
_SATURATED = 12
_DURATIONS = 16
_REFIT_AFTER = 8
_HALF_LIFE_S = 21600.0
_DAY_S = 86400.0
_LEAST_RUNNING = 0.05  # a replica that is idle for most of the window says little
_LEAST = 1e-6
_MOST_S = 1e5
_MOST_REQUESTS = 1e6
_MOST_TOKENS = 1e10
_MISFITS = tuple(Misfit)

# Columns of the rows of loads, after the four of (1, B, K, q).
_AT, _ITL, _BUCKET = 4, 5, 6


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadMemory:
    """Rows of measurements and the step time fitted to them; no array is ever changed in place.

    ``loads``: (1, B, K, q, at_s, itl_s, bucket). ``saturated``: (at_s, completed_rps, running, itl_s) of windows with
    a queue all the time, oldest first, 0 where not measured. ``durations``: (at_s, concurrency, e2e_s).
    ``fit``: (pending, c, d, e, a, error, misfit) where ``pending`` counts windows since the last fit and ``misfit``
    is 0 for a fit, else 1 + the place of the reason in ``Misfit``. ``batches``: of batch servers, see ``batch_memory``.
    """

    loads: Array
    saturated: Array
    durations: Array
    fit: Array
    batches: Array

    @classmethod
    def empty(cls) -> LoadMemory:
        """Nothing measured yet."""
        return cls(
            loads=np.zeros((0, 7)),
            saturated=np.zeros((0, 4)),
            durations=np.zeros((0, 3)),
            fit=np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]),
            batches=batch_memory.empty(),
        )

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> LoadMemory:
        """What ``to_arrays`` packed. Raises KeyError where an array is missing."""
        return cls(
            loads=arrays["loads"],
            saturated=arrays["saturated"],
            durations=arrays["durations"],
            fit=arrays["fit"],
            batches=arrays["batches"],
        )

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """As named arrays."""
        return {
            "loads": self.loads,
            "saturated": self.saturated,
            "durations": self.durations,
            "fit": self.fit,
            "batches": self.batches,
        }

    def fitted(self) -> Fit | Misfit:
        """The step time of the last fit, or why there is none."""
        _, c_s, d_s, e_s, a_s, error, misfit = self.fit.tolist()
        if misfit:
            return _MISFITS[int(misfit) - 1]
        return Fit(step=StepTime(c_s=c_s, d_s=d_s, e_s=e_s, a_s=a_s), error=error)

    def largest_batch(self) -> float:
        """Most sequences seen running in any window kept, 0 where none is."""
        return float(self.loads[:, 1].max(initial=0.0))

    def most_running_saturated(self) -> float | None:
        """The plateau of running sequences while others waited, None before two such windows were seen."""
        running = self.saturated[:, 2]
        if np.count_nonzero(running) < 2:
            return None
        return max(float(running.max()), self.largest_batch())

    def with_sample(self, sample: LoadSample) -> LoadMemory:
        """With one more window; what it doesn't say, or says impossibly, is passed over."""
        if not (math.isfinite(sample.at_s) and sample.at_s >= 0):
            return self
        loads, fit, saturated = self.loads, self.fit, self.saturated
        durations, batches = self.durations, self.batches
        itl_s, running = _positive(sample.itl_s, _MOST_S), _positive(sample.running, _MOST_REQUESTS)
        completed_rps = _positive(sample.completed_rps, _MOST_REQUESTS)
        e2e_s = _positive(sample.e2e_s, _MOST_S)
        context, prefill_tps = _not_negative(sample.context_tokens), _not_negative(sample.prefill_tps)
        if itl_s and running >= _LEAST_RUNNING and context is not None and prefill_tps is not None:
            # Tokens are made, and their ITL measured, only while there is a batch of at least one.
            busy = max(1.0, 1.0 / running)
            load = (1.0, running * busy, context * busy, prefill_tps * itl_s * busy)
            loads = _with_load(loads, load, at_s=sample.at_s, itl_s=itl_s)
            fit = _after_load(fit, loads)
        if sample.saturated and (completed_rps or (running and itl_s)):
            row = np.array([[sample.at_s, completed_rps, running, itl_s]])
            saturated = np.concatenate((saturated[1 - _SATURATED :], row))
        waiting = _not_negative(sample.waiting)
        concurrency = running + waiting if running and waiting is not None else completed_rps * e2e_s
        if e2e_s and concurrency:
            durations = _with_duration(durations, (sample.at_s, concurrency, e2e_s))
        if not isinstance(sample.batch, Unknown):
            batches = batch_memory.with_window(batches, sample)
        return LoadMemory(loads=loads, saturated=saturated, durations=durations, fit=fit, batches=batches)


def _with_load(loads: Array, load: tuple[float, float, float, float], *, at_s: float, itl_s: float) -> Array:
    bucket = float(min(int(2.0 * math.log2(1.0 + load[1])), _BUCKETS - 1))
    row = np.array([*load, at_s, itl_s, bucket])
    alike = (loads[:, _BUCKET] == bucket).nonzero()[0]
    if len(alike) < _PER_BUCKET:
        return np.concatenate((loads, row[None, :]))
    told = loads.copy()
    told[alike[loads[alike, _AT].argmin()]] = row
    return told


def _after_load(fit: Array, loads: Array) -> Array:
    """The fit after one more window, or one anew when enough have come."""
    if fit[0] + 1.0 >= min(_REFIT_AFTER, max(1, len(loads) // 3)):
        return _refit(loads)
    told = fit.copy()
    told[0] += 1.0
    return told


def _refit(loads: Array) -> Array:
    newest_s = float(loads[:, _AT].max())
    weights = np.exp2((loads[:, _AT] - newest_s) / _HALF_LIFE_S)
    fit = fit_step_time(loads[:, :4], loads[:, _ITL], weights)
    if isinstance(fit, Misfit):
        return np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0 + _MISFITS.index(fit)])
    step = fit.step
    return np.array([0.0, step.c_s, step.d_s, step.e_s, step.a_s, fit.error, 0.0])


def _with_duration(durations: Array, row: tuple[float, float, float]) -> Array:
    """With one more; of too many, the oldest goes if it is older than a day, else one of middling concurrency."""
    rows = np.concatenate((durations, np.array([row])))
    if len(rows) <= _DURATIONS:
        return rows
    oldest = int(rows[:, 0].argmin())
    if row[0] - rows[oldest, 0] <= _DAY_S:
        oldest = int(np.argsort(rows[:, 1], kind="stable")[_DURATIONS // 2])
    return np.concatenate((rows[:oldest], rows[oldest + 1 :]))


def _positive(value: Measured, most: float) -> float:
    """The value, or 0 where it is unknown or impossible: such a part of a window teaches nothing."""
    return 0.0 if isinstance(value, Unknown) or not _LEAST <= value <= most else value


def _not_negative(value: Measured) -> float | None:
    return None if isinstance(value, Unknown) or not 0.0 <= value <= _MOST_TOKENS else value
