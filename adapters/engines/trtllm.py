"""trtllm-serve, at /prometheus/metrics; its /metrics answers with JSON statistics, which is told as such.

Names: ``tensorrt_llm/metrics/collector.py`` of NVIDIA/TensorRT-LLM. 1.1 had the completions and four histograms only;
the gauges (``numActiveRequests``, ``numQueuedRequests`` of an iteration's statistics) came later, with
``enable_iter_perf_stats``. Under Dynamo 0.7 the prefix has a colon. All histograms observe a request as it finishes.
"""

from __future__ import annotations

from collections.abc import Mapping

from adapters.engines.balance import balance
from adapters.engines.signals import MAX_FRACTION, Across, Alias, EngineTable, counter, cpu_time, gauge, histogram
from autoscaler.domain.reading import MaybeHistogram, Measured
from autoscaler.domain.service import Engine

_IN_BALANCE = ("completed", "waiting", "running")
_GAUGES = "newer versions have it, with enable_iter_perf_stats"


def arrivals_stock(scalars: Mapping[str, Measured], _: Mapping[str, MaybeHistogram]) -> Measured:
    """completed + waiting + running: a request has finished, queues, or is active.

    First tokens are no help: they are observed when the request has finished. An aborted request leaves without being
    counted, so the stock falls by it. Unknown without the gauges: completions alone are no arrivals.
    """
    return balance(scalars, _IN_BALANCE)


TRTLLM = EngineTable(
    engine=Engine.TRTLLM,
    title="trtllm-serve",
    prefixes=("trtllm_", "trtllm:"),
    required=(),
    signals=(
        gauge("waiting", "num_requests_waiting", lacking=_GAUGES),
        gauge("running", "num_requests_running", lacking=_GAUGES),
        gauge("kv_fraction", "kv_cache_utilization", across=Across.MAX, upper=MAX_FRACTION),
        # Labelled by the reason for the end, so it comes with the first end.
        counter("completed", "request_success_total", first_use=()),
        counter("prompt_tokens", "prompt_tokens_total"),
        counter("generation_tokens", "generation_tokens_total"),
        gauge("started_s", Alias(name="process_start_time_seconds", prefixed=False), across=Across.MAX),
        cpu_time(),
        histogram("ttft", "time_to_first_token_seconds"),
        histogram("itl", "inter_token_latency_seconds", "time_per_output_token_seconds"),
        histogram("request_itl", "time_per_output_token_seconds"),
        histogram("e2e", "e2e_request_latency_seconds"),
        histogram("queue_time", "request_queue_time_seconds"),
    ),
    label_signals=(),
    model_labels=("model_name",),
    repeat_labels=("pid",),
    arrivals=arrivals_stock,
    arrivals_formula="completed + waiting + running",
    arrivals_of=_IN_BALANCE,
)
