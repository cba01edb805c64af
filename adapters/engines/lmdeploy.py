"""LMDeploy's API server, with ``--enable-metrics``.

Names and moments: ``lmdeploy/metrics/loggers.py`` of InternLM/lmdeploy, after vLLM's. No counter of completions: the
end-to-end histogram observes each request as it finishes. ``generation_tokens_total`` was raised twice for each token
there, so the lengths of finished requests are summed instead; first tokens and times between tokens are live.
"""

from __future__ import annotations

from adapters.engines.signals import MAX_FRACTION, Across, Alias, EngineTable, counter, cpu_time, gauge, histogram
from adapters.engines.vllm import arrivals_stock
from autoscaler.domain.service import Engine

LMDEPLOY = EngineTable(
    engine=Engine.LMDEPLOY,
    title="LMDeploy",
    prefixes=("lmdeploy:",),
    required=("running", "waiting"),
    signals=(
        gauge("running", "num_requests_running"),
        gauge("waiting", "num_requests_waiting"),
        gauge("kv_fraction", "gpu_cache_usage_perc", across=Across.MAX, upper=MAX_FRACTION),
        gauge("started_s", Alias(name="process_start_time_seconds", prefixed=False), across=Across.MAX),
        cpu_time(),
        counter("completed", "e2e_request_latency_seconds_count"),
        counter("prompt_tokens", "prompt_tokens_total"),
        counter("generation_tokens", "request_generation_tokens_sum"),
        histogram("ttft", "time_to_first_token_seconds"),
        histogram("itl", "time_per_output_token_seconds"),
        histogram("e2e", "e2e_request_latency_seconds"),
        histogram("queue_time", "request_queue_time_seconds"),
        histogram("prompt_length", "request_prompt_tokens"),
        histogram("output_length", "request_generation_tokens"),
    ),
    label_signals=(),
    model_labels=("model_name",),
    repeat_labels=("pid",),
    arrivals=arrivals_stock,
    arrivals_formula="waiting + max(first tokens, completed + running)",
    arrivals_of=("waiting", "ttft", "completed", "running"),
)
