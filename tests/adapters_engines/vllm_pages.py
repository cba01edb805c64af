"""Pages of each version and label form of vLLM, made by hand after the sources of that version."""

from __future__ import annotations


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
