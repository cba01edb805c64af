"""Observations of a histogram at or below a threshold, on one page and between two."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.domain.reading import Histogram

BOUNDS = (0.5, 1.0, 2.0)
# 4 up to 0.5 s, 6 more up to 1 s, 2 more up to 2 s, 3 beyond.
PAGE = Histogram(BOUNDS, (4.0, 10.0, 12.0), 15.0, 20.0)


@pytest.mark.parametrize(
    ("threshold", "within"),
    [
        pytest.param(0.25, 2.0, id="half of the first bucket"),
        pytest.param(0.5, 4.0, id="on a bound"),
        pytest.param(0.75, 7.0, id="inside a bucket"),
        pytest.param(2.0, 12.0, id="on the last bound"),
        pytest.param(9.0, 12.0, id="beyond the last bound at least those below it"),
        pytest.param(-1.0, 0.0, id="below all"),
    ],
)
def test_observations_within_a_threshold(threshold: float, within: float) -> None:
    assert PAGE.within(threshold) == within
    nothing = Histogram(BOUNDS, (0.0, 0.0, 0.0), 0.0, 0.0)
    assert PAGE.within_since(nothing, threshold) == within
    assert PAGE.within_since(PAGE, threshold) == 0


@given(
    counts=st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=4, max_size=4),
    threshold=st.floats(0.0, 4.0),
)
def test_between_two_pages_it_is_what_came(counts: list[tuple[int, int]], threshold: float) -> None:
    before = list(accumulate(float(one) for one, _ in counts))
    after = [then + more for then, more in zip(before, accumulate(float(more) for _, more in counts), strict=True)]
    then = Histogram(BOUNDS, tuple(before[:-1]), before[-1], 1.0)
    now = Histogram(BOUNDS, tuple(after[:-1]), after[-1], 2.0)
    assert now.within_since(then, threshold) == pytest.approx(now.within(threshold) - then.within(threshold))
