"""Levels, peaks and seasons mixed by how well each has foreseen lately: the forecaster that sizes the fleet.

Every 15-second bin, for the span of 30 s that begins one lead time from now:

1. *Bases* (logs of rates): mean rates over windows of 15 s to 30 min; the largest one-minute rate of the last 10 min
   to 24 h; the present level moved as it moved a day, and a week, ago.
2. *Experts*: each base with the quantiles of its own past residuals; the levels once more with residuals divided by
   the volatility of the last half hour, so that their spread widens and narrows with the traffic.
3. *Mixture*, for each quantile of a fixed grid: the experts' answers averaged by weights
   exp(-8 (loss - best) / best) of their recent pinball losses, in requests (exponential weights: Vovk, Aggregating
   strategies, 1990; Cesa-Bianchi & Lugosi, Prediction, Learning, and Games, 2006). An expert that can't answer is
   charged the mixture's loss meanwhile (Freund et al., Using and combining predictors that specialize, 1997).
4. *Recalibration*: each quantile is shifted a little up when the demand was above it and a little down when not, so
   that in the long run it covers its stated share of requests (Gibbs & Candes, Adaptive conformal inference under
   distribution shift, 2021).
5. *Skill*: where the mixture has lately lost to persistence, which is recalibrated likewise, persistence answers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from operator import truediv

import numpy as np

from autoscaler.domain.demand import Forecast
from autoscaler.domain.learned import Learned
from autoscaler.domain.reading import Unknown
from autoscaler.ports import MeasuredRate, Question
from predictors.conformal import UNIT, checked_quantile
from predictors.levels import FLOOR_RPS, LEVEL_WINDOWS_S, ceiling_log, from_log, levels_rps, to_log, too_short
from predictors.mixture_memory import (
    BASES,
    EXPERTS,
    LEVELS,
    MODEL,
    SIGMA_UNIT,
    TAUS,
    Memory,
    Outlooks,
    past_peaks,
)
from predictors.naive import LAST_VALUE_S
from predictors.residuals import (
    add_residuals,
    add_traffic,
    add_volatility,
    clipped,
    due,
    foresee,
    remaining,
    residual_quantiles,
    sigma_of,
)
from predictors.seasonal import FIVE_S, seasonal_logs
from predictors.stacking import stacked, unstacked
from predictors.timeline import Floats, Step, advance, horizon_bins

_MISSES: Floats = 1.0 - TAUS
_HEADROOMS: Floats = -np.log1p(-TAUS)
_MEDIAN = 1

_PERSISTENCE = LEVEL_WINDOWS_S.index(LAST_VALUE_S)
_FIVE_MINUTES = LEVEL_WINDOWS_S.index(FIVE_S)
_MIXTURE = EXPERTS  # rows of losses after those of the experts
_RECALIBRATED_PERSISTENCE = EXPERTS + 1
_AT_ONCE = 64  # services
_BEYOND_ALL = 1e200  # a loss


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelMixture:
    """The mixture as a ``Forecaster``. Its skill is averaged over the grid of quantiles, upper ones being the most.

    ``sharpness``: of the weights. ``loss_half_life_s``: of losses and skill. ``recalibration``: how far one miss moves
    a quantile, in parts of the volatility. ``least_judged``: outlooks judged before persistence may take over.
    """

    sharpness: float = 8.0
    loss_half_life_s: float = 21600.0
    recalibration: float = 0.002
    least_judged: int = 40

    model = MODEL

    def start(self) -> Learned:
        """The memory of one that has seen nothing."""
        return Memory.empty().sealed()

    def learn_all(self, memories: Sequence[Learned], rates: Sequence[MeasuredRate]) -> list[Learned]:
        """Take in each service's rate; see ``timeline.advance`` for what it refuses.

        An outlook is judged under the lead time that was in force when it was made.
        """
        learned: list[Learned] = []
        for few in _few_at_once(len(memories)):
            learned.extend(self._with_rates(memories[few], rates[few]))
        return learned

    def forecast_all(self, memories: Sequence[Learned], questions: Sequence[Question]) -> list[Forecast | Unknown]:
        """From the first full 15 s on, with an assumed spread until there are residuals.

        A quantile counts as at least 0.3 and at most 0.998. Unknown where no window is full, and where nothing was
        measured for two minutes.
        """
        answers: list[Forecast | Unknown] = []
        for few in _few_at_once(len(memories)):
            known = [Memory.of(learned) for learned in memories[few]]
            silences = [each.timeline.silence(asked.now_s) for each, asked in zip(known, questions[few], strict=True)]
            heard = [place for place, silence in enumerate(silences) if silence is None]
            told = iter(self._answered([known[place] for place in heard], [questions[few][place] for place in heard]))
            answers.extend([next(told) if silence is None else silence for silence in silences])
        return answers

    def _with_rates(self, memories: Sequence[Learned], rates: Sequence[MeasuredRate]) -> list[Learned]:
        known = [Memory.of(learned) for learned in memories]
        horizons = [horizon_bins(rate.lead_s) for rate in rates]
        steps = [
            advance(memory.timeline, end_s=rate.end_s, span_s=rate.span_s, rate_rps=rate.rate_rps)
            for memory, rate in zip(known, rates, strict=True)
        ]
        for abreast in zip_longest(*steps):
            self._pass([each for each in zip(known, abreast, horizons, strict=True) if each[1] is not None])
        return [memory.sealed() for memory in known]

    def _answered(self, memories: Sequence[Memory], questions: Sequence[Question]) -> list[Forecast | Unknown]:
        headrooms = [
            [-math.log1p(-checked_quantile(tau)) for tau in (asked.quantile, *asked.further)] for asked in questions
        ]
        if not memories:
            return []
        outlooks = self._outlooks(memories, [horizon_bins(asked.lead_s) for asked in questions])
        return [
            self._answer(memory, curves, ceiling_log, asked, headrooms=asked_headrooms)
            for memory, curves, ceiling_log, asked, asked_headrooms in zip(
                memories, outlooks.curves, outlooks.ceilings.ravel().tolist(), questions, headrooms, strict=True
            )
        ]

    def _answer(
        self, memory: Memory, curves: Floats, ceiling_log: float, asked: Question, *, headrooms: Sequence[float]
    ) -> Forecast | Unknown:
        curve, by = curves[0], "mixture"
        if math.isnan(curve[0]):
            return too_short(memory.timeline, LEVEL_WINDOWS_S[0])
        skill = _skill(memory.losses) if memory.judged else None
        if skill is not None and skill <= 0 and memory.judged >= self.least_judged and not math.isnan(curves[1, 0]):
            curve, by = curves[1], "persistence"
        logs = np.interp(headrooms, _HEADROOMS, curve).tolist()
        rps, *further_rps = (from_log(min(each, ceiling_log)) for each in logs)
        return Forecast(
            at_s=asked.now_s,
            lead_s=asked.lead_s,
            quantile=asked.quantile,
            rps=rps,
            median_rps=from_log(min(float(curve[_MEDIAN]), ceiling_log)),
            skill=skill,
            by=by,
            further_rps=tuple(further_rps),
        )

    def _pass(self, passing: Sequence[tuple[Memory, Step, int]]) -> None:
        """Let memories go one step in time: judge the outlooks that are due, and make the next, ``int`` bins ahead."""
        anew, ended, horizons, judged, outlooks, rates_rps = [], [], [], [], [], []
        for memory, step, horizon in passing:
            if step.timeline.minutes is not memory.timeline.minutes:
                anew.append(memory)
            memory.timeline = step.timeline
            if step.bins == 0:
                continue
            ended.append(memory)
            horizons.append(horizon)
            rate_rps = due(memory.pending, step.timeline) if step.bins == 1 else math.nan
            if rate_rps > 0 or (rate_rps == 0 and memory.traffic[1] > 0):  # never busy: no scale to judge on
                judged.append(memory)
                outlooks.append(memory.pending[0])
                rates_rps.append(rate_rps)
            memory.pending = memory.pending[step.bins :]
        if anew:
            for memory, peaks in zip(anew, unstacked(past_peaks([each.timeline for each in anew])), strict=True):
                memory.peaks = peaks
        if judged:
            self._judge(judged, stacked(outlooks).astype(np.float64), np.array(rates_rps))
        if ended:
            rows = self._outlooks(ended, horizons).packed()
            for memory, row, horizon in zip(ended, rows, horizons, strict=True):
                if not math.isnan(row[BASES + LEVELS]):  # the mixture
                    memory.pending = foresee(memory.pending, row, horizon)

    def _outlooks(self, memories: Sequence[Memory], horizons: Sequence[int]) -> Outlooks:
        timelines = [memory.timeline for memory in memories]
        levels, past = levels_rps(timelines), stacked([memory.peaks for memory in memories])
        present = levels[:, _PERSISTENCE, None]
        logs = to_log(np.concatenate((levels, np.maximum(past[:, :-1], np.fmax(present, 0.0))), axis=1))
        seasons = [
            seasonal_logs(timeline, level_log, horizon)
            for timeline, level_log, horizon in zip(timelines, logs[:, _FIVE_MINUTES].tolist(), horizons, strict=True)
        ]
        bases = np.concatenate((logs, np.array(seasons)), axis=1)
        sigmas = sigma_of(stacked([memory.volatility for memory in memories]))[:, :LEVELS]
        answers = _answers(bases, sigmas, stacked([memory.quantiles for memory in memories]))
        mixed = self._mixed(answers, stacked([memory.losses for memory in memories])[:, :EXPERTS])
        curves = stacked([memory.shifts for memory in memories]).copy()
        curves[:, 0] += mixed
        curves[:, 1] += answers[:, _PERSISTENCE]
        return Outlooks(
            bases=bases,
            sigmas=sigmas,
            # Weights and shifts differ by quantile, so the order of quantiles has to be restored.
            curves=np.maximum.accumulate(curves, axis=2),
            ceilings=ceiling_log(past[:, -1:], levels[:, :1]),
        )

    def _mixed(self, answers: Floats, losses: Floats) -> Floats:
        awake = ~np.isnan(answers[..., :1])
        some_sleep = not np.logical_and.reduce(awake, axis=None)
        if some_sleep:
            answers, losses = np.where(awake, answers, 0.0), np.where(awake, losses, _BEYOND_ALL)
        best = np.minimum.reduce(losses, axis=1, keepdims=True)
        weights = np.exp((best - losses) * (self.sharpness / np.maximum(best, 1e-30)))
        if some_sleep:
            weights *= awake
        with np.errstate(invalid="ignore"):  # where all sleep, the mixture is as little known: NaN
            mixed: Floats = np.add.reduce(weights * answers, axis=1) / np.add.reduce(weights, axis=1)
        return mixed

    def _judge(self, memories: Sequence[Memory], rows: Floats, rates_rps: Floats) -> None:
        """Charge everybody's loss: the spans that the outlooks packed as ``rows`` were about had ``rates_rps``."""
        outlooks = Outlooks.unpacked(rows)
        traffic, weights = add_traffic(stacked([memory.traffic for memory in memories]), rates_rps)
        experts = _answers(outlooks.bases, outlooks.sigmas, stacked([memory.quantiles for memory in memories]))
        answers = np.concatenate((experts, outlooks.curves), axis=1)
        answers_rps = np.exp(np.minimum(answers, outlooks.ceilings[..., None])) - FLOOR_RPS
        losses = _pinball((rates_rps[:, None, None] - answers_rps) * (traffic[:, 1] / traffic[:, 0])[:, None, None])
        if math.isnan(losses.sum()):
            losses = np.where(np.isnan(losses), losses[:, _MIXTURE, None], losses)
        losses += stacked([memory.losses for memory in memories]) * remaining(self.loss_half_life_s)
        for memory, own_traffic, own_losses in zip(memories, unstacked(traffic), unstacked(losses), strict=True):
            memory.traffic, memory.losses = own_traffic, own_losses
            memory.judged += 1
        busy = rates_rps > 0
        if np.logical_and.reduce(busy):
            self._correct(memories, outlooks, rates_rps, weights)
        elif busy.any():
            served = [memory for memory, is_busy in zip(memories, busy.tolist(), strict=True) if is_busy]
            self._correct(served, Outlooks.unpacked(rows[busy]), rates_rps[busy], weights[busy])

    def _correct(self, memories: Sequence[Memory], outlooks: Outlooks, rates_rps: Floats, weights: Floats) -> None:
        """Remember the errors of outlooks for spans that had requests."""
        truth = to_log(rates_rps)[:, None]
        volatility = stacked([memory.volatility for memory in memories])
        sigmas = sigma_of(volatility)
        residuals = clipped(truth - outlooks.bases, sigmas)
        scaled = clipped((truth - outlooks.bases[:, :LEVELS]) / outlooks.sigmas, np.ones(LEVELS))
        residual_units = np.concatenate((residuals / UNIT, scaled / SIGMA_UNIT), axis=1)
        histograms = add_residuals(stacked([memory.histograms for memory in memories]), residual_units, weights)
        missed = np.where(np.isnan(outlooks.curves), _MISSES, truth[..., None] > outlooks.curves)
        moves = (self.recalibration * weights * sigmas[:, _PERSISTENCE])[:, None, None] * (missed - _MISSES)
        shifts = stacked([memory.shifts for memory in memories]) + moves
        for memory, own_histograms, own_quantiles, own_volatility, own_shifts in zip(
            memories,
            unstacked(histograms),
            unstacked(residual_quantiles(histograms, TAUS)),
            unstacked(add_volatility(volatility, residuals)),
            unstacked(shifts),
            strict=True,
        ):
            memory.histograms, memory.quantiles = own_histograms, own_quantiles
            memory.volatility, memory.shifts = own_volatility, own_shifts


def _few_at_once(count: int) -> Iterator[slice]:
    """As many services at a time as fit a processor's cache."""
    return (slice(begin, begin + _AT_ONCE) for begin in range(0, count, _AT_ONCE))


def _answers(bases: Floats, sigmas: Floats, quantiles: Floats) -> Floats:
    """(services, experts, len(TAUS)): what each expert says, NaN where it can't."""
    scales = np.full(quantiles.shape[:2], UNIT)
    scales[:, BASES:] = SIGMA_UNIT * sigmas
    answers: Floats = quantiles * scales[..., None]
    answers += np.concatenate((bases, bases[:, :LEVELS]), axis=1)[..., None]
    return answers


def _pinball(errors: Floats) -> Floats:
    """tau times a shortfall, 1 - tau times an excess (Koenker & Bassett, Regression quantiles, 1978)."""
    return np.maximum(TAUS * errors, (TAUS - 1.0) * errors)


def _skill(losses: Floats) -> float | None:
    """1 - loss of the mixture / loss of persistence, the mean over the grid; None where persistence lost nothing."""
    own, persistence = losses[_MIXTURE:].tolist()
    return 1.0 - sum(map(truediv, own, persistence)) / len(TAUS) if all(persistence) else None
