"""SGLang, from 0.4, under its own server or behind a router that prints ``sglang_`` for ``sglang:``.

Names: ``python/sglang/srt/metrics/collector.py`` of sgl-project/sglang and its docs/references/production_metrics.md.
Data-parallel ranks add up; tensor-, pipeline- and expert-parallel ranks of one engine repeat the same queue. First
tokens and gaps between tokens are observed live; requests and tokens when a request has finished, but
``realtime_tokens_total`` (newer versions) moves with the work. Counters and histograms appear with their first use,
which the completions' absence beside the gauges tells.

The gauges are written at the scheduler's steps and log intervals: an engine that went idle may show its last batch for
about 30 s (sgl-project/sglang#26495). What that does to ``arrivals_stock`` is told there.
"""

from __future__ import annotations

from collections.abc import Mapping

from adapters.engines.signals import (
    MAX_FRACTION,
    Across,
    Alias,
    Derived,
    EngineTable,
    LabelSignal,
    counter,
    cpu_time,
    gauge,
    histogram,
)
from adapters.engines.vllm import arrivals_stock as first_tokens_and_queue
from adapters.engines.vllm import positive_count
from autoscaler.domain.reading import MaybeHistogram, Measured, Unknown, UnknownReason
from autoscaler.domain.service import Engine

_PREFILL = (("mode", ("prefill_compute", "prefill_cache")),)


def waiting(scalars: Mapping[str, Measured]) -> Measured:
    """Requests in the queue and those whose grammar is still compiled (a gauge of newer versions alone)."""
    queue, grammar = scalars["queue"], scalars["grammar_queue"]
    if isinstance(queue, Unknown):
        return queue
    if isinstance(grammar, Unknown):
        return queue if grammar.reason is UnknownReason.MISSING_SERIES else grammar
    return queue + grammar


def kv_block_tokens(labels: Mapping[str, str]) -> Measured:
    """Tokens of the pages in which the KV cache is given out."""
    size = positive_count(labels.get("page_size"))
    return Unknown(UnknownReason.NOT_EXPORTED, "cache_config_info names no page size") if size is None else size


def arrivals_stock(scalars: Mapping[str, Measured], histograms: Mapping[str, MaybeHistogram]) -> Measured:
    """waiting + max(first tokens, completed + running), for the reasons given for vLLM.

    ``num_requests_total`` is what has completed, aborted requests among them, so aborts aren't added. The sample of
    SGLang's documentation: queue 2826, first tokens 11008, completed 11228, running 162:
    2826 + max(11008, 11228 + 162) = 14216.

    Where the last requests of a burst end and the gauge still says that they run, they count twice until the gauge is
    written again; then the stock falls by as much. So the sum over half a minute is right, and the error in between is
    on the side of more load.
    """
    return first_tokens_and_queue(scalars, histograms)


SGLANG = EngineTable(
    engine=Engine.SGLANG,
    title="SGLang",
    prefixes=("sglang:", "sglang_"),
    required=("running", "queue"),
    signals=(
        gauge("running", "num_running_reqs"),
        gauge("queue", "num_queue_reqs"),
        gauge("grammar_queue", "num_grammar_queue_reqs"),
        gauge("kv_fraction", "token_usage", across=Across.MAX, upper=MAX_FRACTION),
        gauge("kv_capacity_tokens", "max_total_num_tokens"),
        # The end-to-end histogram observes each request as it finishes: 0.4 has nothing else.
        counter("completed", "num_requests_total", "e2e_request_latency_seconds_count", first_use=()),
        counter("refused", "num_aborted_requests_total"),
        counter("prompt_tokens", Alias(name="realtime_tokens_total", only=_PREFILL), "prompt_tokens_total"),
        counter(
            "generation_tokens",
            Alias(name="realtime_tokens_total", only=(("mode", ("decode",)),)),
            "generation_tokens_total",
        ),
        gauge("started_s", Alias(name="process_start_time_seconds", prefixed=False), across=Across.MAX),
        cpu_time(),
        histogram("ttft", "time_to_first_token_seconds"),
        histogram(
            "itl",
            "inter_token_latency_seconds",
            Alias(name="time_per_output_token_seconds", renamed_to="inter_token_latency_seconds"),
        ),
        histogram("e2e", "e2e_request_latency_seconds"),
        histogram("queue_time", "queue_time_seconds"),
        histogram("prompt_length", "prompt_tokens_histogram"),
        histogram("output_length", "generation_tokens_histogram"),
    ),
    label_signals=(
        LabelSignal(
            name="kv_block_tokens", alias=Alias(name="cache_config_info"), of_labels=kv_block_tokens, across=Across.MAX
        ),
    ),
    model_labels=("model_name",),
    repeat_labels=("tp_rank", "pp_rank", "moe_ep_rank", "pid"),
    arrivals=arrivals_stock,
    arrivals_formula="waiting + max(first tokens, completed + running)",
    arrivals_of=("queue", "grammar_queue", "ttft", "completed", "running"),
    derived=(
        Derived(name="waiting", of=("queue", "grammar_queue"), formula="queued + waiting for a grammar", value=waiting),
    ),
)
