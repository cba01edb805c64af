"""The forecast's quantile follows the share of requests in SLO."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.domain.params import Params
from autoscaler.domain.reading import Unknown, UnknownReason
from autoscaler.policy.tuning import initial_theta, quantiles, tune

PARAMS = Params()
DAY_S = 86400.0
SHARE = 0.99
UNKNOWN = Unknown(UnknownReason.UNREACHABLE)


def days_of(theta: float, *, missed_share: float, days: int, params: Params = PARAMS) -> tuple[float, float]:
    debt = 0.0
    for _ in range(days * 96):
        theta, debt = tune(
            theta,
            debt,
            judged=1000.0,
            missed=1000.0 * missed_share,
            span_s=900.0,
            share=SHARE,
            a_day=96_000.0,
            params=params,
        )
    return theta, debt


def test_a_day_of_twice_the_allowed_misses_raises_the_headroom_by_the_gain() -> None:
    only_trend = Params(debt_gain=0.0, tuning_reserve=0.0)
    theta, debt = days_of(2.0, missed_share=0.02, days=1, params=only_trend)
    assert theta == pytest.approx(2.0 + only_trend.tuning_gain)
    assert debt == pytest.approx(1.0)


@pytest.mark.parametrize("first_share", [0.0, 0.02], ids=["saved", "overdrawn"])
def test_what_was_saved_or_overdrawn_on_the_way_is_paid_back(first_share: float) -> None:
    """A service whose misses fall with the headroom: after weeks the share since the begin is the promised one."""
    theta, debt = days_of(initial_theta(PARAMS), missed_share=first_share, days=1)
    missed, ticks = first_share * 96, 96
    for _ in range(60 * 96):
        share = min(1.0, 0.01 * math.exp(2.0 - theta))
        missed, ticks = missed + share, ticks + 1
        theta, debt = tune(
            theta,
            debt,
            judged=1000.0,
            missed=1000.0 * share,
            span_s=900.0,
            share=SHARE,
            a_day=96_000.0,
            params=PARAMS,
        )
    assert missed / ticks == pytest.approx(0.01 * (1 - PARAMS.tuning_reserve), rel=0.01)


@pytest.mark.parametrize(
    ("judged", "missed"),
    [(UNKNOWN, 1.0), (10.0, UNKNOWN), (0.0, 0.0)],
    ids=["judged unknown", "missed unknown", "nobody judged"],
)
def test_nothing_known_changes_nothing(judged: float | Unknown, missed: float | Unknown) -> None:
    told = tune(2.0, 0.3, judged=judged, missed=missed, span_s=15.0, share=SHARE, a_day=1000.0, params=PARAMS)
    assert told == (2.0, 0.3)


@given(
    theta=st.floats(PARAMS.min_theta, PARAMS.max_theta),
    debt=st.floats(-1.0, 1.0),
    counts=st.tuples(st.floats(0.0, 1e9), st.floats(0.0, 1.0)),
    a_day=st.floats(0.0, 1e9),
    lead_s=st.floats(0.0, 1e5),
)
def test_the_quantile_stays_in_its_bounds(
    theta: float, debt: float, counts: tuple[float, float], a_day: float, lead_s: float
) -> None:
    judged, part = counts
    theta, debt = tune(
        theta, debt, judged=judged, missed=part * judged, span_s=15.0, share=SHARE, a_day=a_day, params=PARAMS
    )
    assert -1 <= debt <= 1
    to_grow, to_keep = quantiles(theta, lead_s=lead_s, params=PARAMS)
    assert PARAMS.min_quantile - 1e-9 <= to_grow <= to_keep <= PARAMS.max_quantile + 1e-9


def test_demand_may_exceed_the_forecast_the_more_seldom_the_longer_the_lead_time() -> None:
    theta = initial_theta(PARAMS)
    usual, double, fourfold = (1 - quantiles(theta, lead_s=lead_s, params=PARAMS)[0] for lead_s in (75.0, 150.0, 300.0))
    assert usual == pytest.approx(1 - PARAMS.initial_quantile)
    assert usual / double == pytest.approx(2)
    assert double / fourfold == pytest.approx(2)


def test_leads_shorter_than_the_spans_foreseen_make_no_difference() -> None:
    theta = initial_theta(PARAMS)
    told = [quantiles(theta, lead_s=lead_s, params=PARAMS) for lead_s in (0.0, 5.0, 30.0)]
    assert told[0] == told[1] == told[2]


def test_replicas_are_kept_up_to_a_higher_quantile_than_new_ones_are_asked_for() -> None:
    to_grow, to_keep = quantiles(1.0, lead_s=75.0, params=PARAMS)
    assert math.log((1 - to_grow) / (1 - to_keep)) == pytest.approx(PARAMS.kept_headroom)
