"""Scores checked by hand on loads and forecasters that are simple enough for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.domain.demand import Forecast
from autoscaler.domain.learned import Learned
from autoscaler.domain.reading import Unknown, UnknownReason
from autoscaler.ports import MeasuredRate, Question
from predictors.backtest import Load, Score, compare, pinball


@dataclass(frozen=True)
class Constant:
    """A forecaster of one number, from a moment on."""

    rps: float
    from_s: float = 0.0

    def start(self) -> Learned:
        return Learned("constant", {})

    def learn_all(self, memories: Sequence[Learned], rates: Sequence[MeasuredRate]) -> list[Learned]:
        return list(memories)

    def forecast_all(self, memories: Sequence[Learned], questions: Sequence[Question]) -> list[Forecast | Unknown]:
        return [self._answer(question) for question in questions]

    def _answer(self, asked: Question) -> Forecast | Unknown:
        if asked.now_s < self.from_s:
            return Unknown(UnknownReason.WARMING_UP)
        return Forecast(
            at_s=asked.now_s,
            lead_s=asked.lead_s,
            quantile=asked.quantile,
            rps=self.rps,
            median_rps=self.rps,
            skill=None,
            by="constant",
        )


def score_of(forecaster: Constant, load: Load, *, quantile: float = 0.9, skip_s: float = 0.0) -> Score:
    scores = compare({"own": forecaster}, load, lead_s=0.0, quantiles=[quantile], skip_s=skip_s)
    (own,) = [score for score in scores if score.forecaster == "own"]
    return own


def test_coverage_loss_and_provision_by_hand() -> None:
    """Rates 10 (six bins) then 30 (six): spans of two bins ahead are 5 x 10 (bins 1-5 ended), one of 20, four of 30."""
    load = Load.regular(np.array([10.0] * 6 + [30.0] * 6), interval_s=15.0)
    score = score_of(Constant(20.0), load)
    mean = (4 * 10 + 20 + 5 * 30) / 10
    assert score.judged == 10
    assert score.coverage == pytest.approx(5 / 10)
    assert score.request_coverage == pytest.approx((4 * 10 + 20) / (10 * mean))
    assert score.pinball == pytest.approx((4 * 0.1 * 10 + 5 * 0.9 * 10) / 10 / mean)
    assert score.over_provision == pytest.approx(20 / mean - 1)


@pytest.mark.parametrize(("lead_s", "expected"), [(0.0, 25.0), (10.0, 65 / 3), (15.0, 20.0), (60.0, 40.0)])
def test_target_is_the_mean_over_30_s_after_the_lead_time(lead_s: float, expected: float) -> None:
    load = Load.regular(np.array([0.0, 30.0, 20.0, 20.0, 40.0, 40.0, 40.0]), interval_s=15.0)
    assert load.targets_rps(lead_s)[0] == pytest.approx(expected)


def test_an_unknown_span_is_not_judged() -> None:
    load = Load(
        end_s=np.array([15.0, 30.0, 60.0, 75.0, 90.0]), span_s=np.full(5, 15.0), rate_rps=np.array([1.0, 1, 1, 1, 1])
    )
    np.testing.assert_array_equal(np.isnan(load.targets_rps(0.0)), [True, True, False, True, True])


def test_skill_compares_on_what_both_answered() -> None:
    rng = np.random.default_rng(3)
    load = Load.regular(10 + rng.random(1600), interval_s=60.0)
    good, bad = score_of(Constant(10.9), load), score_of(Constant(40.0), load)
    assert good.skill_last_value is not None
    assert bad.skill_last_value is not None
    assert good.skill_seasonal is not None
    assert bad.skill_last_value < 0 < good.skill_last_value
    assert good.skill_seasonal > 0


def test_the_baseline_scores_zero_against_itself() -> None:
    load = Load.regular(10 + np.random.default_rng(3).random(400), interval_s=15.0)
    baselines = compare({}, load, lead_s=60.0, quantiles=[0.5, 0.9])
    assert [(score.forecaster, score.quantile) for score in baselines] == [("last-value", 0.5), ("last-value", 0.9)]
    assert [score.skill_last_value for score in baselines] == [0.0, 0.0]
    assert [score.skill_seasonal for score in baselines] == [None, None]


def test_unanswered_spans_are_counted_and_skipped_ones_not() -> None:
    load = Load.regular(np.full(40, 5.0), interval_s=15.0)
    score = score_of(Constant(5.0, from_s=300.0), load, skip_s=150.0)
    assert score.judged == 38 - 19
    assert score.unanswered == 19 - 9


def test_nothing_to_judge_is_an_error() -> None:
    load = Load.regular(np.full(10, 5.0), interval_s=15.0)
    with pytest.raises(ValueError, match="no span of the load"):
        compare({}, load, lead_s=600.0, quantiles=[0.5])


@pytest.mark.parametrize(
    ("ends", "spans", "rates", "said"),
    [
        ([15.0], [15.0], [1.0, 2.0], "as many ends"),
        ([], [], [], "as many ends"),
        ([15.0, 25.0], [15.0, 15.0], [1.0, 1.0], "must not overlap"),
        ([15.0], [0.0], [1.0], "must be positive"),
    ],
)
def test_impossible_loads_are_refused(ends: list[float], spans: list[float], rates: list[float], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Load(end_s=np.array(ends), span_s=np.array(spans), rate_rps=np.array(rates))


@given(
    sample=st.lists(st.floats(0.0, 100.0), min_size=1, max_size=50), tau=st.floats(0.05, 0.95), other=st.floats(0, 100)
)
def test_the_quantile_has_the_least_pinball_loss(sample: list[float], tau: float, other: float) -> None:
    values = np.array(sample)
    quantile = np.quantile(values, tau, method="inverted_cdf")
    assert pinball(values - quantile, tau).sum() <= pinball(values - other, tau).sum() + 1e-6
