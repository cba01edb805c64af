"""What moves on a page whenever it is made anew, load or none: without it a page served again looks idle for ever."""

from __future__ import annotations

import pytest

from autoscaler.domain.reading import UnknownReason
from tests.adapters_engines.known import SCRAPES, read, reason, without

CPU_TIME = "process_cpu_seconds_total 12.34\nprocess_start_time_seconds 1.7e9\n"


def page(name: str) -> str:
    return (SCRAPES / f"{name}.prom").read_text()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param(page("vllm_0.32_cpu_overloaded"), 12.35, id="vLLM as it is"),
        pytest.param(page("sglang_dp2_tp2") + CPU_TIME, 12.34, id="SGLang in one process"),
        pytest.param(page("lmdeploy_dp2") + CPU_TIME, 12.34, id="LMDeploy"),
        pytest.param(page("nim_llama") + CPU_TIME, 12.34, id="NIM"),
        pytest.param(page("trtllm_serve") + CPU_TIME, 12.34, id="trtllm-serve in one process"),
        pytest.param(
            page("dynamo_frontend") + "dynamo_frontend_event_loop_delay_seconds_count 412345\n",
            412345,
            id="Dynamo's canary",
        ),
        pytest.param(page("triton_cpu_loaded"), 0.08955223880597014 + 3023921152, id="Triton's machine"),
        pytest.param(
            page("triton_trtllm_ensemble") + "nv_cpu_utilization 0.25\nnv_cpu_memory_used_bytes 1024\n",
            1024.25,
            id="Triton with TensorRT-LLM",
        ),
    ],
)
def test_a_page_has_a_heartbeat(text: str, value: float) -> None:
    assert read(text).heartbeat == value


def test_lmdeploy_tells_when_it_started() -> None:
    assert read(page("lmdeploy_dp2") + CPU_TIME).started_s == 1.7e9


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param(
            without(page("vllm_0.32_cpu_overloaded"), "process_"),
            UnknownReason.MISSING_SERIES,
            id="vLLM with several API servers",
        ),
        pytest.param(page("sglang_0.4_overloaded"), UnknownReason.MISSING_SERIES, id="SGLang as it comes"),
        pytest.param(page("trtllm_serve"), UnknownReason.MISSING_SERIES, id="trtllm-serve as it comes"),
        pytest.param(page("dynamo_frontend"), UnknownReason.MISSING_SERIES, id="Dynamo without its canary"),
        pytest.param(
            without(page("triton_cpu_loaded"), "nv_cpu_"), UnknownReason.MISSING_SERIES, id="Triton without CPU metrics"
        ),
        pytest.param(page("tgi_3_overloaded"), UnknownReason.NOT_EXPORTED, id="TGI"),
    ],
)
def test_a_page_without_one_says_so_and_loses_nothing_else(text: str, why: UnknownReason) -> None:
    reading = read(text)
    assert reason(reading, "heartbeat") is why
    assert isinstance(reading.completed, float)


def test_a_named_models_page_beats_with_the_machine() -> None:
    """The machine's use is of no model, and counts whichever is asked for."""
    assert read(page("triton_cpu_loaded"), model="dbl").heartbeat == 0.08955223880597014 + 3023921152
