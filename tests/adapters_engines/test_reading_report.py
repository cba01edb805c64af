"""What `read` shows of a page: every signal, with its series or the reason for none, as a value and as JSON."""

from __future__ import annotations

import io
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web

from adapters.engines.fetched import FetchedPage
from adapters.engines.page_source import fetch_source
from adapters.engines.reading_report import PageReport, SignalReport, report_page, to_json
from autoscaler.domain.reading import Unknown, UnknownReason
from autoscaler.domain.service import Engine

Serve = Callable[[Callable[[web.Request], Awaitable[web.StreamResponse]]], str]

SIGNALS = [
    *("waiting", "running", "kv_fraction", "completed", "refused", "prompt_tokens", "generation_tokens"),
    *(
        "ttft_count",
        "ttft_sum_s",
        "itl_count",
        "itl_sum_s",
        "request_itl_count",
        "request_itl_sum_s",
        "e2e_count",
        "e2e_sum_s",
    ),
    *("queue_time_count", "queue_time_sum_s", "arrivals_stock"),
    *("pending", "exec_count", "batch_mean"),
    *("exec_items", "exec_sum_s", "steps", "kv_capacity_tokens", "kv_block_tokens"),
    *("preemptions", "started_s", "asleep"),
]
SMALL = b'vllm:num_requests_running{model_name="m"} 4\nvllm:num_requests_waiting{model_name="m"} NaN\n'


def signal(report: PageReport, name: str) -> SignalReport:
    (found,) = [one for one in report.signals if one.name == name]
    return found


@pytest.mark.parametrize(
    ("name", "value", "unit", "series"),
    [
        ("waiting", 272, "requests", ['vllm:num_requests_waiting{engine="0",model_name="org/tiny"}']),
        ("running", 128, "requests", ['vllm:num_requests_running{engine="0",model_name="org/tiny"}']),
        (
            "kv_fraction",
            0.031253815162983756,
            "fraction",
            ['vllm:kv_cache_usage_perc{engine="0",model_name="org/tiny"}'],
        ),
        ("generation_tokens", 24336, "tokens", ['vllm:generation_tokens_total{engine="0",model_name="org/tiny"}']),
        ("ttft_count", 129, "requests", ['vllm:time_to_first_token_seconds_count{engine="0",model_name="org/tiny"}']),
        (
            "ttft_sum_s",
            39.59587240219116,
            "s",
            ['vllm:time_to_first_token_seconds_sum{engine="0",model_name="org/tiny"}'],
        ),
        ("started_s", 1796046398.05, "s", ["process_start_time_seconds"]),
        (
            "asleep",
            0,
            "flag",
            ['vllm:engine_sleep_state{engine="0",model_name="org/tiny",sleep_state="awake"}'],
        ),
    ],
)
def test_the_overloaded_page_as_json(
    overloaded_page: bytes, name: str, value: float, unit: str, series: list[str]
) -> None:
    plain = json.loads(to_json(report_page(FetchedPage(overloaded_page, "text/plain; version=0.0.4"))))
    assert list(plain) == ["engine", "signals", "devices", "warnings"]
    assert (plain["engine"], plain["devices"], plain["warnings"]) == ("vllm", [], [])
    assert list(plain["signals"]) == SIGNALS
    assert plain["signals"][name] == {"value": value, "unit": unit, "series": series}
    assert type(plain["signals"][name]["value"]) is type(value)


def test_arrivals_name_all_series_they_are_made_of(overloaded_page: bytes) -> None:
    arrivals = signal(report_page(FetchedPage(overloaded_page)), "arrivals_stock")
    assert arrivals.value == 401
    families = {series.partition("{")[0] for series in arrivals.series}
    assert families == {
        "vllm:num_requests_waiting",
        "vllm:num_requests_running",
        "vllm:request_success_total",
        "vllm:time_to_first_token_seconds_count",
    }


def test_one_unknown_signal_leaves_the_others() -> None:
    report = report_page(FetchedPage(SMALL))
    assert report.engine is Engine.VLLM
    assert signal(report, "running").value == 4
    plain = json.loads(to_json(report))["signals"]
    assert plain["waiting"] == {"unknown": 'NotANumber: vllm:num_requests_waiting{model_name="m"} is NaN'}
    assert plain["ttft_count"] == {"unknown": "MissingSeries: no vllm:time_to_first_token_seconds on the page"}
    assert list(plain["asleep"]) == ["unknown"]


def test_an_old_name_in_use_is_a_warning() -> None:
    report = report_page(FetchedPage(SMALL + b"vllm:gpu_cache_usage_perc 0.5\n"))
    assert signal(report, "kv_fraction").series == ("vllm:gpu_cache_usage_perc",)
    assert report.warnings == ("vllm:gpu_cache_usage_perc is an old name of vllm:kv_cache_usage_perc",)


def test_a_sleeping_engine_is_flagged() -> None:
    page = SMALL + b'vllm:engine_sleep_state{sleep_state="awake"} 0\n'
    assert json.loads(to_json(report_page(FetchedPage(page))))["signals"]["asleep"]["value"] == 1


@pytest.mark.parametrize(
    ("page", "engine", "said"),
    [
        pytest.param(FetchedPage(b""), "unknown", "EmptyPage", id="empty"),
        pytest.param(FetchedPage(b"[]", "application/json"), "unknown", "/prometheus/metrics", id="JSON by its type"),
        pytest.param(FetchedPage(b'[{"iter": 1}]\n'), "unknown", "/prometheus/metrics", id="JSON by its looks"),
        pytest.param(FetchedPage(b"<html>\n", "text/html"), "unknown", "right port", id="HTML"),
        pytest.param(FetchedPage(b"te_queue_size 1\n"), "unknown", "Text Embeddings Inference", id="another engine"),
        pytest.param(FetchedPage(b"a b c\n"), "unknown", "MalformedPage", id="malformed"),
        pytest.param(FetchedPage(b"vllm:num_requests_running 1\n"), "vllm", "num_requests_waiting", id="vLLM, in part"),
        pytest.param(Unknown(UnknownReason.TIMEOUT, "3 s"), "unknown", "Timeout: 3 s", id="nothing fetched"),
    ],
)
def test_a_page_with_nothing_known_is_an_answer(page: FetchedPage | Unknown, engine: str, said: str) -> None:
    plain = json.loads(to_json(report_page(page)))
    assert plain["engine"] == engine
    assert list(plain["signals"]) == SIGNALS
    assert all(said in one["unknown"] for one in plain["signals"].values())
    assert [said in warning for warning in plain["warnings"]] == [True]


def test_a_batch_server_as_json(triton_page: bytes) -> None:
    plain = json.loads(to_json(report_page(FetchedPage(triton_page))))
    assert (plain["engine"], plain["warnings"]) == ("triton", [])
    assert list(plain["signals"]) == SIGNALS
    labels = '{model="dbl",version="1"}'
    pending = {"value": 32, "unit": "requests", "series": [f"nv_inference_pending_request_count{labels}"]}
    assert plain["signals"]["pending"] == plain["signals"]["waiting"] == pending
    assert plain["signals"]["batch_mean"] == {
        "value": 211 / 28,
        "unit": "items",
        "series": [f"nv_inference_count{labels}", f"nv_inference_exec_count{labels}"],
    }
    assert plain["signals"]["queue_time_sum_s"] == {
        "value": 43.669696,
        "unit": "s",
        "series": [f"nv_inference_queue_duration_us{labels}"],
    }
    assert plain["signals"]["queue_time_count"]["series"] == [f"nv_inference_request_success{labels}"]
    assert "only of decoupled models" in plain["signals"]["ttft_count"]["unknown"]


def test_a_signal_made_of_several_names_all_their_series() -> None:
    page = b"sglang:num_running_reqs 1\nsglang:num_queue_reqs 2\nsglang:num_grammar_queue_reqs 3\n"
    waiting = signal(report_page(FetchedPage(page)), "waiting")
    assert (waiting.value, waiting.series) == (5, ("sglang:num_queue_reqs", "sglang:num_grammar_queue_reqs"))


def test_a_page_from_a_file_from_a_pipe_and_from_an_address(tmp_path: Path, serve: Serve) -> None:
    async def handler(_: web.Request) -> web.StreamResponse:
        return web.Response(body=SMALL, content_type="text/plain")

    file = tmp_path / "page.prom"
    file.write_bytes(SMALL.rstrip(b"\n"))  # as an editor may leave it
    nothing = io.BytesIO()
    assert fetch_source(str(file), stdin=nothing) == FetchedPage(SMALL)
    assert fetch_source("-", stdin=io.BytesIO(SMALL)) == FetchedPage(SMALL)
    fetched = fetch_source(serve(handler) + "/metrics", stdin=nothing, timeout_s=30.0)
    assert isinstance(fetched, FetchedPage)
    assert (fetched.body, fetched.content_type) == (SMALL, "text/plain")


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        pytest.param("{tmp}/none.prom", UnknownReason.UNREACHABLE, id="no such file"),
        pytest.param("{tmp}", UnknownReason.UNREACHABLE, id="a folder"),
        pytest.param("a\x00b", UnknownReason.UNREACHABLE, id="no file name"),
        pytest.param("{tmp}/large.prom", UnknownReason.PAGE_TOO_LARGE, id="large file"),
        pytest.param("-", UnknownReason.PAGE_TOO_LARGE, id="endless pipe"),
        pytest.param("http://127.0.0.1:1/metrics", UnknownReason.UNREACHABLE, id="nobody there"),
    ],
)
def test_a_source_that_gives_no_page(tmp_path: Path, source: str, reason: UnknownReason) -> None:
    (tmp_path / "large.prom").write_bytes(b"x 1\n" * 100)
    answer = fetch_source(source.format(tmp=tmp_path), stdin=io.BytesIO(b"x 1\n" * 100), max_bytes=100)
    assert isinstance(answer, Unknown)
    assert answer.reason is reason
