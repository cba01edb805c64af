"""Mean rates over windows, the largest rates, and the scale they are compared on."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
)
from predictors.timeline import Timeline, advance

NAN = math.nan


def after(rates: Sequence[float | None], *, interval_s: float = 15.0) -> Timeline:
    """The timeline after one rate an interval; None is a gap."""
    timeline = Timeline.empty()
    for index, rate_rps in enumerate(rates):
        if rate_rps is not None:
            end_s = interval_s * (index + 1)
            timeline = advance(timeline, end_s=end_s, span_s=interval_s, rate_rps=rate_rps)[-1].timeline
    return timeline


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        pytest.param([8.0], [8, NAN, NAN, NAN, NAN, NAN, NAN], id="one bin fills the shortest"),
        pytest.param([0.0, 8.0, 4.0, 8.0], [8, 6, 5, NAN, NAN, NAN, NAN], id="one minute"),
        pytest.param([*[2.0] * 116, 6.0, 6.0, 6.0, 6.0], [6, 6, 6, 4, 2.8, 2.4, 2 + 2 / 15], id="half an hour"),
        pytest.param([2.0, None, 2.0, 8.0], [8, 5, NAN, NAN, NAN, NAN, NAN], id="a short window forgives no bin"),
        pytest.param([*[2.0] * 6, None, 2.0], [2, NAN, NAN, 2, NAN, NAN, NAN], id="a longer one forgives a fifth"),
        pytest.param([*[2.0] * 5, None, None, 2.0], [2, NAN, NAN, NAN, NAN, NAN, NAN], id="and no more"),
        pytest.param([0.0] * 120, [0, 0, 0, 0, 0, 0, 0], id="zero is known"),
    ],
)
def test_levels(rates: list[float | None], expected: list[float]) -> None:
    np.testing.assert_allclose(levels_rps([after(rates)])[0], expected)


@pytest.mark.parametrize("seconds", [1800, 1803, 1811, 1814])
def test_a_window_ends_now_not_at_the_last_boundary(seconds: int) -> None:
    """Known second by second: exact at the new end, linear inside the bin that a window's begin lies in."""
    rates = np.random.default_rng(seconds).uniform(0.0, 100.0, seconds).tolist()
    timeline = after(rates, interval_s=1.0)
    for window_s, level in zip(LEVEL_WINDOWS_S[:-1], levels_rps([timeline])[0], strict=False):
        begin = seconds - int(window_s)
        whole = (begin // 15 + 1) * 15
        oldest = np.mean(rates[begin // 15 * 15 : whole])
        expected = (oldest * (whole - begin) + sum(rates[whole:seconds])) / window_s
        assert level == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_peaks_are_the_largest_minutes_of_full_windows() -> None:
    minutes = [float(minute % 50) for minute in range(1, 121)]
    timeline = after(minutes, interval_s=60.0)
    expected = [max(minutes[-10:]), max(minutes[-30:]), max(minutes), NAN, NAN]
    np.testing.assert_allclose(peaks_rps([timeline])[0], expected)
    assert len(PEAK_WINDOWS_S) == len(expected)
    assert largest_rps([timeline]).tolist() == [49.0]


def test_a_peak_survives_a_gap_as_long_as_four_fifths_are_known() -> None:
    known: list[float | None] = [*[5.0] * 7, 30.0, None, None]
    np.testing.assert_allclose(peaks_rps([after([*known[2:], 5.0, 5.0], interval_s=60.0)])[0, 0], 30.0)
    assert math.isnan(peaks_rps([after([*known[2:], None, 5.0], interval_s=60.0)])[0, 0])


def test_nothing_known_has_no_levels_no_peaks_and_a_ceiling_of_nothing() -> None:
    timeline = Timeline.empty()
    assert largest_rps([timeline]).tolist() == [0.0]
    assert np.isnan(peaks_rps([timeline])).all()
    assert float(ceiling_log(np.zeros(1), np.array([NAN]))[0]) == pytest.approx(math.log(FLOOR_RPS))


@pytest.mark.parametrize(("past", "present", "largest"), [(8.0, 3.0, 16.0), (8.0, 11.0, 22.0), (8.0, NAN, 16.0)])
def test_ceiling(past: float, present: float, largest: float) -> None:
    assert from_log(ceiling_log(np.array(past), np.array(present)).item()) == pytest.approx(largest)


@given(rate_rps=st.floats(0.0, 1e9))
def test_the_scale_is_undone(rate_rps: float) -> None:
    again = from_log(float(to_log(np.array(rate_rps))))
    assert again == pytest.approx(rate_rps, rel=1e-9, abs=1e-9) or (again == 0.0 and rate_rps < FLOOR_RPS * 1.001)
