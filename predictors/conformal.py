"""A forecaster of one base: the quantile of the demand is the base plus the quantile of the base's own past errors."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autoscaler.domain.demand import Forecast
from autoscaler.domain.learned import Learned
from autoscaler.domain.reading import Unknown
from predictors.levels import ceiling_log, from_log, largest_rps, levels_rps, to_log
from predictors.residuals import (
    FIRST_SIGMA,
    add_residuals,
    add_traffic,
    add_volatility,
    clipped,
    due,
    first_histograms,
    first_volatility,
    foresee,
    residual_quantiles,
    sigma_of,
)
from predictors.timeline import Floats, Floats32, Step, Timeline, advance, horizon_bins

UNIT = 0.02  # of log rate


def sealed(model: str, arrays: Mapping[str, NDArray[Any]]) -> Learned:
    """A memory whose arrays, some of them shared with the memory before it, refuse to be changed."""
    for array in arrays.values():
        array.setflags(write=False)
    return Learned(model, arrays)


def checked(learned: Learned, model: str) -> Mapping[str, NDArray[Any]]:
    """The arrays of a memory of ``model``. Raises ValueError for that of another."""
    if learned.model != model:
        raise ValueError(f"this is the memory of {learned.model!r}, not of {model!r}")
    return learned.arrays


def checked_quantile(quantile: float) -> float:
    """``quantile``. Raises ValueError unless it lies in (0, 1)."""
    if not 0 < quantile < 1:
        raise ValueError(f"quantile must lie in (0, 1), got {quantile}")
    return quantile


@dataclass(frozen=True, slots=True, kw_only=True)
class _Memory:
    timeline: Timeline
    pending: Floats32
    histogram: Floats32
    volatility: Floats
    traffic: Floats


class ConformalForecaster(ABC):
    """A ``Forecaster`` around ``log_base``. ``model`` names it."""

    model: str

    @abstractmethod
    def log_base(self, timeline: Timeline, horizon: int) -> float:
        """Log rate expected ``horizon`` bins from now; NaN where it isn't known."""

    @abstractmethod
    def warming_up(self, timeline: Timeline) -> Unknown:
        """Why ``log_base`` is NaN."""

    def start(self) -> Learned:
        """The memory of one that has seen nothing."""
        return self._learned(
            _Memory(
                timeline=Timeline.empty(),
                pending=np.empty((0, 1), dtype=np.float32),
                histogram=first_histograms(np.array([FIRST_SIGMA / UNIT])),
                volatility=first_volatility(1),
                traffic=np.zeros(2),
            )
        )

    def learn(self, learned: Learned, *, end_s: float, span_s: float, rate_rps: float, lead_s: float) -> Learned:
        """Take in the mean rate over [end_s - span_s, end_s]; see ``timeline.advance`` for what it refuses."""
        memory, horizon = self._memory(learned), horizon_bins(lead_s)
        for step in advance(memory.timeline, end_s=end_s, span_s=span_s, rate_rps=rate_rps):
            memory = self._after(memory, step, horizon)
        return self._learned(memory)

    def forecast(self, learned: Learned, *, now_s: float, lead_s: float, quantile: float) -> Forecast | Unknown:
        """Demand at ``now_s + lead_s``; Unknown while the base is, and where nothing was measured for two minutes."""
        memory = self._memory(learned)
        taus = np.array([checked_quantile(quantile), 0.5])
        horizon = horizon_bins(lead_s)
        silence = memory.timeline.silence(now_s)
        if silence is not None:
            return silence
        base = self.log_base(memory.timeline, horizon)
        if math.isnan(base):
            return self.warming_up(memory.timeline)
        answers = base + UNIT * residual_quantiles(memory.histogram, taus)[0]
        ceiling = ceiling_log(largest_rps(memory.timeline), float(levels_rps(memory.timeline)[0]))
        rps, median_rps = (from_log(min(answer, ceiling)) for answer in answers.tolist())
        return Forecast(
            at_s=now_s,
            lead_s=lead_s,
            quantile=quantile,
            rps=rps,
            median_rps=median_rps,
            skill=None,
            by=self.model,
        )

    def _after(self, memory: _Memory, step: Step, horizon: int) -> _Memory:
        if step.bins == 0:
            return replace(memory, timeline=step.timeline)
        judged = due(memory.pending, step.timeline) if step.bins == 1 else None
        memory = replace(memory, timeline=step.timeline, pending=memory.pending[step.bins :])
        if judged is not None:
            memory = self._judged(memory, *judged)
        base = self.log_base(step.timeline, horizon)
        if math.isnan(base):
            return memory
        return replace(memory, pending=foresee(memory.pending, np.array([base]), horizon))

    def _judged(self, memory: _Memory, base: Floats, rate_rps: float) -> _Memory:
        traffic, weight = add_traffic(memory.traffic, rate_rps)
        if weight == 0:
            return memory
        residual = clipped(to_log(np.array([rate_rps])) - base, sigma_of(memory.volatility))
        return replace(
            memory,
            traffic=traffic,
            volatility=add_volatility(memory.volatility, residual),
            histogram=add_residuals(memory.histogram, residual / UNIT, weight),
        )

    def _memory(self, learned: Learned) -> _Memory:
        arrays = checked(learned, self.model)
        return _Memory(
            timeline=Timeline.of_arrays(arrays),
            pending=arrays["pending"],
            histogram=arrays["histogram"],
            volatility=arrays["volatility"],
            traffic=arrays["traffic"],
        )

    def _learned(self, memory: _Memory) -> Learned:
        own: dict[str, NDArray[Any]] = {
            "pending": memory.pending,
            "histogram": memory.histogram,
            "volatility": memory.volatility,
            "traffic": memory.traffic,
        }
        return sealed(self.model, memory.timeline.to_arrays() | own)
