"""Formulas of arrival rates."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtests.rates import RateProfile, bursts, diurnal, parse_formula, ramp, steps


def rate_at(profile: RateProfile, at_s: float) -> float:
    return profile.rps[int(np.searchsorted(profile.edges_s, at_s, side="right")) - 1]


@pytest.mark.parametrize(
    ("profile", "rates", "expected"),
    [
        pytest.param(steps((2, 30), (8, 60)), {0: 2, 29.9: 2, 30: 8, 89: 8}, 2 * 30 + 8 * 60, id="steps"),
        pytest.param(ramp(start_rps=0, end_rps=10, duration_s=100), {25.25: 2.525, 99.75: 9.975}, 500, id="ramp"),
        pytest.param(
            diurnal(low_rps=2, high_rps=10, period_s=40, duration_s=80),
            {0.25: 2.0, 20.25: 10.0, 40.25: 2.0},
            6 * 80,
            id="two days",
        ),
        pytest.param(
            bursts(base_rps=1, peak_rps=11, every_s=10, length_s=2, duration_s=30),
            {0: 1, 7.9: 1, 8: 11, 9.9: 11, 10: 1, 28: 11},
            30 + 3 * 2 * 10,
            id="bursts",
        ),
    ],
)
def test_formulas(profile: RateProfile, rates: dict[float, float], expected: float) -> None:
    assert {at_s: rate_at(profile, at_s) for at_s in rates} == pytest.approx(rates, rel=0.01)
    assert profile.expected() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        pytest.param("steps:2x30,8x60", steps((2, 30), (8, 60)), id="steps"),
        pytest.param("ramp:from=1,to=9,for=60", ramp(start_rps=1, end_rps=9, duration_s=60), id="ramp"),
        pytest.param(
            "diurnal:low=2,high=9,period=60,for=180",
            diurnal(low_rps=2, high_rps=9, period_s=60, duration_s=180),
            id="diurnal",
        ),
        pytest.param(
            "bursts:base=2,peak=12,every=30,length=5,for=90",
            bursts(base_rps=2, peak_rps=12, every_s=30, length_s=5, duration_s=90),
            id="bursts",
        ),
    ],
)
def test_formulas_as_typed(text: str, same: RateProfile) -> None:
    assert parse_formula(text) == same


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("wave:1", "no formula 'wave'", id="unknown"),
        pytest.param("steps:", "formula 'steps:'", id="empty"),
        pytest.param("steps:2", "formula 'steps:2'", id="no duration"),
        pytest.param("steps:-1x10", "at least 0", id="negative rate"),
        pytest.param("ramp:from=1,to=2", "ramp takes from, to, for", id="key missing"),
        pytest.param("ramp:from=1,to=x,for=3", "could not convert", id="not a number"),
        pytest.param("ramp:from=1,to=2,for=0", "above 0 seconds", id="no time"),
        pytest.param("bursts:base=1,peak=2,every=5,length=5,for=10", "shorter than its period", id="one long burst"),
        pytest.param("diurnal:low=1,high=2,period=0,for=10", "period", id="day of no length"),
    ],
)
def test_bad_formula_is_named_with_the_right_forms(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=r"steps:2x30,8x60") as caught:
        parse_formula(text)
    assert says in str(caught.value)


@given(
    parts=st.lists(st.tuples(st.floats(0, 20), st.floats(0.5, 50)), min_size=1, max_size=6),
    counts=st.lists(st.floats(0, 500), max_size=20).map(sorted),
)
def test_times_of_counts_invert_the_expected_count(parts: list[tuple[float, float]], counts: list[float]) -> None:
    """At the time of a count the rates so far add up to that count; counts beyond the end have no time."""
    profile = steps(*parts)
    times = profile.times_of(np.array(counts))
    assert len(times) == sum(count < profile.expected() for count in counts)
    for at_s, count in zip(times.tolist(), counts, strict=False):
        spans = np.clip(at_s - np.array(profile.edges_s[:-1]), 0, np.diff(profile.edges_s))
        assert float(spans @ np.array(profile.rps)) == pytest.approx(count, abs=1e-6)
