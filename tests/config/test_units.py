"""Durations and sizes as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.config.units import format_bytes, format_duration, parse_bytes, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        pytest.param("500ms", 0.5, id="milliseconds"),
        pytest.param("2s", 2.0, id="seconds"),
        pytest.param("0.25s", 0.25, id="fraction"),
        pytest.param("1m30s", 90.0, id="compound"),
        pytest.param("1h", 3600.0, id="hours"),
        pytest.param("2d", 172800.0, id="days"),
        pytest.param("41.4ns", 4.14e-08, id="nanoseconds"),
        pytest.param("10us", 1e-05, id="microseconds"),
        pytest.param("0s", 0.0, id="zero"),
    ],
)
def test_durations_are_read_in_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("5", id="no unit"),
        pytest.param("2 s", id="space"),
        pytest.param("-1s", id="negative"),
        pytest.param("1e3s", id="exponent"),
        pytest.param("s", id="no number"),
        pytest.param("1.s", id="no digit after the point"),
        pytest.param("5 minutes", id="words"),
        pytest.param("1s\n", id="line end"),
        pytest.param("1s" * 100, id="endless"),
        pytest.param("٣s", id="other digits"),
    ],
)
def test_other_text_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        pytest.param(0.05, "50ms", id="milliseconds"),
        pytest.param(90.0, "1m30s", id="compound"),
        pytest.param(2.5, "2.5s", id="fraction"),
        pytest.param(0.0, "0s", id="zero"),
        pytest.param(86400.0, "1d", id="a day"),
    ],
)
def test_durations_are_written_short(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.floats(min_value=1e-9, max_value=1e8, allow_nan=False).map(lambda seconds: round(seconds, 12)))
def test_a_written_duration_reads_as_the_same_number(seconds: float) -> None:
    assert parse_duration(format_duration(seconds)) == seconds


@pytest.mark.parametrize(
    ("text", "count"),
    [
        pytest.param("1024", 1024, id="plain"),
        pytest.param("500k", 500_000, id="decimal"),
        pytest.param("64Mi", 64 * 2**20, id="as Kubernetes writes it"),
        pytest.param("64MiB", 64 * 2**20, id="with B"),
        pytest.param("2GB", 2 * 10**9, id="gigabytes"),
    ],
)
def test_sizes_are_read_in_bytes(text: str, count: int) -> None:
    assert parse_bytes(text) == count


@pytest.mark.parametrize("text", ["", "64 MiB", "-1k", "1.5M", "64mb", "B"])
def test_other_text_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="not a size"):
        parse_bytes(text)


@given(st.integers(min_value=0, max_value=2**45))
def test_a_written_size_reads_as_the_same_number(count: int) -> None:
    assert parse_bytes(format_bytes(count)) == count
