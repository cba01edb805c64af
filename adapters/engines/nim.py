"""NVIDIA NIM for LLMs: vLLM's families without a prefix; newer ones have vLLM's own names, prefix included.

Names: "Observability" in NVIDIA's NIM for LLMs documentation. A page with ``vllm:`` names is read as vLLM's unless it
is declared to be NIM's; the values are the same.
"""

from __future__ import annotations

from adapters.engines.signals import MAX_FRACTION, Across, Alias, EngineTable, counter, cpu_time, gauge, histogram
from adapters.engines.vllm import arrivals_stock
from autoscaler.domain.service import Engine

NIM = EngineTable(
    engine=Engine.NIM,
    title="NVIDIA NIM",
    prefixes=("",),
    borrowed_prefixes=("vllm:",),
    required=("running", "waiting"),
    signals=(
        gauge("running", "num_requests_running"),
        gauge("waiting", "num_requests_waiting"),
        gauge("kv_fraction", "gpu_cache_usage_perc", "kv_cache_usage_perc", across=Across.MAX, upper=MAX_FRACTION),
        counter("completed", "request_success_total", "request_finish_total", "e2e_request_latency_seconds_count"),
        counter("refused", "request_failure_total"),
        counter("preemptions", "num_preemptions_total"),
        counter("prompt_tokens", "prompt_tokens_total"),
        counter("generation_tokens", "generation_tokens_total"),
        gauge("started_s", Alias(name="process_start_time_seconds", prefixed=False), across=Across.MAX),
        cpu_time(),
        histogram("ttft", "time_to_first_token_seconds"),
        histogram("itl", "time_per_output_token_seconds", "inter_token_latency_seconds"),
        histogram("request_itl", "request_time_per_output_token_seconds"),
        histogram("e2e", "e2e_request_latency_seconds"),
        histogram("queue_time", "request_queue_time_seconds"),
        histogram("prompt_length", "request_prompt_tokens"),
        histogram("output_length", "request_generation_tokens"),
    ),
    label_signals=(),
    model_labels=("model_name",),
    repeat_labels=("tp_rank", "pp_rank", "pid"),
    arrivals=arrivals_stock,
    arrivals_formula="waiting + max(first tokens, completed + running)",
    arrivals_of=("waiting", "ttft", "completed", "running"),
)
