"""Numbers in the notation of Kubernetes."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.serving.external.quantity import quantity


def read(text: str) -> Fraction:
    """A whole number or thousandths."""
    match = re.fullmatch(r"(-?[0-9]+)(m?)", text)
    assert match is not None, text
    return Fraction(int(match[1]), 1000 if match[2] else 1)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (3.0, "3"),
        (12.5, "12500m"),
        (0.001, "1m"),
        (0.0001, "1m"),
        (1.0001, "1001m"),
        (2.3, "2300m"),
        (1.005, "1005m"),
        (0.1 + 0.2, "301m"),
        (1e6, "1000000"),
        (-1.5, "-1500m"),
        (-0.0001, "0"),
    ],
)
def test_examples(value: float, text: str) -> None:
    assert quantity(value) == text


@given(st.floats(min_value=-1e15, max_value=1e15))
def test_never_below_the_value_and_less_than_a_thousandth_above(value: float) -> None:
    exact = Fraction(repr(value))
    assert exact <= read(quantity(value)) < exact + Fraction(1, 1000)


@given(st.integers(min_value=0, max_value=10**15))
def test_whole_numbers_stay_as_they_are(value: int) -> None:
    assert quantity(float(value)) == str(value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), 1e16, -1e300])
def test_what_can_not_be_told(value: float) -> None:
    with pytest.raises(ValueError, match=r"no number|64 bits"):
        quantity(value)
