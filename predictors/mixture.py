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
from dataclasses import dataclass
from operator import truediv
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autoscaler.domain.demand import Forecast
from autoscaler.domain.learned import Learned
from autoscaler.domain.reading import Unknown
from predictors.conformal import UNIT, checked, checked_quantile, sealed
from predictors.levels import (
    FLOOR_RPS,
    LEVEL_WINDOWS_S,
    PEAK_WINDOWS_S,
    ceiling_log,
    from_log,
    largest_rps,
    levels_rps,
    peaks_rps,
    to_log,
    too_short,
)
from predictors.naive import LAST_VALUE_S
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
    remaining,
    residual_quantiles,
    sigma_of,
)
from predictors.seasonal import FIVE_S, PERIODS_S, seasonal_logs
from predictors.timeline import Floats, Floats32, Step, Timeline, advance, horizon_bins

# Ascending. Dense where the price of an error is high; -ln(1 - tau) is the scale in which answers between are linear.
TAUS: Floats = np.array(
    [0.3, 0.5, 0.65, 0.75, 0.82, 0.87, 0.9, 0.92, 0.94, 0.95, 0.96, 0.97, 0.98, 0.985, 0.99, 0.995, 0.998]
)
_MISSES: Floats = 1.0 - TAUS
_HEADROOMS: Floats = -np.log1p(-TAUS)
_MEDIAN = 1

_LEVELS = len(LEVEL_WINDOWS_S)
_BASES = _LEVELS + len(PEAK_WINDOWS_S) + len(PERIODS_S)
_EXPERTS = _BASES + _LEVELS
_PERSISTENCE = LEVEL_WINDOWS_S.index(LAST_VALUE_S)
_FIVE_MINUTES = LEVEL_WINDOWS_S.index(FIVE_S)
_MIXTURE = _EXPERTS  # rows of losses after those of the experts
_RECALIBRATED_PERSISTENCE = _EXPERTS + 1
_SIGMA_UNIT = 0.1  # of the volatility
_OUTLOOK_WIDTH = _BASES + _LEVELS + 2 * len(TAUS) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outlook:
    """What is foreseen at one moment, in log rates.

    ``bases`` NaN where unknown; ``sigmas`` the volatility of the levels; ``curves`` (2, len(TAUS)) the mixture and
    persistence at ``TAUS``, ascending, NaN where unknown; ``ceiling`` what no answer exceeds.
    """

    bases: Floats
    sigmas: Floats
    curves: Floats
    ceiling: float

    def packed(self) -> Floats:
        """As one row of ``_OUTLOOK_WIDTH``."""
        return np.concatenate((self.bases, self.sigmas, self.curves.ravel(), (self.ceiling,)))

    @classmethod
    def unpacked(cls, row: Floats) -> _Outlook:
        """Of what ``packed`` gave."""
        sigmas, curves = row[_BASES : _BASES + _LEVELS], row[_BASES + _LEVELS : -1]
        return cls(bases=row[:_BASES], sigmas=sigmas, curves=curves.reshape(2, -1), ceiling=float(row[-1]))


@dataclass(slots=True, kw_only=True)
class _Memory:
    """A working copy of what was learned: its fields are given new arrays, and no array is ever changed.

    ``peaks``: see ``_peaks``. ``pending``: packed outlooks by the bins until they are judged. ``histograms``:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelMixture:
    """The mixture as a ``Forecaster``. Its skill is averaged over the grid of quantiles, upper ones being the most.

    ``sharpness``: of the weights. ``loss_half_life_s``: of losses and skill. ``recalibration``: how far one miss moves
    a quantile, in parts of the volatility. ``least_judged``: outlooks judged before persistence may take over.
    """

    sharpness: float = 8.0
    loss_half_life_s: float = 21600.0
    recalibration: float = 0.005
    least_judged: int = 40

    model = "level-mixture"

    def start(self) -> Learned:
        """The memory of one that has seen nothing."""
        units = np.repeat((FIRST_SIGMA / UNIT, 1.0 / _SIGMA_UNIT), (_BASES, _LEVELS))
        histograms = first_histograms(units)
        timeline = Timeline.empty()
        return _learned(
            _Memory(
                timeline=timeline,
                peaks=_peaks(timeline),
                pending=np.empty((0, _OUTLOOK_WIDTH), dtype=np.float32),
                histograms=histograms,
                quantiles=residual_quantiles(histograms, TAUS),
                volatility=first_volatility(_BASES),
                losses=np.zeros((_EXPERTS + 2, len(TAUS))),
                shifts=np.zeros((2, len(TAUS))),
                traffic=np.zeros(2),
                judged=0,
            )
        )

    def learn(self, learned: Learned, *, end_s: float, span_s: float, rate_rps: float, lead_s: float) -> Learned:
        """Take in the mean rate over [end_s - span_s, end_s]; see ``timeline.advance`` for what it refuses.

        An outlook is judged under the lead time that was in force when it was made.
        """
        memory, horizon = _memory(learned), horizon_bins(lead_s)
        for step in advance(memory.timeline, end_s=end_s, span_s=span_s, rate_rps=rate_rps):
            self._pass(memory, step, horizon)
        return _learned(memory)

    def forecast(self, learned: Learned, *, now_s: float, lead_s: float, quantile: float) -> Forecast | Unknown:
        """Demand at ``now_s + lead_s``; from the first full 15 s on, with an assumed spread until there are residuals.

        ``quantile`` counts as at least 0.3 and at most 0.998. Unknown where no window is full, and where nothing was
        measured for two minutes.
        """
        memory, horizon = _memory(learned), horizon_bins(lead_s)
        headroom = -math.log1p(-checked_quantile(quantile))
        silence = memory.timeline.silence(now_s)
        if silence is not None:
            return silence
        outlook = self._outlook(memory, horizon)
        if math.isnan(outlook.curves[0, 0]):
            return too_short(memory.timeline, LEVEL_WINDOWS_S[0])
        skill = _skill(memory.losses) if memory.judged else None
        curve, by = outlook.curves[0], "mixture"
        if skill is not None and skill <= 0 and memory.judged >= self.least_judged:
            persistence = outlook.curves[1]
            curve, by = (curve, by) if math.isnan(persistence[0]) else (persistence, "persistence")
        return Forecast(
            at_s=now_s,
            lead_s=lead_s,
            quantile=quantile,
            rps=from_log(min(float(np.interp(headroom, _HEADROOMS, curve)), outlook.ceiling)),
            median_rps=from_log(min(float(curve[_MEDIAN]), outlook.ceiling)),
            skill=skill,
            by=by,
        )

    def _pass(self, memory: _Memory, step: Step, horizon: int) -> None:
        """Let ``memory`` go one step in time: judge the outlook that is due, and make the next."""
        if step.timeline.minutes is not memory.timeline.minutes:
            memory.peaks = _peaks(step.timeline)
        memory.timeline = step.timeline
        if step.bins == 0:
            return
        judged = due(memory.pending, step.timeline) if step.bins == 1 else None
        memory.pending = memory.pending[step.bins :]
        if judged is not None:
            self._judge(memory, _Outlook.unpacked(judged[0]), judged[1])
        outlook = self._outlook(memory, horizon)
        if not math.isnan(outlook.curves[0, 0]):
            memory.pending = foresee(memory.pending, outlook.packed(), horizon)

    def _outlook(self, memory: _Memory, horizon: int) -> _Outlook:
        levels = levels_rps(memory.timeline)
        peaks = np.maximum(memory.peaks[:-1], np.fmax(levels[_PERSISTENCE], 0.0))
        past = to_log(np.concatenate((levels, peaks)))
        seasons = seasonal_logs(memory.timeline, float(past[_FIVE_MINUTES]), horizon)
        bases = np.concatenate((past, seasons))
        sigmas = sigma_of(memory.volatility)[:_LEVELS]
        answers = _answers(bases, sigmas, memory.quantiles)
        curves = memory.shifts.copy()
        curves[0] += self._mixed(answers, memory.losses[:_EXPERTS])
        curves[1] += answers[_PERSISTENCE]
        return _Outlook(
            bases=bases,
            sigmas=sigmas,
            # Weights and shifts differ by quantile, so the order of quantiles has to be restored.
            curves=np.maximum.accumulate(curves, axis=1),
            ceiling=ceiling_log(float(memory.peaks[-1]), float(levels[0])),
        )

    def _mixed(self, answers: Floats, losses: Floats) -> Floats:
        awake = answers[:, 0] == answers[:, 0]  # not NaN
        if not awake.all():
            answers, losses = answers[awake], losses[awake]
            if len(answers) == 0:
                return np.full(len(TAUS), np.nan)
        best = np.minimum.reduce(losses)
        weights = np.exp((best - losses) * (self.sharpness / np.maximum(best, 1e-30)))
        mixed: Floats = np.add.reduce(weights * answers) / np.add.reduce(weights)
        return mixed

    def _judge(self, memory: _Memory, outlook: _Outlook, rate_rps: float) -> None:
        """Charge everybody's loss: the span that ``outlook`` was about had ``rate_rps``."""
        memory.traffic, weight = add_traffic(memory.traffic, rate_rps)
        if memory.traffic[1] == 0:
            return  # never busy: there is no scale to judge on
        answers = np.concatenate((_answers(outlook.bases, outlook.sigmas, memory.quantiles), outlook.curves))
        answers_rps = np.exp(np.minimum(answers, outlook.ceiling)) - FLOOR_RPS
        losses = _pinball((rate_rps - answers_rps) * (memory.traffic[1] / memory.traffic[0]))
        if math.isnan(losses.sum()):
            losses = np.where(np.isnan(losses), losses[_MIXTURE], losses)
        memory.losses = memory.losses * remaining(self.loss_half_life_s) + losses
        memory.judged += 1
        if weight > 0:
            self._correct(memory, outlook, rate_rps, weight)

    def _correct(self, memory: _Memory, outlook: _Outlook, rate_rps: float, weight: float) -> None:
        """Remember the errors of ``outlook``, for a span that had requests."""
        truth = to_log(np.array([rate_rps]))
        sigmas = sigma_of(memory.volatility)
        residuals = clipped(truth - outlook.bases, sigmas)
        scaled = clipped((truth - outlook.bases[:_LEVELS]) / outlook.sigmas, np.ones(_LEVELS))
        residual_units = np.concatenate((residuals / UNIT, scaled / _SIGMA_UNIT))
        memory.histograms = add_residuals(memory.histograms, residual_units, weight)
        memory.quantiles = residual_quantiles(memory.histograms, TAUS)
        memory.volatility = add_volatility(memory.volatility, residuals)
        missed = np.where(np.isnan(outlook.curves), _MISSES, truth > outlook.curves)
        memory.shifts = memory.shifts + (self.recalibration * weight * float(sigmas[_PERSISTENCE])) * (missed - _MISSES)


def _peaks(timeline: Timeline) -> Floats:
    """The peaks of past minutes, and the largest rate known; they change once a minute."""
    return np.append(peaks_rps(timeline), largest_rps(timeline))


def _answers(bases: Floats, sigmas: Floats, quantiles: Floats) -> Floats:
    """(experts, len(TAUS)): what each expert says, NaN where it can't."""
    answers = quantiles * UNIT
    answers[_BASES:] = quantiles[_BASES:] * (_SIGMA_UNIT * sigmas)[:, None]
    answers[:_BASES] += bases[:, None]
    answers[_BASES:] += bases[:_LEVELS, None]
    return answers


def _pinball(errors: Floats) -> Floats:
    """tau times a shortfall, 1 - tau times an excess (Koenker & Bassett, Regression quantiles, 1978)."""
    return np.maximum(TAUS * errors, (TAUS - 1.0) * errors)


def _skill(losses: Floats) -> float | None:
    """1 - loss of the mixture / loss of persistence, the mean over the grid; None where persistence lost nothing."""
    own, persistence = losses[_MIXTURE:].tolist()
    return 1.0 - sum(map(truediv, own, persistence)) / len(TAUS) if all(persistence) else None


def _memory(learned: Learned) -> _Memory:
    arrays = checked(learned, LevelMixture.model)
    return _Memory(
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


def _learned(memory: _Memory) -> Learned:
    own: dict[str, NDArray[Any]] = {
        "peaks": memory.peaks,
        "pending": memory.pending,
        "histograms": memory.histograms,
        "quantiles": memory.quantiles,
        "volatility": memory.volatility,
        "losses": memory.losses,
        "shifts": memory.shifts,
        "traffic": memory.traffic,
        "judged": np.array([memory.judged]),
    }
    return sealed(LevelMixture.model, memory.timeline.to_arrays() | own)
