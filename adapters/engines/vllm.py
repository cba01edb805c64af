"""vLLM, versions 0.2 to 0.32, under its own server, Ray Serve or Triton's vllm_backend.

Names: vLLM's ``vllm/engine/metrics.py`` (V0) and ``vllm/v1/metrics/loggers.py`` (V1); Ray Serve prefixes them, and
later replaces the colon too (``vllm/v1/metrics/ray_wrappers.py``); vllm_backend keeps the names and labels them
``model``, ``version`` (``src/utils/metrics.py`` of triton-inference-server/vllm_backend). V0 has no ``engine`` label;
V1 has one value of it per data-parallel rank.
"""

from __future__ import annotations

from collections.abc import Mapping

from adapters.engines.signals import (
    MAX_FRACTION,
    Across,
    Alias,
    EngineTable,
    LabelSignal,
    counter,
    cpu_time,
    gauge,
    histogram,
)
from autoscaler.domain.reading import MaybeHistogram, Measured, Unknown, UnknownReason, is_known
from autoscaler.domain.service import Engine


def kv_capacity_tokens(labels: Mapping[str, str]) -> Measured:
    """Tokens that one engine's KV cache holds: its own figure, or block size x number of blocks."""
    own = positive_count(labels.get("kv_cache_size_tokens"))
    if own is not None:
        return own
    block_size, blocks = positive_count(labels.get("block_size")), positive_count(labels.get("num_gpu_blocks"))
    if block_size is not None and blocks is not None:
        return block_size * blocks
    return Unknown(UnknownReason.NOT_EXPORTED, "cache_config_info names no size")


def kv_block_tokens(labels: Mapping[str, str]) -> Measured:
    """Tokens of the blocks in which the KV cache is given out."""
    size = positive_count(labels.get("block_size"))
    return Unknown(UnknownReason.NOT_EXPORTED, "cache_config_info names no block size") if size is None else size


def arrivals_stock(scalars: Mapping[str, Measured], histograms: Mapping[str, MaybeHistogram]) -> Measured:
    """waiting + max(first tokens, completed + running): grows by one when a request arrives, and not again after.

    A request is waiting, or it runs and has no first token yet, or it has had its first token. vLLM counts the first
    and the last; those between are completed + running - first tokens where that is positive. So
    waiting + first tokens + max(0, completed + running - first tokens), which is the sum above. An aborted request
    stays in the first tokens though it is never counted as completed, hence the maximum.

    A server that got 400 requests at once after one: waiting 272, running 128, completed 1, first tokens 129:
    272 + max(129, 1 + 128) = 401.

    A preempted request counts twice until it runs again. One of the two, absent from the page (Triton's backend has
    no completions of its own; V0 creates a series at its first observation), leaves the other; both absent: unknown.
    """
    waiting, running, completed = scalars["waiting"], scalars["running"], scalars["completed"]
    ttft = histograms["ttft"]
    first_tokens: Measured = ttft if isinstance(ttft, Unknown) else ttft.count
    if not is_known(waiting):
        return waiting
    if not is_known(running):
        return running
    finished_and_running = completed + running if is_known(completed) else completed
    known = []
    for part in (first_tokens, finished_and_running):
        if not isinstance(part, Unknown):
            known.append(part)
        elif part.reason is not UnknownReason.MISSING_SERIES:
            return part
    if not known:
        return Unknown(UnknownReason.MISSING_SERIES, "neither first tokens nor completions on the page")
    return waiting + max(known)


def positive_count(text: str | None) -> float | None:
    """A whole positive number; None for "None" and the like."""
    return float(text) if text is not None and text.isascii() and text.isdigit() and 0 < int(text) < 2**53 else None


VLLM = EngineTable(
    engine=Engine.VLLM,
    title="vLLM",
    prefixes=("vllm:", "ray_vllm:", "ray_vllm_"),
    required=("running", "waiting"),
    signals=(
        gauge("running", "num_requests_running"),
        gauge("waiting", "num_requests_waiting"),
        gauge(
            "kv_fraction",
            "kv_cache_usage_perc",
            Alias(name="gpu_cache_usage_perc", renamed_to="kv_cache_usage_perc"),
            across=Across.MAX,
            upper=MAX_FRACTION,
        ),
        # The e2e histogram observes each request as it finishes: 0.2.7 to 0.3 and Triton's backend have nothing else.
        counter("completed", "request_success_total", "request_success", "e2e_request_latency_seconds_count"),
        counter("refused", "admission_rejections_total", "admission_rejections"),
        counter("preemptions", "num_preemptions_total", "num_preemptions"),
        counter("prompt_tokens", "prompt_tokens_total", "prompt_tokens"),
        counter("generation_tokens", "generation_tokens_total", "generation_tokens"),
        gauge("started_s", Alias(name="process_start_time_seconds", prefixed=False), across=Across.MAX),
        cpu_time(),
        gauge(
            "awake", Alias(name="engine_sleep_state", only=(("sleep_state", ("awake",)),)), across=Across.MAX, upper=1.0
        ),
        histogram("ttft", "time_to_first_token_seconds"),
        histogram(
            "itl",
            "inter_token_latency_seconds",
            Alias(name="time_per_output_token_seconds", renamed_to="inter_token_latency_seconds"),
        ),
        # Decode time / (tokens - 1), 0 for a single token: vllm/v1/metrics/stats.py, vllm-project/vllm#24015.
        histogram("request_itl", "request_time_per_output_token_seconds", lacking="vLLM 0.11 and later have it"),
        histogram("e2e", "e2e_request_latency_seconds"),
        histogram("queue_time", "request_queue_time_seconds"),
        histogram("prompt_length", "request_prompt_tokens"),
        histogram("output_length", "request_generation_tokens"),
    ),
    label_signals=(
        LabelSignal(name="kv_capacity_tokens", alias=Alias(name="cache_config_info"), of_labels=kv_capacity_tokens),
        LabelSignal(
            name="kv_block_tokens",
            alias=Alias(name="cache_config_info"),
            of_labels=kv_block_tokens,
            across=Across.MAX,
        ),
    ),
    model_labels=("model_name", "model"),
    repeat_labels=("tp_rank", "pp_rank", "pid"),
    arrivals=arrivals_stock,
    arrivals_formula="waiting + max(first tokens, completed + running)",
    arrivals_of=("waiting", "ttft", "completed", "running"),
)
