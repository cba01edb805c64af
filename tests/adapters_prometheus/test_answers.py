"""Whatever comes back from the address of a Prometheus is series or a reason, never an exception."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.prometheus.answers import RangedSeries, read_answer
from adapters.prometheus.promql import literal, one_of
from adapters.prometheus.scrapes import Scrape, latest_scrape, targets_of
from autoscaler.domain.reading import Unknown

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(10**400) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
SERIES = st.fixed_dictionaries(
    {"metric": st.dictionaries(st.sampled_from(["__name__", "job", "pod", "le"]), ANYTHING, max_size=3) | ANYTHING},
    optional={"values": st.lists(st.tuples(ANYTHING, ANYTHING), max_size=3) | ANYTHING, "histograms": ANYTHING},
)
ANSWERS = st.fixed_dictionaries(
    {"status": st.sampled_from(["success", "error"]) | ANYTHING},
    optional={
        "data": st.fixed_dictionaries({"resultType": st.just("matrix"), "result": st.lists(SERIES, max_size=3)})
        | ANYTHING,
        "warnings": ANYTHING,
        "error": ANYTHING,
    },
)


@given(ANSWERS.map(json.dumps).map(str.encode) | st.binary(max_size=200))
def test_anything_is_series_or_a_reason(body: bytes) -> None:
    answer = read_answer(body)
    if isinstance(answer, Unknown):
        assert len(answer.detail) <= 300
        return
    assert all(float(value) is not None for series in answer for _, value in series.samples)
    scrape = latest_scrape(targets_of(answer, ()), address=None, replica_labels=(), now_s=1000.0)
    if isinstance(scrape, Scrape):
        assert scrape.page.count(b"\n") == scrape.samples


@pytest.mark.parametrize(
    "value",
    [pytest.param(value, id=repr(value)) for value in ("0", "1.5e+06", "NaN", "+Inf", "-Inf", "1e-9")],
)
def test_numbers_come_through_as_they_are_written(value: str) -> None:
    sample = {"metric": {"__name__": "a", "b": "c"}, "values": [[1.25, value]]}
    body = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": [sample]}}).encode()
    assert read_answer(body) == (RangedSeries("a", {"b": "c"}, ((1.25, value),)),)


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        pytest.param("10.0.0.1:8000", r"10\.0\.0\.1:8000", id="address"),
        pytest.param("[::1]:8000", r"\[::1\]:8000", id="IPv6"),
        pytest.param("chat-0", "chat-0", id="pod"),
        pytest.param(r"a\b|c", r"a\\b\|c", id="special"),
    ],
)
def test_texts_as_patterns(text: str, pattern: str) -> None:
    assert literal(text) == pattern
    assert one_of("l", [text]) == 'l=~"' + pattern.replace("\\", "\\\\") + '"'
