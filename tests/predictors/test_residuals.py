"""Histograms of errors, volatility and weights, against plain sums over the same errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from predictors.timeline import Timeline, advance

DAY_BINS = 5760
WINDOWS = 60.0


def test_before_any_error_the_assumed_spread_is_laplace() -> None:
    sigma_units = np.array([12.5, 10.0])
    taus = np.array([0.5, 0.75, 0.95, 0.99])
    laplace = -np.log(2 * (1 - taus)) / math.sqrt(2)
    quantiles = residual_quantiles(first_histograms(sigma_units, windows=WINDOWS)[None], taus)[0]
    np.testing.assert_allclose(quantiles, sigma_units[:, None] * laplace, rtol=0.03, atol=0.1)


@given(
    residuals=st.lists(st.floats(-350, 350), min_size=1, max_size=30),
    weight=st.floats(0.1, 10.0),
    tau=st.floats(0.01, 0.99),
)
def test_a_quantile_leaves_its_share_of_the_weight_below(residuals: list[float], weight: float, tau: float) -> None:
    """Of errors fed hundreds of times, so that the assumed spread fades: their empirical quantile, to a cell."""
    histogram = np.full((1, 1, 127), 1e-6, dtype=np.float32)
    for residual in residuals:
        histogram = add_residuals(histogram, np.array([[residual]]), np.array([weight]))
    quantile = float(residual_quantiles(histogram, np.array([tau])).item())
    tolerance = 0.12 * (1 + abs(quantile))
    share_below = np.mean(np.array(residuals) < quantile - tolerance)
    share_up_to = np.mean(np.array(residuals) <= quantile + tolerance)
    assert share_below <= tau + 0.02
    assert share_up_to >= tau - 0.02


@given(data=st.lists(st.tuples(st.floats(-400, 400), st.floats(-400, 400)), min_size=1, max_size=20))
def test_rows_do_not_touch_one_another(data: list[tuple[float, float]]) -> None:
    both = first_histograms(np.array([5.0, 50.0]), windows=WINDOWS)[None]
    first, second = both[:, :1], both[:, 1:]
    weight = np.ones(1)
    for pair in data:
        both = add_residuals(both, np.array([pair]), weight)
        first = add_residuals(first, np.array([pair[:1]]), weight)
        second = add_residuals(second, np.array([pair[1:]]), weight)
    taus = np.array([0.1, 0.5, 0.9])
    np.testing.assert_allclose(
        residual_quantiles(both, taus),
        np.concatenate((residual_quantiles(first, taus), residual_quantiles(second, taus)), axis=1),
        rtol=1e-6,
        atol=1e-9,
    )


def test_an_unknown_error_leaves_its_row_alone() -> None:
    before = first_histograms(np.array([5.0, 5.0]), windows=WINDOWS)[None]
    after = add_residuals(before, np.array([[math.nan, 3.0]]), np.ones(1))
    np.testing.assert_array_equal(after[0, 0], before[0, 0])
    assert not np.array_equal(after[0, 1], before[0, 1])


def test_half_is_forgotten_after_a_day_of_mean_traffic() -> None:
    histogram = first_histograms(np.array([5.0]), windows=WINDOWS)[None]
    for _ in range(DAY_BINS):
        histogram = add_residuals(histogram, np.array([[300.0]]), np.ones(1))
    old = histogram[0, 0, :100].sum()
    assert old == pytest.approx(WINDOWS / 2, rel=0.01)


def test_volatility_follows_the_size_of_errors_and_starts_as_assumed() -> None:
    volatility = first_volatility(3)[None]
    np.testing.assert_allclose(sigma_of(volatility), FIRST_SIGMA)
    for _ in range(2000):
        volatility = add_volatility(volatility, np.array([[0.1, math.nan, 0.0]]))
    np.testing.assert_allclose(sigma_of(volatility)[0], [0.1, FIRST_SIGMA, 0.02], rtol=1e-3)


def test_half_the_volatility_is_forgotten_in_half_an_hour() -> None:
    volatility = np.array([[[1.0], [1.0]]])
    for _ in range(120):
        volatility = add_volatility(volatility, np.array([[0.0]]))
    assert volatility[0, 0, 0] == pytest.approx(0.5)


def test_errors_are_cut_at_five_sigma() -> None:
    sigma = np.full(4, 0.1)
    np.testing.assert_allclose(clipped(np.array([0.3, 7.0, -7.0, math.nan]), sigma), [0.3, 0.5, -0.5, math.nan])


@pytest.mark.parametrize(
    ("seen", "rate_rps", "weight"),
    [
        pytest.param([], 5.0, 1.0, id="the first"),
        pytest.param([10.0] * 100, 10.0, 1.0, id="a usual one"),
        pytest.param([10.0] * 1000, 20.0, 2.0, id="twice the mean"),
        pytest.param([10.0] * 1000, 0.0, 0.0, id="idle"),
        pytest.param([10.0] * 1000 + [0.0] * 1000, 10.0, 1.0, id="idle time does not lower the mean"),
        pytest.param([1.0] * 1000, 1e6, 10.0, id="at most ten"),
    ],
)
def test_weight_of_a_window(seen: list[float], rate_rps: float, weight: float) -> None:
    traffic = np.zeros((1, 2))
    for rate in seen:
        traffic, _ = add_traffic(traffic, np.array([rate]))
    assert add_traffic(traffic, np.array([rate_rps]))[1].item() == pytest.approx(weight, rel=0.01)


@pytest.mark.parametrize("horizon", [0, 1, 4, 20])
def test_what_is_foreseen_is_judged_when_its_span_has_ended(horizon: int) -> None:
    pending = foresee(np.empty((0, 1), dtype=np.float32), np.array([7.0]), horizon)
    timeline = Timeline.empty()
    judged = []
    for index in range(1, horizon + 5):
        timeline = advance(timeline, end_s=15.0 * index, span_s=15.0, rate_rps=float(index))[0].timeline
        rate_rps = due(pending, timeline)
        if not math.isnan(rate_rps):
            judged.append((index, float(pending[0, 0]), rate_rps))
        pending = pending[1:]
    last = horizon + 2
    assert judged == ([(last, 7.0, last - 0.5)] if last > 1 else [])


def test_a_shorter_lead_time_does_not_disturb_what_was_foreseen_under_a_longer_one() -> None:
    pending = foresee(np.empty((0, 1), dtype=np.float32), np.array([1.0]), 10)
    pending = foresee(pending, np.array([2.0]), 3)
    np.testing.assert_array_equal(np.flatnonzero(~np.isnan(pending[:, 0])), [4, 11])
    assert pending[11, 0] == 1.0
    assert pending[4, 0] == 2.0


def test_an_unknown_span_judges_nothing() -> None:
    pending = foresee(np.empty((0, 1), dtype=np.float32), np.array([7.0]), 0)[1:]
    timeline = advance(Timeline.empty(), end_s=15.0, span_s=15.0, rate_rps=1.0)[0].timeline
    assert math.isnan(due(pending, timeline))
