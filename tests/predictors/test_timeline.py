"""Measurements at any moments become bins, minutes and five minutes; nothing is lost and nothing is made up."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictors.timeline import BIN_S, BINS, Timeline, advance, horizon_bins

NAN = math.nan


def after(story: list[tuple[float, float, float]], timeline: Timeline | None = None) -> Timeline:
    """The timeline after (end, span, rate) triples."""
    timeline = timeline or Timeline.empty()
    for end_s, span_s, rate_rps in story:
        for step in advance(timeline, end_s=end_s, span_s=span_s, rate_rps=rate_rps):
            timeline = step.timeline
    return timeline


@pytest.mark.parametrize(
    ("story", "bins"),
    [
        pytest.param([(15, 15, 2.0), (30, 15, 4.0)], [2.0, 4.0], id="one span a bin"),
        pytest.param([(60, 60, 2.0)], [2.0, 2.0, 2.0, 2.0], id="one span over four bins"),
        pytest.param([(5, 5, 3.0), (10, 5, 0.0), (15, 5, 6.0)], [3.0], id="three spans in a bin"),
        pytest.param([(10, 10, 3.0), (25, 15, 6.0), (30, 5, 0.0)], [4.0, 4.0], id="spans across a boundary"),
        pytest.param([(20, 13, 5.0), (30, 10, 5.0)], [NAN, 5.0], id="begun inside a bin"),
        pytest.param([(15, 15, 5.0), (45, 15, 7.0)], [5.0, NAN, 7.0], id="a bin lost"),
        pytest.param([(15, 15, 5.0), (37, 15, 7.0), (45, 8, 7.0)], [5.0, NAN, 7.0], id="a loss across a boundary"),
        pytest.param([(15, 15, 5.0), (30, 14.9, 7.0)], [5.0, 7.0], id="a rounding error is no gap"),
        pytest.param([(15, 15, 5.0), (315, 300, 1.0)], [5.0] + [1.0] * 20, id="a span of five minutes"),
        pytest.param([(15, 15, 5.0), (330, 315, 1.0)], [5.0] + [NAN] * 21, id="a longer span says nothing of bins"),
        pytest.param([(5, 5, -1.0), (15, 10, 2.0)], [1.0], id="netted"),
        pytest.param([(5, 5, -3.0), (15, 10, 0.0)], [0.0], id="still negative"),
        pytest.param([(14.9999999, 14.9999999, 5.0)], [5.0], id="a clock's last digits"),
    ],
)
def test_bins(story: list[tuple[float, float, float]], bins: list[float]) -> None:
    newest = after(story).bins[-len(bins) - 1 :]
    np.testing.assert_allclose(newest, [NAN, *bins])


@given(
    pieces=st.lists(
        st.tuples(st.sampled_from([0, 0, 3000, 100_000]), st.integers(500, 70_000), st.floats(0.0, 1000.0)),
        min_size=1,
        max_size=40,
    )
)
def test_known_bins_hold_the_requests_that_came_in_them(pieces: list[tuple[int, int, float]]) -> None:
    story, end_ms = [], 1_000_000_000
    for gap_ms, span_ms, rate_rps in pieces:
        end_ms += gap_ms + span_ms
        story.append((end_ms / 1000, span_ms / 1000, rate_rps))
    timeline = after(story)
    for age, rate_rps in enumerate(timeline.bins[::-1]):
        bin_end_s = (timeline.closed - age) * BIN_S
        overlaps = [
            (min(end_s, bin_end_s) - max(end_s - span_s, bin_end_s - BIN_S), rate) for end_s, span_s, rate in story
        ]
        known_s = sum(overlap_s for overlap_s, _ in overlaps if overlap_s > 0)
        requests = sum(overlap_s * rate for overlap_s, rate in overlaps if overlap_s > 0)
        if math.isnan(rate_rps):
            assert known_s < BIN_S - 0.1
        else:
            assert known_s > BIN_S - 0.2
            assert rate_rps == pytest.approx(requests / known_s, rel=1e-6, abs=1e-6)


def test_minutes_and_five_minutes_end_on_the_clock() -> None:
    timeline = after([(600.0 + 15 * index, 15.0, float(index)) for index in range(1, 41)])
    np.testing.assert_allclose(timeline.minutes[-10:], [4 * minute + 2.5 for minute in range(10)])
    np.testing.assert_allclose(timeline.fives[-2:], [10.5, 30.5])


def test_a_minute_needs_all_its_bins_and_five_minutes_four_fifths() -> None:
    told = [index for index in range(1, 21) if index not in (3, 10)]
    timeline = after([(15.0 * index, 15.0, 8.0) for index in told])
    np.testing.assert_allclose(timeline.minutes[-5:], [NAN, 8.0, NAN, 8.0, 8.0])
    np.testing.assert_allclose(timeline.fives[-1:], [8.0])


def test_five_minutes_whose_end_fell_into_a_gap_are_unknown() -> None:
    timeline = after([(15.0 * index, 15.0, 8.0) for index in range(1, 26) if index not in (19, 20, 21)])
    assert math.isnan(timeline.fives[-1])


@pytest.mark.parametrize("gap_s", [3600.0, 86400.0, 40 * 86400.0])
def test_a_long_gap_moves_the_past_by_its_length(gap_s: float) -> None:
    before = after([(300.0 * index, 300.0, float(index)) for index in range(1, 2100)])
    timeline = after([(before.end_s + gap_s + 300, 300.0, 5.0)], before)
    lost = min(int(gap_s / 300), len(timeline.fives) - 1)
    np.testing.assert_allclose(timeline.fives[-1], 5.0)
    assert np.isnan(timeline.fives[-1 - lost : -1]).all()
    kept = len(timeline.fives) - 1 - lost
    np.testing.assert_allclose(timeline.fives[:kept], before.fives[len(before.fives) - kept :])


def test_a_gap_passes_in_one_step() -> None:
    timeline = after([(15.0, 15.0, 1.0)])
    steps = advance(timeline, end_s=15.0 * 1001, span_s=15.0, rate_rps=1.0)
    assert [step.bins for step in steps] == [999, 1, 0]
    assert np.isnan(steps[0].timeline.bins[-BINS:]).all()


@pytest.mark.parametrize(
    ("lead_s", "bins"), [(0.0, 0), (7.0, 0), (8.0, 1), (60.0, 4), (67.0, 4), (300.0, 20), (3600.0, 240), (1e9, 240)]
)
def test_horizon(lead_s: float, bins: int) -> None:
    assert horizon_bins(lead_s) == bins
