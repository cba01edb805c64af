"""A forecaster of one base: the quantile of the demand is the base plus the quantile of the base's own past errors."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autoscaler.domain.demand import Forecast
from autoscaler.domain.learned import Learned
from autoscaler.domain.reading import Unknown
from autoscaler.ports import MeasuredRate, Question
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
# 15 minutes: spans overlap, so the first errors repeat one another.
_FIRST_WINDOWS = 60.0


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
                histogram=first_histograms(np.array([FIRST_SIGMA / UNIT]), windows=_FIRST_WINDOWS),
                volatility=first_volatility(1),
                traffic=np.zeros(2),
            )
        )

    def learn_all(self, memories: Sequence[Learned], rates: Sequence[MeasuredRate]) -> list[Learned]:
        """Take in each one's rate; see ``timeline.advance`` for what it refuses."""
        return [self._with_rate(learned, rate) for learned, rate in zip(memories, rates, strict=True)]

    def forecast_all(self, memories: Sequence[Learned], questions: Sequence[Question]) -> list[Forecast | Unknown]:
        """Unknown while the base is, and where nothing was measured for two minutes."""
        return [self._answer(learned, question) for learned, question in zip(memories, questions, strict=True)]

    def _with_rate(self, learned: Learned, rate: MeasuredRate) -> Learned:
        memory, horizon = self._memory(learned), horizon_bins(rate.lead_s)
        for step in advance(memory.timeline, end_s=rate.end_s, span_s=rate.span_s, rate_rps=rate.rate_rps):
            memory = self._after(memory, step, horizon)
        return self._learned(memory)

    def _answer(self, learned: Learned, question: Question) -> Forecast | Unknown:
        memory, horizon = self._memory(learned), horizon_bins(question.lead_s)
        taus = np.array([checked_quantile(tau) for tau in (question.quantile, 0.5, *question.further)])
        silence = memory.timeline.silence(question.now_s)
        if silence is not None:
            return silence
        base = self.log_base(memory.timeline, horizon)
        if math.isnan(base):
            return self.warming_up(memory.timeline)
        answers = base + UNIT * residual_quantiles(memory.histogram[None], taus)[0, 0]
        ceiling = ceiling_log(largest_rps([memory.timeline]), levels_rps([memory.timeline])[:, 0]).item()
        rps, median_rps, *further_rps = (from_log(min(answer, ceiling)) for answer in answers.tolist())
        return Forecast(
            at_s=question.now_s,
            lead_s=question.lead_s,
            quantile=question.quantile,
            rps=rps,
            median_rps=median_rps,
            skill=None,
            by=self.model,
            further_rps=tuple(further_rps),
        )

    def _after(self, memory: _Memory, step: Step, horizon: int) -> _Memory:
        if step.bins == 0:
            return replace(memory, timeline=step.timeline)
        rate_rps = due(memory.pending, step.timeline) if step.bins == 1 else math.nan
        if not math.isnan(rate_rps):
            memory = self._judged(memory, memory.pending[0].astype(np.float64), rate_rps)
        memory = replace(memory, timeline=step.timeline, pending=memory.pending[step.bins :])
        base = self.log_base(step.timeline, horizon)
        if math.isnan(base):
            return memory
        return replace(memory, pending=foresee(memory.pending, np.array([base]), horizon))

    def _judged(self, memory: _Memory, base: Floats, rate_rps: float) -> _Memory:
        traffic, weights = add_traffic(memory.traffic[None], np.array([rate_rps]))
        if weights[0] == 0:
            return memory
        volatility = memory.volatility[None]
        residuals = clipped(to_log(np.array([[rate_rps]])) - base, sigma_of(volatility))
        return replace(
            memory,
            traffic=traffic[0],
            volatility=add_volatility(volatility, residuals)[0],
            histogram=add_residuals(memory.histogram[None], residuals / UNIT, weights)[0],
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
