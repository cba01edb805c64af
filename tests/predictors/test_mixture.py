"""What the mixture is for: stated coverage, and less loss than either baseline."""

from __future__ import annotations

import numpy as np
import pytest

from autoscaler.domain.demand import Forecast
from autoscaler.domain.learned import Learned
from autoscaler.ports import Forecaster, MeasuredRate, Question
from predictors.backtest import Load, Score, compare
from predictors.mixture import LevelMixture
from predictors.naive import LastValue
from predictors.seasonal import SeasonalNaive

DAY_S = 86400.0

# Two days at 15 s, and three forecasters: seconds of work, but of a busy machine maybe a minute.
pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def busy_days() -> Load:
    """Two days: a daily wave, eight bursts a day that build up over ten minutes, minutes that scatter by 5 % or, in
    every other four hours, by 18 %, and counts twice as dispersed as Poisson.
    """
    rng = np.random.default_rng(7)
    time_s = np.arange(0.0, 2 * DAY_S, 15.0)
    scatter = np.where(np.sin(2 * np.pi * time_s / (8 * 3600)) > 0, 0.18, 0.05)
    noise = scatter * np.repeat(rng.normal(0.0, 1.0, len(time_s) // 4), 4)
    begun = rng.random(len(time_s)) < 8 * 15 / DAY_S
    age = np.arange(480) * 15 / 600
    bursts = np.convolve(begun, age * np.exp(1 - age))[: len(time_s)]
    rates = 20 * np.exp(0.8 * np.sin(2 * np.pi * time_s / DAY_S) + noise) * (1 + 0.6 * bursts)
    return Load.regular(rng.negative_binomial(rates * 15, 0.5) / 15, interval_s=15.0)


@pytest.fixture(scope="module", params=[60.0, 300.0], ids=["lead 60 s", "lead 300 s"])
def all_scores(request: pytest.FixtureRequest, busy_days: Load) -> list[Score]:
    """Of the second day, for the mixture and for one that is never recalibrated."""
    return compare(
        {"mixture": LevelMixture(), "uncalibrated": LevelMixture(recalibration=0.0)},
        busy_days,
        lead_s=request.param,
        quantiles=[0.5, 0.95, 0.99],
        skip_s=1.05 * DAY_S,
    )


@pytest.fixture(scope="module")
def scores(all_scores: list[Score]) -> dict[float, Score]:
    """The mixture's by quantile."""
    return {score.quantile: score for score in all_scores if score.forecaster == "mixture"}


@pytest.mark.parametrize(
    ("quantile", "within"), [(0.5, 0.04), (0.95, 0.02), (0.99, 0.008)], ids=lambda value: f"{value:g}"
)
def test_it_covers_the_share_of_requests_that_it_states(
    scores: dict[float, Score], quantile: float, within: float
) -> None:
    assert scores[quantile].request_coverage == pytest.approx(quantile, abs=within)
    assert scores[quantile].unanswered == 0


def test_recalibration_brings_the_real_share_closer_to_the_stated_one(all_scores: list[Score]) -> None:
    off = {
        name: sum(abs(score.request_coverage - score.quantile) for score in all_scores if score.forecaster == name)
        for name in ("mixture", "uncalibrated")
    }
    assert off["mixture"] < 0.8 * off["uncalibrated"]


@pytest.mark.parametrize("quantile", [0.5, 0.95, 0.99])
def test_it_loses_less_than_both_baselines(scores: dict[float, Score], quantile: float) -> None:
    last, season = scores[quantile].skill_last_value, scores[quantile].skill_seasonal
    assert last is not None
    assert season is not None
    assert last > 0.02
    assert season > 0.1


def _after(
    forecaster: Forecaster,
    rates: np.ndarray[tuple[int], np.dtype[np.float64]],
    lead_s: float,
    *,
    learned: Learned | None = None,
    ticks: int = 0,
) -> Learned:
    """``learned``, or a fresh memory, after one rate per 15 s from tick ``ticks`` on."""
    learned = learned or forecaster.start()
    for index, rate_rps in enumerate(rates.tolist(), start=ticks + 1):
        rate = MeasuredRate(end_s=15.0 * index, span_s=15.0, rate_rps=rate_rps, lead_s=lead_s)
        [learned] = forecaster.learn_all([learned], [rate])
    return learned


def _ask(forecaster: Forecaster, learned: Learned, ticks: int, quantile: float, lead_s: float) -> Forecast:
    question = Question(now_s=15.0 * ticks, lead_s=lead_s, quantile=quantile)
    [answer] = forecaster.forecast_all([learned], [question])
    assert isinstance(answer, Forecast)
    return answer


def test_a_fresh_service_gets_help_after_the_first_15_seconds() -> None:
    """Nothing is known of its errors yet, so a spread is assumed."""
    forecaster = LevelMixture()
    answer = _ask(forecaster, _after(forecaster, np.array([10.0]), 60.0), 1, 0.95, 60.0)
    assert (answer.by, answer.skill) == ("mixture", None)
    assert answer.median_rps == pytest.approx(10.0, rel=0.02)
    assert 13.0 < answer.rps < 18.0


def test_persistence_answers_where_the_mixture_loses_to_it() -> None:
    """Experts weighted alike, whatever they lose, on a random walk, which the last value foresees best."""
    walk = 50 * np.exp(np.random.default_rng(5).normal(0.0, 0.02, 2000).cumsum())
    deaf = LevelMixture(sharpness=0.0)
    answer = _ask(deaf, _after(deaf, walk, 60.0), len(walk), 0.95, 60.0)
    assert answer.by == "persistence"
    assert answer.skill is not None
    assert answer.skill <= 0
    assert answer.median_rps == pytest.approx(walk[-4:].mean(), rel=0.05)


def test_skill_is_positive_where_an_average_beats_the_last_value() -> None:
    rates = np.random.default_rng(5).poisson(15.0, 1500) / 15
    forecaster = LevelMixture()
    answer = _ask(forecaster, _after(forecaster, rates, 60.0), len(rates), 0.95, 60.0)
    assert answer.by == "mixture"
    assert answer.skill is not None
    assert answer.skill > 0.1


@pytest.mark.parametrize("lead_s", [60.0, 300.0])
def test_a_wild_hour_widens_the_spread_and_a_calm_one_narrows_it_again(lead_s: float) -> None:
    rng = np.random.default_rng(11)
    forecaster = LevelMixture()
    learned, ticks = forecaster.start(), 0
    spreads: dict[float, list[float]] = {0.02: [], 0.3: []}
    for _ in range(4):
        for sigma, spread in spreads.items():
            hours = 50 * np.exp(np.repeat(rng.normal(0.0, sigma, 60), 8))
            learned = _after(forecaster, hours, lead_s, learned=learned, ticks=ticks)
            ticks += len(hours)
            answer = _ask(forecaster, learned, ticks, 0.95, lead_s)
            spread.append(answer.rps / answer.median_rps - 1)
    assert sum(spreads[0.3][1:]) > 2.0 * sum(spreads[0.02][1:])


@pytest.mark.parametrize("forecaster", [LastValue(), LevelMixture()], ids=["last value", "mixture"])
def test_what_was_foreseen_before_a_gap_is_not_judged_by_what_came_after_it(forecaster: Forecaster) -> None:
    """A load that grows by 0.2 % a bin, with three minutes lost in each ten: errors of longer spans would be larger."""
    learned = forecaster.start()
    grown = 20 * np.exp(0.002 * np.arange(2005))
    for index, rate_rps in enumerate(grown.tolist()):
        if index % 40 < 28:
            rate = MeasuredRate(end_s=15.0 * (index + 1), span_s=15.0, rate_rps=rate_rps, lead_s=60.0)
            [learned] = forecaster.learn_all([learned], [rate])
    answer = _ask(forecaster, learned, len(grown), 0.9, 60.0)
    assert answer.rps == pytest.approx(grown[-1] * np.exp(0.002 * 5.5), rel=0.006)


def test_one_outage_and_its_return_do_not_raise_the_day_after() -> None:
    """Ten minutes of measured zero, then the old load: hours later the answer is nearly what it was."""
    rates = np.random.default_rng(2).negative_binomial(300, 0.5, 3600) / 15
    broken = rates.copy()
    broken[1500:1540] = 0.0
    forecaster = LevelMixture()
    whole = _ask(forecaster, _after(forecaster, rates, 60.0), len(rates), 0.95, 60.0)
    after = _ask(forecaster, _after(forecaster, broken, 60.0), len(rates), 0.95, 60.0)
    assert after.rps == pytest.approx(whole.rps, rel=0.04)


def test_a_job_that_came_yesterday_does_not_raise_a_quiet_day_beyond_its_own_size() -> None:
    rates = np.full(2400, 2.0)
    rates[600:640] = 60.0
    forecaster = LevelMixture()
    answer = _ask(forecaster, _after(forecaster, rates, 60.0), len(rates), 0.998, 60.0)
    assert 2.0 <= answer.rps <= 120.0


def test_the_same_time_yesterday_is_what_seasonal_naive_answers() -> None:
    time_s = np.arange(15.0, 1.6 * DAY_S, 15.0)
    rates = 30 + 20 * np.sin(2 * np.pi * time_s / DAY_S) + np.where(time_s > DAY_S, 100.0, 0.0)
    forecaster = SeasonalNaive()
    learned = _after(forecaster, rates[:5761], 300.0)
    answer = _ask(forecaster, learned, 5761, 0.5, 300.0)
    yesterday_s = time_s[5760] + 315.0 - DAY_S
    assert answer.rps == pytest.approx(30 + 20 * np.sin(2 * np.pi * yesterday_s / DAY_S), rel=0.01)
