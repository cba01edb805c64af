"""Triton's pages: a real one of a batch server, older versions, several models, and the TensorRT-LLM backend."""

from __future__ import annotations

import pytest

from autoscaler.domain.reading import Histogram, Unknown, UnknownReason
from autoscaler.domain.service import Engine
from tests.adapters_engines.known import SCRAPES, known, read, reason, refused, without

LOADED = (SCRAPES / "triton_cpu_loaded.prom").read_text()
TRTLLM_ENSEMBLE = (SCRAPES / "triton_trtllm_ensemble.prom").read_text()


def test_a_batch_server_under_forty_callers() -> None:
    """A model of 50 ms and batches up to 8: 211 answered, 32 pending, 8 in execution on no gauge."""
    reading = read(LOADED)
    assert reading.engine == Engine.TRITON
    assert known(reading) == {
        "waiting": 32,
        "pending": 32,
        "completed": 211,
        "refused": 0,
        "arrivals_stock": 243,  # 211 + 0 + 32
        "exec_count": 28,
        "exec_items": 211,
        "exec_sum_s": 11.07202,  # 46837 + 10915407 + 109776 us
        "e2e": (211, 54.744414),
        "queue_time": (211, 43.669696),
    }
    assert reading.batch_mean == 211 / 28
    assert isinstance(reading.exec_sum_s, float)
    assert reading.exec_sum_s / 211 == pytest.approx(0.0525, abs=1e-3)


def test_a_count_and_a_sum_have_a_mean_and_no_shares() -> None:
    queue_time = read(LOADED).queue_time
    assert isinstance(queue_time, Histogram)
    assert queue_time.mean() == 43.669696 / 211
    assert isinstance(queue_time.share_within(1.0), Unknown)
    assert isinstance(queue_time.quantile(0.5), Unknown)


def test_before_23_09_completions_alone_are_no_arrivals() -> None:
    reading = read(without(LOADED, "pending_request_count"))
    assert reading.completed == 211
    assert reason(reading, "arrivals_stock") is UnknownReason.MISSING_SERIES
    assert isinstance(reading.waiting, Unknown)
    assert "from 23.09" in reading.waiting.detail


def test_before_24_07_refusals_are_not_told_apart() -> None:
    page = without(LOADED, 'reason="') + 'nv_inference_request_failure{model="dbl",version="1"} 6\n'
    reading = read(page)
    assert reason(reading, "refused") is UnknownReason.MISSING_SERIES
    assert reading.arrivals_stock == 249  # 211 + 6 + 32


def test_failures_of_every_reason_are_arrivals_and_rejected_ones_refused() -> None:
    page = LOADED.replace('reason="REJECTED",version="1"} 0', 'reason="REJECTED",version="1"} 5').replace(
        'reason="CANCELED",version="1"} 0', 'reason="CANCELED",version="1"} 2'
    )
    reading = read(page)
    assert (reading.refused, reading.arrivals_stock) == (5, 250)


def test_counters_that_stay_zero_while_requests_wait_are_no_measure_of_arrivals() -> None:
    """What ``counter_latencies=false`` does to every counter, and the moment before the first answer."""
    page = LOADED.replace("} 211", "} 0").replace("} 28", "} 0")
    reading = read(page)
    assert reason(reading, "arrivals_stock") is UnknownReason.CONTRADICTION
    assert reading.waiting == 32
    assert isinstance(reading.batch_mean, Unknown)
    assert read(page.replace('version="1"} 32', 'version="1"} 0')).arrivals_stock == 0


TWO_MODELS = LOADED + LOADED.replace('"dbl"', '"other"').replace("} 32", "} 3").replace("# TYPE", "# ")


def test_models_add_up_with_a_warning_unless_one_is_named() -> None:
    both = read(TWO_MODELS)
    assert (both.waiting, both.completed) == (35, 422)
    assert len(both.warnings) == 1
    assert "adds up several models: dbl, other" in both.warnings[0]
    assert "ensemble" in both.warnings[0]
    one = read(TWO_MODELS, model="other")
    assert (one.waiting, one.completed, one.warnings) == (3, 211, ())


def test_a_server_without_a_model_tells_no_counts() -> None:
    answer = refused("nv_pinned_memory_pool_used_bytes 0\n# TYPE nv_inference_request_success counter\n")
    assert answer.reason is UnknownReason.MISSING_SERIES
    assert answer.detail == "nv_inference_request_success is declared but has no sample yet (no model is loaded?)"


def test_the_first_response_histogram_is_read_in_seconds() -> None:
    family = "nv_inference_first_response_histogram_ms"
    labels = 'model="dbl",version="1"'
    buckets = "".join([f'{family}_bucket{{{labels},le="{b}"}} {n}\n' for b, n in ((100, 3), (500, 7), ("+Inf", 8))])
    ttft = read(LOADED + buckets + f"{family}_count{{{labels}}} 8\n{family}_sum{{{labels}}} 2500\n").ttft
    assert ttft == Histogram((0.1, 0.5), (3, 7), 8, 2.5)


def test_tensorrt_llm_within_an_ensemble() -> None:
    """140 have left the ensemble and 153 its first step; the batch manager's own model counts none."""
    reading = read(TRTLLM_ENSEMBLE)
    assert reading.engine == Engine.TRITON
    assert known(reading) == {
        "waiting": 5,
        "running": 8,
        "kv_fraction": 0.4875,
        "completed": 140,
        "refused": 0,
        "arrivals_stock": 157,  # 140 + 3 cancelled + 5 + max(8, 9)
        "steps": 8123,
        "e2e": (140, 420.0),
    }
    assert known(read(TRTLLM_ENSEMBLE, model="ensemble")) == known(reading)


def test_tensorrt_llm_without_any_count_is_no_measure_of_arrivals() -> None:
    page = "".join(
        [
            line + "\n" if not line.startswith("nv_inference_request") else line.rsplit(" ", 1)[0] + " 0\n"
            for line in TRTLLM_ENSEMBLE.splitlines()
        ]
    )
    reading = read(page)
    assert reason(reading, "arrivals_stock") is UnknownReason.CONTRADICTION
    assert (reading.waiting, reading.running) == (5, 8)
    idle = page.replace('"waiting",version="1"} 5', '"waiting",version="1"} 0').replace(
        '"scheduled",version="1"} 8', '"scheduled",version="1"} 0'
    )
    assert read(idle.replace('"active",version="1"} 9', '"active",version="1"} 0')).arrivals_stock == 0
