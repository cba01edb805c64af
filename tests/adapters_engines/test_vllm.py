"""Every version and label form of vLLM's page, by hand-made pages and by real ones."""

from __future__ import annotations

import pytest

from adapters.engines.page_reader import PageReader
from adapters.engines.vllm import arrivals_stock, kv_capacity_tokens
from autoscaler.domain.reading import EngineReading, Histogram, Measured, Unknown, UnknownReason, is_known
from autoscaler.domain.service import Engine


def read(page: str | bytes, *, engine: Engine = Engine.AUTO, model: str | None = None) -> EngineReading:
    body = page.encode() if isinstance(page, str) else page
    reading = PageReader().read(body, replica="r", at_s=7.0, engine=engine, model=model)
    assert isinstance(reading, EngineReading), reading
    return reading


def histogram(family: str, labels: str, *, buckets: dict[str, int], count: int, total: float) -> str:
    lines = [f"# TYPE {family} histogram"]
    lines += [f'{family}_bucket{{{labels},le="{bound}"}} {n}' for bound, n in buckets.items()]
    lines += [f'{family}_bucket{{{labels},le="+Inf"}} {count}', f"{family}_count{{{labels}}} {count}"]
    return "\n".join([*lines, f"{family}_sum{{{labels}}} {total}"]) + "\n"


# 0.2.2: aioprometheus, gauges only.
V0_2_GAUGES = """\
# HELP vllm:num_requests_running Number of requests that is currently running for inference.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="facebook/opt-125m"} 3
# HELP vllm:num_requests_swapped Number of requests swapped to CPU.
# TYPE vllm:num_requests_swapped gauge
vllm:num_requests_swapped{model_name="facebook/opt-125m"} 1
# HELP vllm:num_requests_waiting Number of requests waiting to be processed.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{model_name="facebook/opt-125m"} 2
# HELP vllm:gpu_cache_usage_perc GPU KV-cache usage. 1 means 100 percent usage.
# TYPE vllm:gpu_cache_usage_perc gauge
vllm:gpu_cache_usage_perc{model_name="facebook/opt-125m"} 0.25
"""

# 0.2.7: first histograms and counters; completions only as end-to-end times.
V0_2 = (
    V0_2_GAUGES
    + """\
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{model_name="facebook/opt-125m"} 400
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{model_name="facebook/opt-125m"} 900
"""
    + histogram(
        "vllm:time_to_first_token_seconds", 'model_name="facebook/opt-125m"', buckets={"0.1": 5}, count=10, total=2.5
    )
    + histogram(
        "vllm:time_per_output_token_seconds",
        'model_name="facebook/opt-125m"',
        buckets={"0.1": 880},
        count=890,
        total=40,
    )
    + histogram(
        "vllm:e2e_request_latency_seconds", 'model_name="facebook/opt-125m"', buckets={"1.0": 2}, count=8, total=20
    )
)

# 0.5, engine V0: a space may stand after a comma, no engine label, an absolute path as the model's name.
V0_5 = (
    """\
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="16",cache_dtype="auto",num_gpu_blocks="1000",sliding_window="None"} 1.0
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="/models/mistral-7b"} 4.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{model_name="/models/mistral-7b"} 6.0
# TYPE vllm:num_requests_swapped gauge
vllm:num_requests_swapped{model_name="/models/mistral-7b"} 0.0
# TYPE vllm:gpu_cache_usage_perc gauge
vllm:gpu_cache_usage_perc{model_name="/models/mistral-7b"} 0.5
# TYPE vllm:cpu_cache_usage_perc gauge
vllm:cpu_cache_usage_perc{model_name="/models/mistral-7b"} 0.0
# TYPE vllm:cpu_prefix_cache_hit_rate gauge
vllm:cpu_prefix_cache_hit_rate{model_name="/models/mistral-7b"} -1.0
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{model_name="/models/mistral-7b"} 2.0
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{model_name="/models/mistral-7b"} 1000.0
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{model_name="/models/mistral-7b"} 5000.0
# TYPE vllm:request_success_total counter
vllm:request_success_total{finished_reason="stop", model_name="/models/mistral-7b"} 15.0
vllm:request_success_total{finished_reason="length", model_name="/models/mistral-7b"} 5.0
# TYPE vllm:request_success_created gauge
vllm:request_success_created{finished_reason="stop", model_name="/models/mistral-7b"} 1.7e+09
# TYPE process_start_time_seconds gauge
process_start_time_seconds 1.72e+09
"""
    + histogram(
        "vllm:time_to_first_token_seconds", 'model_name="/models/mistral-7b"', buckets={"0.1": 9}, count=23, total=5
    )
    + histogram(
        "vllm:time_per_output_token_seconds", 'model_name="/models/mistral-7b"', buckets={"0.1": 9}, count=99, total=5
    )
    + histogram("vllm:e2e_request_latency_seconds", 'model_name="/models/mistral-7b"', buckets={}, count=20, total=90)
)


def v1(
    running: int, waiting: int, *, kv_family: str, itl_family: str, labels: str = 'engine="0",model_name="m"'
) -> str:
    """A V1 page: sums over finish reasons, a created gauge beside each counter."""
    return (
        f"""\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{{labels}}} {running}.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{{{labels}}} {waiting}.0
# TYPE {kv_family} gauge
{kv_family}{{{labels}}} 0.125
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{{{labels}}} 1.0
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{{{labels}}} 300.0
# TYPE vllm:prompt_tokens_created gauge
vllm:prompt_tokens_created{{{labels}}} 1.7e+09
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{{{labels}}} 700.0
# TYPE vllm:request_success_total counter
vllm:request_success_total{{finished_reason="stop",{labels}}} 4.0
vllm:request_success_total{{finished_reason="length",{labels}}} 1.0
vllm:request_success_total{{finished_reason="abort",{labels}}} 0.0
"""
        + histogram("vllm:time_to_first_token_seconds", labels, buckets={"0.5": 6, "1.0": 8}, count=9, total=4.5)
        + histogram(itl_family, labels, buckets={"0.05": 50, "0.1": 80}, count=100, total=3)
        + histogram("vllm:e2e_request_latency_seconds", labels, buckets={"1.0": 1}, count=5, total=9)
        + histogram("vllm:request_queue_time_seconds", labels, buckets={"0.3": 5}, count=5, total=0.1)
        + histogram("vllm:request_prompt_tokens", labels, buckets={"100.0": 5}, count=5, total=300)
        + histogram("vllm:request_generation_tokens", labels, buckets={"100.0": 5}, count=5, total=600)
    )


V1_0_8 = v1(
    4,
    2,
    kv_family="vllm:gpu_cache_usage_perc",
    itl_family="vllm:time_per_output_token_seconds",
    labels='model_name="m"',
)
V1_0_10 = v1(4, 2, kv_family="vllm:gpu_cache_usage_perc", itl_family="vllm:time_per_output_token_seconds")
V1_0_11 = (  # the transition: both names of both families
    v1(4, 2, kv_family="vllm:kv_cache_usage_perc", itl_family="vllm:inter_token_latency_seconds")
    + '# TYPE vllm:gpu_cache_usage_perc gauge\nvllm:gpu_cache_usage_perc{engine="0",model_name="m"} 0.125\n'
    + histogram(
        "vllm:time_per_output_token_seconds",
        'engine="0",model_name="m"',
        buckets={"0.05": 50, "0.1": 80},
        count=100,
        total=3,
    )
)
# The mean gap of each request that has ended: from 0.11 on, beside the gaps of single tokens.
MEANS = histogram(
    "vllm:request_time_per_output_token_seconds",
    'engine="0",model_name="m"',
    buckets={"0.05": 3, "0.1": 5},
    count=5,
    total=0.2,
)
BY_REASON = """\
# TYPE vllm:num_requests_waiting_by_reason gauge
vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="capacity"} 1.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="deferred"} 1.0
# TYPE vllm:admission_rejections_total counter
vllm:admission_rejections_total{model_name="m",reason="max_num_queued_reqs"} 3.0
vllm:admission_rejections_total{model_name="m",reason="max_num_queued_tokens"} 4.0
# TYPE vllm:engine_sleep_state gauge
vllm:engine_sleep_state{engine="0",model_name="m",sleep_state="awake"} 1.0
vllm:engine_sleep_state{engine="0",model_name="m",sleep_state="weights_offloaded"} 0.0
vllm:engine_sleep_state{engine="0",model_name="m",sleep_state="discard_all"} 0.0
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="16",engine="0",kv_cache_size_tokens="65536",num_gpu_blocks="4096"} 1.0
"""
V1_0_32 = (
    v1(4, 2, kv_family="vllm:kv_cache_usage_perc", itl_family="vllm:inter_token_latency_seconds") + MEANS + BY_REASON
)
DP4 = "".join(
    [
        f"""\
vllm:num_requests_running{{engine="{rank}",model_name="m"}} {running}
vllm:num_requests_waiting{{engine="{rank}",model_name="m"}} {waiting}
vllm:kv_cache_usage_perc{{engine="{rank}",model_name="m"}} {kv}
vllm:prompt_tokens_total{{engine="{rank}",model_name="m"}} 100
vllm:request_success_total{{engine="{rank}",finished_reason="stop",model_name="m"}} {rank}
vllm:cache_config_info{{engine="{rank}",kv_cache_size_tokens="1000",block_size="16"}} 1
"""
        + histogram(
            "vllm:time_to_first_token_seconds", f'engine="{rank}",model_name="m"', buckets={"1.0": 1}, count=5, total=2
        )
        for rank, running, waiting, kv in ((0, 4, 0, 0.1), (1, 5, 0, 0.9), (2, 6, 36, 0.2), (3, 7, 0, 0.3))
    ]
)
RAY_LABELS = (
    'Component="core_worker",NodeAddress="10.0.0.1",ReplicaId="a1",SessionName="session",WorkerId="w1",'
    'engine="0",model_name="m"'
)
RAY = V1_0_32.replace("vllm:", "ray_vllm:").replace('engine="0",model_name="m"', RAY_LABELS) + (
    # Ray may export a counter a second time, as a gauge without "_total".
    f"# TYPE ray_vllm:prompt_tokens gauge\nray_vllm:prompt_tokens{{{RAY_LABELS}}} 300.0\n"
    "# TYPE ray_node_cpu_utilization gauge\nray_node_cpu_utilization 12.5\n"
)
RAY_WITHOUT_COLON = RAY.replace("ray_vllm:", "ray_vllm_")
# Triton's vllm_backend: Triton's own series beside vLLM's, its labels, no success counter.
TRITON = (
    """\
# TYPE nv_inference_request_success counter
nv_inference_request_success{model="vllm_model",version="1"} 5
# TYPE nv_inference_pending_request_count gauge
nv_inference_pending_request_count{model="vllm_model",version="1"} 0
"""
    + "\n".join(
        [
            line
            for line in V1_0_8.splitlines()
            if "request_success" not in line and not line.startswith("vllm:prompt_tokens_created")
        ]
    ).replace('model_name="m"', 'model="vllm_model",version="1"')
    + "\n"
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
