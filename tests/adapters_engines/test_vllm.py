"""Every version and label form of vLLM's page, by hand-made pages and by real ones."""

from __future__ import annotations

import pytest

from adapters.engines.page_reader import PageReader
from adapters.engines.vllm import arrivals_stock, kv_capacity_tokens
from autoscaler.domain.reading import Histogram, Measured, Unknown, UnknownReason, is_known
from autoscaler.domain.service import Engine
from tests.adapters_engines.known import read
from tests.adapters_engines.vllm_pages import (
    DP4,
    RAY,
    RAY_WITHOUT_COLON,
    TRITON,
    V0_2,
    V0_2_GAUGES,
    V0_5,
    V1_0_8,
    V1_0_10,
    V1_0_11,
    V1_0_32,
)

SAME_IN_V1 = {
    "waiting": 2,
    "running": 4,
    "kv_fraction": 0.125,
    "completed": 5,
    "preemptions": 1,
    "prompt_tokens": 300,
    "generation_tokens": 700,
    "arrivals_stock": 11,  # 2 waiting + max(9 first tokens, 5 completed + 4 running)
    "ttft": 9,
    "itl": 100,
    "e2e": 5,
}


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        pytest.param(V0_2_GAUGES, {"waiting": 2, "running": 3, "kv_fraction": 0.25}, id="0.2.2 gauges only"),
        pytest.param(
            V0_2,
            {
                "waiting": 2,
                "running": 3,
                "kv_fraction": 0.25,
                "completed": 8,
                "prompt_tokens": 400,
                "generation_tokens": 900,
                "ttft": 10,
                "itl": 890,
                "e2e": 8,
                "arrivals_stock": 13,  # 2 + max(10, 8 + 3)
            },
            id="0.2.7",
        ),
        pytest.param(
            V0_5,
            {
                "waiting": 6,
                "running": 4,
                "kv_fraction": 0.5,
                "kv_capacity_tokens": 16_000,
                "kv_block_tokens": 16,
                "completed": 20,
                "preemptions": 2,
                "prompt_tokens": 1000,
                "generation_tokens": 5000,
                "started_s": 1.72e9,
                "ttft": 23,
                "itl": 99,
                "e2e": 20,
                "arrivals_stock": 30,  # 6 + max(23, 20 + 4)
            },
            id="0.5 V0",
        ),
        pytest.param(V1_0_8, SAME_IN_V1 | {"queue_time": 5, "prompt_length": 5, "output_length": 5}, id="0.8 V1"),
        pytest.param(
            V1_0_10, SAME_IN_V1 | {"queue_time": 5, "prompt_length": 5, "output_length": 5}, id="0.10 engine label"
        ),
        pytest.param(
            V1_0_11, SAME_IN_V1 | {"queue_time": 5, "prompt_length": 5, "output_length": 5}, id="0.11 both names"
        ),
        pytest.param(
            V1_0_32,
            SAME_IN_V1
            | {
                "queue_time": 5,
                "prompt_length": 5,
                "output_length": 5,
                "refused": 7,
                "kv_capacity_tokens": 65536,
                "kv_block_tokens": 16,
                "request_itl": 5,
            },
            id="0.32",
        ),
        pytest.param(
            RAY,
            SAME_IN_V1
            | {
                "queue_time": 5,
                "prompt_length": 5,
                "output_length": 5,
                "refused": 7,
                "kv_capacity_tokens": 65536,
                "kv_block_tokens": 16,
                "request_itl": 5,
            },
            id="Ray Serve",
        ),
        pytest.param(
            RAY_WITHOUT_COLON,
            SAME_IN_V1
            | {
                "queue_time": 5,
                "prompt_length": 5,
                "output_length": 5,
                "refused": 7,
                "kv_capacity_tokens": 65536,
                "kv_block_tokens": 16,
                "request_itl": 5,
            },
            id="Ray Serve, newer",
        ),
        pytest.param(
            TRITON, SAME_IN_V1 | {"queue_time": 5, "prompt_length": 5, "output_length": 5}, id="Triton's vllm_backend"
        ),
        pytest.param(
            DP4,
            {
                "running": 22,
                "waiting": 36,
                "kv_fraction": 0.9,
                "prompt_tokens": 400,
                "completed": 6,
                "kv_capacity_tokens": 4000,
                "kv_block_tokens": 16,
                "ttft": 20,
                "arrivals_stock": 64,  # 36 + max(20, 6 + 22)
            },
            id="four data-parallel engines",
        ),
    ],
)
def test_a_page_of_each_version_reads_as_expected_and_the_rest_is_unknown(
    page: str, expected: dict[str, float]
) -> None:
    reading = read(page)
    signals = (
        *("waiting", "running", "kv_fraction", "kv_capacity_tokens", "kv_block_tokens"),
        *("completed", "refused", "preemptions"),
        *("prompt_tokens", "generation_tokens", "arrivals_stock", "started_s"),
        *("ttft", "itl", "request_itl", "e2e", "queue_time", "prompt_length", "output_length"),
    )
    seen = {}
    for name in signals:
        value = getattr(reading, name)
        if not isinstance(value, Unknown):
            seen[name] = value.count if isinstance(value, Histogram) else value
        else:
            assert value.reason is UnknownReason.MISSING_SERIES
    assert seen == expected
    assert reading.engine == Engine.VLLM
    assert not reading.asleep
    assert (reading.replica, reading.at_s) == ("r", 7.0)


@pytest.mark.parametrize(
    ("page", "signal", "family"),
    [
        pytest.param(V0_5, "kv_fraction", "vllm:gpu_cache_usage_perc", id="old KV name"),
        pytest.param(V1_0_11, "kv_fraction", "vllm:kv_cache_usage_perc", id="new KV name before old"),
        pytest.param(V0_5, "itl", "vllm:time_per_output_token_seconds", id="old ITL name"),
        pytest.param(V1_0_11, "itl", "vllm:inter_token_latency_seconds", id="new ITL name before old"),
        pytest.param(TRITON, "completed", "vllm:e2e_request_latency_seconds_count", id="completions by their times"),
        pytest.param(V1_0_32, "completed", "vllm:request_success_total", id="completions"),
        pytest.param(RAY, "prompt_tokens", "ray_vllm:prompt_tokens_total", id="Ray's counter before its gauge"),
        pytest.param(V1_0_32, "kv_capacity_tokens", "vllm:cache_config_info", id="from labels"),
    ],
)
def test_the_reading_names_the_alias_it_used(page: str, signal: str, family: str) -> None:
    assert dict(read(page).sources)[signal] == family


@pytest.mark.parametrize(
    ("page", "old_names"),
    [
        pytest.param(V1_0_10, ["vllm:gpu_cache_usage_perc", "vllm:time_per_output_token_seconds"], id="0.10"),
        pytest.param(V1_0_11, [], id="0.11 both names"),
        pytest.param(V1_0_32, [], id="0.32"),
    ],
)
def test_old_names_in_use_are_warned_of(page: str, old_names: list[str]) -> None:
    warnings = read(page).warnings
    assert len(warnings) == len(old_names)
    assert all(name in warning for name, warning in zip(old_names, warnings, strict=True))


@pytest.mark.parametrize(
    ("states", "asleep"),
    [
        pytest.param({"0": ("1", "0", "0")}, False, id="awake"),
        pytest.param({"0": ("0", "1", "0")}, True, id="weights offloaded"),
        pytest.param({"0": ("0", "0", "1")}, True, id="all discarded"),
        pytest.param({"0": ("0", "1", "0"), "1": ("1", "0", "0")}, False, id="one of two awake"),
        pytest.param({}, False, id="no such series"),
    ],
)
def test_a_sleeping_engine_is_told(*, states: dict[str, tuple[str, str, str]], asleep: bool) -> None:
    page = 'vllm:num_requests_running{engine="0"} 0\nvllm:num_requests_waiting{engine="0"} 0\n'
    for rank, values in states.items():
        for state, value in zip(("awake", "weights_offloaded", "discard_all"), values, strict=True):
            page += f'vllm:engine_sleep_state{{engine="{rank}",model_name="m",sleep_state="{state}"}} {value}\n'
    assert read(page).asleep is asleep


TWO_MODELS = V1_0_32 + "".join(
    [f"{line}\n" for line in V1_0_10.replace('model_name="m"', 'model_name="n"').splitlines() if line[0] != "#"]
).replace('running{engine="0",model_name="n"} 4.0', 'running{engine="0",model_name="n"} 40.0')


@pytest.mark.parametrize(
    ("model", "running", "completed", "ttft", "refused"),
    [
        pytest.param(None, 44.0, 10.0, 18.0, 7.0, id="all"),
        pytest.param("m", 4.0, 5.0, 9.0, 7.0, id="one"),
        pytest.param("n", 40.0, 5.0, 9.0, None, id="the other"),
    ],
)
def test_several_served_models_add_up_unless_one_is_asked_for(
    model: str | None, running: float, completed: float, ttft: float, refused: float | None
) -> None:
    reading = read(TWO_MODELS, model=model)
    assert isinstance(reading.ttft, Histogram)
    assert (reading.running, reading.completed, reading.ttft.count) == (running, completed, ttft)
    assert (reading.refused if is_known(reading.refused) else None) == refused
    assert reading.kv_capacity_tokens == 65536  # names no model
    assert any("m, n" in warning for warning in reading.warnings) is (model is None)


def test_a_model_that_is_not_on_the_page_is_missing() -> None:
    answer = PageReader().read(TWO_MODELS.encode(), replica="r", at_s=0.0, model="other")
    assert isinstance(answer, Unknown)
    assert answer.reason is UnknownReason.MISSING_SERIES
    assert "m, n" in answer.detail


def test_the_overloaded_server_by_hand(overloaded_page: bytes) -> None:
    reading = read(overloaded_page)
    assert (reading.waiting, reading.running, reading.completed) == (272, 128, 1)
    assert reading.kv_fraction == pytest.approx(0.0312538)
    assert (reading.prompt_tokens, reading.generation_tokens) == (387, 24336)
    assert isinstance(reading.ttft, Histogram)
    assert isinstance(reading.itl, Histogram)
    assert reading.ttft.count == 129
    assert reading.ttft.share_within(0.75) == 1.0
    assert reading.ttft.bounds[-1] == 2560
    assert reading.itl.count == 24207
    assert reading.itl.total == pytest.approx(543.6166)
    assert reading.arrivals_stock == 401
    assert reading.kv_capacity_tokens == 128 * 8192
    assert (reading.refused, reading.preemptions, reading.asleep) == (0, 0, False)
    assert reading.started_s == 1796046398.05
    assert reading.warnings == ()


def test_the_idle_server_by_hand(idle_page: bytes) -> None:
    reading = read(idle_page)
    assert (reading.waiting, reading.running, reading.completed, reading.arrivals_stock) == (0, 0, 0, 0)
    assert isinstance(reading.ttft, Histogram)
    assert reading.ttft.count == 0


@pytest.mark.parametrize(
    ("ttft", "completed", "expected"),
    [
        pytest.param(129.0, 1.0, 401.0, id="all that run have their first token"),
        pytest.param(100.0, 1.0, 401.0, id="29 run without one"),
        pytest.param(140.0, 1.0, 412.0, id="11 were aborted after it"),
        pytest.param(129.0, UnknownReason.MISSING_SERIES, 401.0, id="no completions on the page"),
        pytest.param(UnknownReason.MISSING_SERIES, 1.0, 401.0, id="no first tokens on the page"),
        pytest.param(UnknownReason.MISSING_SERIES, UnknownReason.MISSING_SERIES, None, id="neither"),
        pytest.param(129.0, UnknownReason.NOT_A_NUMBER, None, id="completions not a number"),
        pytest.param(UnknownReason.CONTRADICTION, 1.0, None, id="first tokens contradict"),
    ],
)
def test_arrivals_with_128_running_and_272_waiting(
    ttft: float | UnknownReason, completed: float | UnknownReason, expected: float | None
) -> None:
    finished: Measured = Unknown(completed) if isinstance(completed, UnknownReason) else completed
    first = Unknown(ttft) if isinstance(ttft, UnknownReason) else Histogram((), (), ttft, 1.0)
    stock = arrivals_stock({"waiting": 272.0, "running": 128.0, "completed": finished}, {"ttft": first})
    assert (stock if is_known(stock) else None) == expected


@pytest.mark.parametrize("lost", ["waiting", "running"])
def test_arrivals_are_unknown_without_the_queue(lost: str) -> None:
    scalars: dict[str, Measured] = {"waiting": 2.0, "running": 1.0, "completed": 5.0}
    scalars[lost] = Unknown(UnknownReason.NOT_A_NUMBER)
    assert arrivals_stock(scalars, {"ttft": Histogram((), (), 6.0, 1.0)}) == Unknown(UnknownReason.NOT_A_NUMBER)


@pytest.mark.parametrize(
    ("labels", "tokens"),
    [
        pytest.param({"kv_cache_size_tokens": "1048576", "block_size": "16", "num_gpu_blocks": "1"}, 1048576, id="own"),
        pytest.param({"block_size": "16", "num_gpu_blocks": "1000"}, 16000, id="blocks"),
        pytest.param(
            {"kv_cache_size_tokens": "None", "block_size": "16", "num_gpu_blocks": "5"}, 80, id="None in text"
        ),
        pytest.param({"block_size": "16", "num_gpu_blocks": "None"}, None, id="blocks not known yet"),
        pytest.param({"block_size": "0", "num_gpu_blocks": "0"}, None, id="zero"),
        pytest.param({"block_size": "-16", "num_gpu_blocks": "10"}, None, id="negative"),
        pytest.param({"kv_cache_size_tokens": "9" * 30}, None, id="absurd"),
        pytest.param({"kv_cache_size_tokens": "٣"}, None, id="other digits"),
        pytest.param({}, None, id="nothing"),
    ],
)
def test_kv_capacity_from_labels(labels: dict[str, str], tokens: float | None) -> None:
    value = kv_capacity_tokens(labels)
    assert (value if is_known(value) else None) == tokens


PYTHON_ONLY = (
    "# TYPE python_info gauge\n"
    'python_info{implementation="CPython",version="3.11"} 1.0\n'
    "process_start_time_seconds 1.7e+09\n"
    'http_requests_total{handler="/health"} 3\n'
)


@pytest.mark.parametrize(
    ("page", "engine", "reason", "said"),
    [
        pytest.param("", Engine.AUTO, UnknownReason.EMPTY_PAGE, "no samples", id="empty"),
        pytest.param("# just a remark\n", Engine.VLLM, UnknownReason.EMPTY_PAGE, "no samples", id="comments only"),
        pytest.param(PYTHON_ONLY, Engine.AUTO, UnknownReason.EMPTY_PAGE, "python_info", id="python_* only"),
        pytest.param(PYTHON_ONLY, Engine.VLLM, UnknownReason.EMPTY_PAGE, "python_info", id="python_* only, vLLM meant"),
        pytest.param(
            V0_2_GAUGES.replace("vllm:num_requests_waiting{", "vllm:other{"),
            Engine.AUTO,
            UnknownReason.MISSING_SERIES,
            "vllm:num_requests_waiting is declared but has no sample",
            id="waiting declared only",
        ),
        pytest.param(
            "".join([line + "\n" for line in V1_0_32.splitlines() if "num_requests_running" not in line]),
            Engine.AUTO,
            UnknownReason.MISSING_SERIES,
            "no vllm:num_requests_running on the page",
            id="running missing",
        ),
        pytest.param(
            "vllm:num_requests_waiting_by_reason 5\nvllm:num_requests_running 3\n",
            Engine.AUTO,
            UnknownReason.MISSING_SERIES,
            "num_requests_waiting",
            id="a longer name is no match",
        ),
        pytest.param("my_app_total 1\n", Engine.AUTO, UnknownReason.UNKNOWN_ENGINE, "my_app_total", id="no engine"),
        pytest.param("te_queue_size 1\n", Engine.AUTO, UnknownReason.UNKNOWN_ENGINE, "Text Embeddings", id="TEI"),
        pytest.param("sglang:num_queue_reqs 1\n", Engine.VLLM, UnknownReason.MISSING_SERIES, "SGLang", id="not vLLM"),
    ],
)
def test_a_page_that_is_not_vllms_is_unknown_with_a_reason(
    page: str, engine: Engine, reason: UnknownReason, said: str
) -> None:
    answer = PageReader().read(page.encode(), replica="r", at_s=0.0, engine=engine)
    assert isinstance(answer, Unknown)
    assert answer.reason is reason
    assert said in answer.detail
