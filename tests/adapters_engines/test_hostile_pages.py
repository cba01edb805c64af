"""Whatever a server sends, reading it ends in a reading with sensible values or in a reason; never in an exception."""

from __future__ import annotations

import math
from dataclasses import fields

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapters.engines.page_reader import PageReader
from adapters.engines.signals import MAX_COUNT, MAX_FRACTION
from autoscaler.domain.reading import EngineReading, Histogram, Unknown, UnknownReason
from autoscaler.domain.service import Engine

NAMES = (
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "vllm:kv_cache_usage_perc",
    "vllm:gpu_cache_usage_perc",
    "vllm:request_success_total",
    "vllm:prompt_tokens_total",
    "vllm:engine_sleep_state",
    "vllm:cache_config_info",
    "vllm:time_to_first_token_seconds_bucket",
    "vllm:time_to_first_token_seconds_count",
    "vllm:time_to_first_token_seconds_sum",
    "process_start_time_seconds",
    "python_info",
    "tgi_queue_size",
)
LABELS = ('engine="0"', 'engine="1"', 'model_name="m"', 'le="0.1"', 'le="+Inf"', 'le="x"', 'pid="3"', 'tp_rank="1"')
VALUES = ("0", "1", "2.5", "0.5", "1.0000001", "-1", "NaN", "+Inf", "-Inf", "1e300", "9007199254740993", "x", "")


def assert_sensible(answer: EngineReading | Unknown) -> None:
    if isinstance(answer, Unknown):
        assert answer.detail
        return
    for field in fields(answer):
        value = getattr(answer, field.name)
        if isinstance(value, Histogram):
            assert all(0 <= count <= value.count for count in value.counts)
            assert list(value.counts) == sorted(value.counts)
            assert list(value.bounds) == sorted(set(value.bounds))
            assert value.count <= MAX_COUNT
            assert 0 <= value.total < math.inf
        elif isinstance(value, float) and field.name != "at_s":
            assert 0 <= value <= (MAX_FRACTION if field.name == "kv_fraction" else 3 * MAX_COUNT)


@st.composite
def lines(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(NAMES))
    if draw(st.integers(0, 9)) == 0:
        return f"# TYPE {name} {draw(st.sampled_from(['counter', 'gauge', 'histogram', 'nonsense']))}"
    labels = ",".join(draw(st.lists(st.sampled_from(LABELS), max_size=2, unique=True)))
    return f"{name}{{{labels}}} {draw(st.sampled_from(VALUES))}"


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    pages=st.lists(st.lists(lines(), max_size=12).map("\n".join), min_size=1, max_size=3),
    engine=st.sampled_from(Engine),
)
def test_any_mixture_of_series(pages: list[str], engine: Engine) -> None:
    required = 'vllm:num_requests_running{engine="9"} 1\nvllm:num_requests_waiting{engine="9"} 1\n'
    reader = PageReader()
    for page in pages:
        for body in (page + "\n", required + page + "\n"):
            assert_sensible(reader.read(body.encode(), replica="r", at_s=1.0, engine=engine))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(body=st.binary(max_size=200))
def test_any_bytes(body: bytes) -> None:
    assert_sensible(PageReader().read(body, replica="r", at_s=1.0))


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    edits=st.lists(
        st.tuples(st.integers(0, 52_000), st.binary(max_size=4), st.integers(0, 4)), min_size=1, max_size=20
    ),
    data=st.data(),
)
def test_a_damaged_real_page(overloaded_page: bytes, edits: list[tuple[int, bytes, int]], data: st.DataObject) -> None:
    reader = PageReader()
    sound = reader.read(overloaded_page, replica="r", at_s=1.0)
    page = overloaded_page
    for at, put, cut in edits:
        page = page[:at] + put + page[at + cut :]
    page = page[: data.draw(st.integers(0, len(page)))] if data.draw(st.booleans()) else page
    assert_sensible(reader.read(page, replica="r", at_s=1.0))
    assert reader.read(overloaded_page, replica="r", at_s=1.0) == sound


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        pytest.param(b'{"iter": 1, "gpuMemUsage": 5}', UnknownReason.WRONG_CONTENT, id="JSON object"),
        pytest.param(b'[{"iter": 1}]\n', UnknownReason.WRONG_CONTENT, id="JSON list"),
        pytest.param(b"[]", UnknownReason.WRONG_CONTENT, id="empty JSON list"),
        pytest.param(b"<!DOCTYPE html>\n<html></html>\n", UnknownReason.WRONG_CONTENT, id="HTML"),
        pytest.param(b"{" * 100_000, UnknownReason.MALFORMED_PAGE, id="open braces"),
        pytest.param(b"[" * 100_000, UnknownReason.MALFORMED_PAGE, id="open brackets"),
        pytest.param(bytes(range(256)) * 10, UnknownReason.MALFORMED_PAGE, id="binary"),
        pytest.param(b"\x00" * 1000 + b"\n", UnknownReason.MALFORMED_PAGE, id="NULs"),
        pytest.param(b"", UnknownReason.EMPTY_PAGE, id="empty"),
        pytest.param(b"\n" * 1000, UnknownReason.EMPTY_PAGE, id="blank"),
        pytest.param(b"Internal Server Error\n", UnknownReason.MALFORMED_PAGE, id="prose"),
        pytest.param(b"x 1\n" * 1_000_000, UnknownReason.PAGE_TOO_LARGE, id="a million lines"),
        pytest.param(
            b'vllm:num_requests_running{a="' + b"\\" * 100_000 + b'"} 1\n', UnknownReason.PAGE_TOO_LARGE, id="long line"
        ),
    ],
)
def test_what_is_no_metrics_page(body: bytes, reason: UnknownReason) -> None:
    for engine in Engine:
        answer = PageReader().read(body, replica="r", at_s=0.0, engine=engine)
        assert isinstance(answer, Unknown)
        assert answer.reason is reason


@pytest.mark.parametrize("end", [0.1, 0.5, 0.9, 0.999])
def test_a_page_cut_inside_a_line_is_unknown(overloaded_page: bytes, end: float) -> None:
    cut = overloaded_page[: int(len(overloaded_page) * end)].rstrip(b"\n")
    answer = PageReader().read(cut, replica="r", at_s=0.0)
    assert isinstance(answer, Unknown)
    assert answer.reason is UnknownReason.MALFORMED_PAGE
