"""The lead time from start-up times, measured and under way."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictors.startup import StartupTimes

seconds = st.floats(0.0, 3600.0)
samples = st.lists(seconds, max_size=40)


def lead_time_s(starts_s: list[float], still_starting_s: list[float], assumed_s: float = 120.0) -> float:
    return StartupTimes().lead_time_s(starts_s=starts_s, still_starting_s=still_starting_s, assumed_s=assumed_s)


@pytest.mark.parametrize(
    ("starts_s", "still_starting_s", "expected_s"),
    [
        pytest.param([], [], 120.0, id="nothing measured: the assumption"),
        pytest.param([45.0], [], 45.0, id="one start replaces it"),
        pytest.param([], [30.0], 120.0, id="under way for less than assumed"),
        pytest.param([], [150.0, 180.0], 180.0, id="under way for longer than assumed"),
        pytest.param([40.0, 60.0, 50.0], [], 60.0, id="few: the longest"),
        pytest.param([10.0 * n for n in range(1, 12)], [], 100.0, id="eleven: the tenth"),
        pytest.param([10.0 * n for n in range(1, 11)], [], 91.0, id="ten: between two"),
        pytest.param([60.0] * 20, [300.0], 60.0, id="one straggler among many"),
        pytest.param([60.0] * 20, [300.0] * 5, 300.0, id="many stragglers"),
        pytest.param(
            [60.0] * 20, [300.0] * 3 + [5.0] * 30, 252.0, id="those that say nothing do not dilute stragglers"
        ),
        pytest.param([60.0] * 3, [300.0], 300.0, id="a straggler among few"),
        pytest.param([60.0] * 20, [59.0] * 50, 60.0, id="starts under way that say nothing yet"),
    ],
)
def test_lead_time(starts_s: list[float], still_starting_s: list[float], expected_s: float) -> None:
    assert lead_time_s(starts_s, still_starting_s) == pytest.approx(expected_s)


@given(starts=samples, still=samples, more=seconds)
def test_a_start_under_way_never_lowers_it(starts: list[float], still: list[float], more: float) -> None:
    assert lead_time_s(starts, still) >= lead_time_s(starts, [])
    assert lead_time_s(starts, [*still, more]) >= lead_time_s(starts, []) - 1e-9


@given(starts=st.lists(seconds, min_size=1, max_size=40), still=samples)
def test_it_lies_within_what_was_seen(starts: list[float], still: list[float]) -> None:
    found = lead_time_s(starts, still)
    assert min(starts) - 1e-9 <= found <= max([*starts, *still]) + 1e-9
    assert sum(start <= found + 1e-9 for start in starts) >= 0.9 * len(starts) - 1


@given(starts=samples, still=samples, factor=st.floats(1.0, 10.0))
def test_slower_starts_never_give_a_shorter_one(starts: list[float], still: list[float], factor: float) -> None:
    slower = lead_time_s([factor * start for start in starts], still)
    assert slower >= lead_time_s(starts, []) - 1e-9


@pytest.mark.parametrize(
    ("starts_s", "still_starting_s", "assumed_s", "named"),
    [
        ([-1.0], [], 1.0, "starts_s"),
        ([math.nan], [], 1.0, "starts_s"),
        ([], [math.inf], 1.0, "still_starting_s"),
        ([], [], -5.0, "assumed_s"),
    ],
)
def test_impossible_times_are_refused(
    starts_s: list[float], still_starting_s: list[float], assumed_s: float, named: str
) -> None:
    with pytest.raises(ValueError, match=f"{named} must be finite and >= 0"):
        lead_time_s(starts_s, still_starting_s, assumed_s)
