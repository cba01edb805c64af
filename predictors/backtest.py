"""Forecasters judged on a recorded load, walking forward: each forecast is made from what was known at its time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autoscaler.domain.reading import Unknown
from autoscaler.ports import Forecaster, MeasuredRate, Question
from predictors.naive import LastValue
from predictors.seasonal import SeasonalNaive
from predictors.timeline import BIN_S, TARGET_BINS, Floats

TARGET_S = TARGET_BINS * BIN_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Mean rates over spans that follow one another: ``rate_rps[i]`` over [end_s[i] - span_s[i], end_s[i]].

    What lies between two spans is unknown. Raises ValueError where spans overlap or lengths differ.
    """

    end_s: Floats
    span_s: Floats
    rate_rps: Floats

    def __post_init__(self) -> None:
        if not len(self.end_s) == len(self.span_s) == len(self.rate_rps) > 0:
            raise ValueError(
                f"need as many ends, spans and rates, got {len(self.end_s)}, {len(self.span_s)}, {len(self.rate_rps)}"
            )
        if np.any(self.span_s <= 0) or np.any(np.diff(self.end_s) < self.span_s[1:] - 1e-6):
            raise ValueError("spans must be positive and must not overlap")

    @classmethod
    def regular(cls, rate_rps: Floats, *, interval_s: float, begin_s: float = 0.0) -> Load:
        """One rate per interval, without gaps."""
        end_s = begin_s + interval_s * np.arange(1, len(rate_rps) + 1, dtype=np.float64)
        return cls(end_s=end_s, span_s=np.full(len(rate_rps), interval_s), rate_rps=np.asarray(rate_rps, dtype=float))

    def targets_rps(self, lead_s: float) -> Floats:
        """What a forecast made at each end is about: the mean rate over the 30 s that begin ``lead_s`` later.

        NaN where that span is not wholly known.
        """
        knots_s = np.stack((self.end_s - self.span_s, self.end_s), axis=1).ravel()
        begin_s, end_s = self.end_s + lead_s, self.end_s + lead_s + TARGET_S

        def between(per_span: Floats) -> Floats:
            total = np.stack((per_span.cumsum() - per_span, per_span.cumsum()), axis=1).ravel()
            return np.asarray(np.interp(end_s, knots_s, total) - np.interp(begin_s, knots_s, total))

        known_s = between(self.span_s)
        requests = between(self.span_s * self.rate_rps)
        return np.where(known_s > TARGET_S - 1e-3, requests / TARGET_S, np.nan)


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One forecaster's record at one quantile.

    ``judged`` spans had both a forecast and a known demand; for ``unanswered`` ones the forecaster knew nothing.
    ``coverage``: share of judged spans with a demand at or below the forecast; ``request_coverage``: of their requests.
    ``pinball``: mean pinball loss over mean demand. ``over_provision``: mean forecast over mean demand, less 1.
    ``skill_last_value``, ``skill_seasonal``: 1 - own loss / loss of the baseline on the spans that both answered; None
    where there are none. ``persistence``: share of answers that the forecaster left to persistence.
    """

    forecaster: str
    quantile: float
    judged: int
    unanswered: int
    coverage: float
    request_coverage: float
    pinball: float
    over_provision: float
    skill_last_value: float | None
    skill_seasonal: float | None
    persistence: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answers:
    """``rps`` (ticks, quantiles), NaN where unknown; ``persistence``: which ticks were left to it."""

    rps: Floats
    persistence: Floats


def compare(
    forecasters: Mapping[str, Forecaster],
    load: Load,
    *,
    lead_s: float,
    quantiles: Sequence[float],
    skip_s: float = 0.0,
) -> list[Score]:
    """Scores of both baselines and of the forecasters at each quantile, without those that answered for no span.

    The first ``skip_s`` are learned from but not judged. Raises ValueError where nothing is left to judge.
    """
    baselines: dict[str, Forecaster] = {LastValue.model: LastValue(), SeasonalNaive.model: SeasonalNaive()}
    target_rps = load.targets_rps(lead_s)
    known = ~np.isnan(target_rps) & (load.end_s >= load.end_s[0] - load.span_s[0] + skip_s)
    if not known.any():
        raise ValueError(f"no span of the load lies {skip_s} s after its begin and {lead_s} s before its end")
    answers = {
        name: _walk(forecaster, load, known, lead_s=lead_s, quantiles=quantiles)
        for name, forecaster in (baselines | dict(forecasters)).items()
    }
    return [
        _score(name, column, quantile, answers, target_rps=target_rps, known=known)
        for name in answers
        for column, quantile in enumerate(quantiles)
        if not np.isnan(answers[name].rps[known, column]).all()
    ]


def _walk(
    forecaster: Forecaster, load: Load, asked: NDArray[np.bool_], *, lead_s: float, quantiles: Sequence[float]
) -> _Answers:
    rps = np.full((len(load.end_s), len(quantiles)), np.nan)
    persistence = np.zeros(len(load.end_s))
    learned = forecaster.start()
    ticks = zip(load.end_s.tolist(), load.span_s.tolist(), load.rate_rps.tolist(), strict=True)
    for tick, (end_s, span_s, rate_rps) in enumerate(ticks):
        rate = MeasuredRate(end_s=end_s, span_s=span_s, rate_rps=rate_rps, lead_s=lead_s)
        [learned] = forecaster.learn_all([learned], [rate])
        for column, quantile in enumerate(quantiles if asked[tick] else ()):
            question = Question(now_s=end_s, lead_s=lead_s, quantile=quantile)
            [answer] = forecaster.forecast_all([learned], [question])
            if not isinstance(answer, Unknown):
                rps[tick, column] = answer.rps
                persistence[tick] = answer.by == "persistence"
    return _Answers(rps=rps, persistence=persistence)


def _score(
    name: str,
    column: int,
    quantile: float,
    answers: Mapping[str, _Answers],
    *,
    target_rps: Floats,
    known: NDArray[np.bool_],
) -> Score:
    own = answers[name].rps[:, column]
    losses = {other: pinball(target_rps - answers[other].rps[:, column], quantile) for other in answers}
    judged = known & ~np.isnan(own)

    def skill(baseline: str) -> float | None:
        both = judged & ~np.isnan(losses[baseline])
        lost = float(losses[baseline][both].sum())
        return 1.0 - float(losses[name][both].sum()) / lost if lost > 0 else None

    demand_rps, covered = target_rps[judged], target_rps[judged] <= own[judged]
    mean_rps = max(float(demand_rps.mean()), 1e-12)
    return Score(
        forecaster=name,
        quantile=quantile,
        judged=int(judged.sum()),
        unanswered=int((known & ~judged).sum()),
        coverage=float(covered.mean()),
        request_coverage=float((covered * demand_rps).mean()) / mean_rps,
        pinball=float(losses[name][judged].mean()) / mean_rps,
        over_provision=float(own[judged].mean()) / mean_rps - 1.0,
        skill_last_value=skill(LastValue.model),
        skill_seasonal=skill(SeasonalNaive.model),
        persistence=float(answers[name].persistence[judged].mean()),
    )


def pinball(errors: Floats, quantile: float) -> Floats:
    """The loss whose mean the quantile minimises: tau times a shortfall, 1 - tau times an excess."""
    return np.maximum(quantile * errors, (quantile - 1.0) * errors)
