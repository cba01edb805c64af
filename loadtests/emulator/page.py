"""The metrics page: vLLM 0.32's families, labels and buckets, and its rules of when each of them moves.

Names and bounds: vllm-project/vllm, vllm/v1/metrics/loggers.py, checked against a page of a real server.
First tokens, tokens and gaps are counted live; queue time, end-to-end time, lengths and successes only when a
request has finished.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    Summary,
    generate_latest,
)

from loadtests.emulator.batching import EngineLimits, StepResult
from loadtests.emulator.batching import Sequence as EngineSequence
from loadtests.emulator.metrics_page import MetricsPage, course_s

BLOCK_TOKENS = 16

FIRST_TOKEN_BOUNDS = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
    *(20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
TOKEN_GAP_BOUNDS = (
    *(
        0.01,
        0.025,
        0.05,
        0.075,
        0.1,
        0.15,
        0.2,
        0.3,
        0.4,
        0.5,
        0.75,
        1.0,
        2.5,
        5.0,
        7.5,
        10.0,
        20.0,
        40.0,
        80.0,
    ),
)
REQUEST_BOUNDS = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0),
    *(120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)
STEP_TOKEN_BOUNDS = (1, *(2**power for power in range(3, 15)))
SAMPLE_COUNT_BOUNDS = (1, 2, 5, 10, 20)
PREEMPTION_BOUNDS = (1, 2, 3, 4, 5, 10, 20)
HTTP_FINE_BOUNDS = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 7.5),
    *(10.0, 30.0, 60.0),
)
HTTP_COARSE_BOUNDS = (0.1, 0.5, 1.0)

# Families that this engine has no use for; a reader of the page still meets them, at zero.
_IDLE_COUNTERS: tuple[tuple[str, str | None, tuple[str, ...]], ...] = (
    ("estimated_flops_per_gpu", None, ()),
    ("estimated_read_bytes_per_gpu", None, ()),
    ("estimated_write_bytes_per_gpu", None, ()),
    ("prefix_cache_hits", None, ()),
    ("external_prefix_cache_queries", None, ()),
    ("external_prefix_cache_hits", None, ()),
    ("mm_cache_queries", None, ()),
    ("mm_cache_hits", None, ()),
    ("prompt_tokens_cached", None, ()),
    ("prompt_tokens_cached_by_source", "source", ("device", "host", "p2p", "disk", "external_unspecified")),
)


def length_bounds(largest: int) -> tuple[int, ...]:
    """The series 1, 2, 5, 10, 20, 50, ... up to ``largest``, as vLLM buckets token counts."""
    series = (step * 10**power for power in itertools.count() for step in (1, 2, 5))
    return tuple(itertools.takewhile(lambda bound: bound <= largest, series))


class EnginePage(MetricsPage):
    """All series of one engine. The caller says when something happened; the page only counts."""

    def __init__(self, *, model: str, limits: EngineLimits) -> None:
        self._registry = CollectorRegistry()
        GCCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        ProcessCollector(registry=self._registry)
        self._model = model
        self._limits = limits
        self._declare_load()
        self._declare_counters()
        self._declare_histograms()
        self._declare_cache()
        self._declare_http()

    def render(self) -> bytes:
        """The page now, in Prometheus' text format."""
        return generate_latest(self._registry)

    def show_load(self, *, running: int, waiting: int, kv_used_tokens: int) -> None:
        """Set the gauges."""
        self._running.set(running)
        self._waiting.set(waiting)
        self._waiting_capacity.set(waiting)
        self._kv_usage.set(kv_used_tokens / self._limits.kv_tokens)

    def count_step(self, result: StepResult, *, preemptions: int) -> None:
        """Count a step's tokens, first tokens, gaps and ``preemptions`` as vLLM does: at its end, live."""
        first_tokens = 0
        for sequence, gap_s in result.tokens:
            if gap_s is not None:
                self._token_gap.observe(gap_s)
            elif sequence.first_token_s is not None:
                first_tokens += 1
                self._first_token.observe(sequence.first_token_s - sequence.arrived_s)
        self._generation_tokens.inc(len(result.tokens))
        if first_tokens:
            self._prompt_tokens.inc(result.admitted_tokens)
            self._prompt_tokens_computed.inc(result.admitted_tokens)
            self._cache_queries.inc(result.admitted_tokens)
        if preemptions:
            self._preemptions.inc(preemptions)
        self._step_tokens.observe(result.step_tokens)

    def count_finish(self, sequence: EngineSequence, *, reason: str, max_tokens: int) -> None:
        """Count a request that has all its tokens. ``reason``: "stop" or "length"."""
        scheduled_s, first_s, last_s = course_s(sequence)
        self._success[reason].inc()
        self._end_to_end.observe(last_s - sequence.arrived_s)
        self._queue_time.observe(scheduled_s - sequence.arrived_s)
        self._inference_time.observe(last_s - scheduled_s)
        self._prefill_time.observe(first_s - scheduled_s)
        self._decode_time.observe(last_s - first_s)
        gaps = max(1, sequence.generated - 1)
        self._mean_token_time.observe((last_s - first_s) / gaps)
        self._prompt_length.observe(sequence.prompt_tokens)
        self._output_length.observe(sequence.generated)
        self._longest_output.observe(sequence.generated)
        self._max_tokens.observe(max_tokens)
        self._samples.observe(1)
        self._request_preemptions.observe(sequence.preemptions)
        self._computed_tokens.observe(sequence.prompt_tokens)

    def count_http(
        self, *, handler: str, status: int, duration_s: float, request_bytes: int, response_bytes: int
    ) -> None:
        """Count an HTTP exchange when its response has ended, as prometheus_fastapi_instrumentator does."""
        self._http_requests.labels(handler, "POST", f"{status // 100}xx").inc()
        self._http_request_bytes.labels(handler).observe(request_bytes)
        self._http_response_bytes.labels(handler).observe(response_bytes)
        self._http_fine.observe(duration_s)
        self._http_coarse.labels(handler, "POST").observe(duration_s)

    def _gauge(self, name: str, *extra: str) -> Gauge:
        return Gauge(f"vllm:{name}", name.replace("_", " "), ("engine", "model_name", *extra), registry=self._registry)

    def _counter(self, name: str, *extra: str) -> Counter:
        return Counter(
            f"vllm:{name}", name.replace("_", " "), ("engine", "model_name", *extra), registry=self._registry
        )

    def _histogram(self, name: str, bounds: Sequence[float]) -> Histogram:
        labels = ("engine", "model_name")
        text = name.replace("_", " ")
        family = Histogram(f"vllm:{name}", text, labels, buckets=bounds, registry=self._registry)
        return family.labels("0", self._model)

    def _declare_load(self) -> None:
        self._running = self._gauge("num_requests_running").labels("0", self._model)
        self._waiting = self._gauge("num_requests_waiting").labels("0", self._model)
        by_reason = self._gauge("num_requests_waiting_by_reason", "reason")
        self._waiting_capacity = by_reason.labels("0", self._model, "capacity")
        by_reason.labels("0", self._model, "deferred")
        sleep_state = self._gauge("engine_sleep_state", "sleep_state")
        for state, value in (("awake", 1), ("weights_offloaded", 0), ("discard_all", 0)):
            sleep_state.labels("0", self._model, state).set(value)
        self._kv_usage = self._gauge("kv_cache_usage_perc").labels("0", self._model)

    def _declare_counters(self) -> None:
        for name, label, values in _IDLE_COUNTERS:
            family = self._counter(name, *((label,) if label else ()))
            for value in values or (None,):
                family.labels("0", self._model, *((value,) if value else ()))
        self._cache_queries = self._counter("prefix_cache_queries").labels("0", self._model)
        self._preemptions = self._counter("num_preemptions").labels("0", self._model)
        self._prompt_tokens = self._counter("prompt_tokens").labels("0", self._model)
        by_source = self._counter("prompt_tokens_by_source", "source")
        sources = ("local_compute", "local_cache_hit", "external_kv_transfer")
        shares = {source: by_source.labels("0", self._model, source) for source in sources}
        self._prompt_tokens_computed = shares["local_compute"]
        self._generation_tokens = self._counter("generation_tokens").labels("0", self._model)
        success = self._counter("request_success", "finished_reason")
        reasons = ("stop", "length", "abort", "error", "repetition")
        self._success = {reason: success.labels("0", self._model, reason) for reason in reasons}
        # The one family of the engine without an ``engine`` label.
        rejections = Counter(
            "vllm:admission_rejections",
            "admission rejections",
            ("model_name", "reason"),
            registry=self._registry,
        )
        for reason in ("max_num_queued_reqs", "max_num_queued_tokens"):
            rejections.labels(self._model, reason)

    def _declare_histograms(self) -> None:
        lengths = length_bounds(self._limits.max_model_len)
        self._prompt_length = self._histogram("request_prompt_tokens", lengths)
        self._output_length = self._histogram("request_generation_tokens", lengths)
        self._step_tokens = self._histogram("iteration_tokens_total", STEP_TOKEN_BOUNDS)
        self._longest_output = self._histogram("request_max_num_generation_tokens", lengths)
        self._samples = self._histogram("request_params_n", SAMPLE_COUNT_BOUNDS)
        self._max_tokens = self._histogram("request_params_max_tokens", lengths)
        self._first_token = self._histogram("time_to_first_token_seconds", FIRST_TOKEN_BOUNDS)
        self._token_gap = self._histogram("inter_token_latency_seconds", TOKEN_GAP_BOUNDS)
        self._mean_token_time = self._histogram("request_time_per_output_token_seconds", TOKEN_GAP_BOUNDS)
        self._end_to_end = self._histogram("e2e_request_latency_seconds", REQUEST_BOUNDS)
        self._queue_time = self._histogram("request_queue_time_seconds", REQUEST_BOUNDS)
        self._inference_time = self._histogram("request_inference_time_seconds", REQUEST_BOUNDS)
        self._prefill_time = self._histogram("request_prefill_time_seconds", REQUEST_BOUNDS)
        self._decode_time = self._histogram("request_decode_time_seconds", REQUEST_BOUNDS)
        self._request_preemptions = self._histogram("request_num_preemptions", PREEMPTION_BOUNDS)
        self._computed_tokens = self._histogram("request_prefill_kv_computed_tokens", lengths)

    def _declare_cache(self) -> None:
        tokens = self._limits.kv_tokens
        values = {
            "engine": "0",
            "block_size": str(BLOCK_TOKENS),
            "num_gpu_blocks": str(tokens // BLOCK_TOKENS),
            "kv_cache_size_tokens": str(tokens),
            "kv_cache_max_concurrency": str(tokens / self._limits.max_model_len),
            "enable_prefix_caching": "False",
            "cache_dtype": "auto",
            "num_gpu_blocks_override": "None",
        }
        info = Gauge("vllm:cache_config_info", "cache configuration", tuple(values), registry=self._registry)
        info.labels(**values).set(1)

    def _declare_http(self) -> None:
        self._http_requests = Counter(
            "http_requests", "responses ended", ("handler", "method", "status"), registry=self._registry
        )
        self._http_request_bytes = Summary(
            "http_request_size_bytes", "request bodies", ("handler",), registry=self._registry
        )
        self._http_response_bytes = Summary(
            "http_response_size_bytes", "response bodies", ("handler",), registry=self._registry
        )
        self._http_fine = Histogram(
            "http_request_duration_highr_seconds",
            "durations",
            buckets=HTTP_FINE_BOUNDS,
            registry=self._registry,
        )
        self._http_coarse = Histogram(
            "http_request_duration_seconds",
            "durations by handler",
            ("handler", "method"),
            buckets=HTTP_COARSE_BOUNDS,
            registry=self._registry,
        )


def without_family(page: bytes, family: str) -> bytes:
    """The page with one family's lines taken out, ``family`` as its TYPE line names it."""
    return b"".join(_lines_outside(page.splitlines(keepends=True), family))


def _lines_outside(lines: Iterable[bytes], family: str) -> Iterable[bytes]:
    inside = False
    for line in lines:
        if line.startswith((b"# HELP ", b"# TYPE ")):
            inside = line.split(b" ", 3)[2].strip() == family.encode()
        if not inside:
            yield line


def with_not_a_number(page: bytes) -> bytes:
    """The page with every value of the engine's own series replaced by NaN."""
    others = (b"#", b"python_", b"process_", b"http_")
    lines = page.splitlines()
    return b"".join(line + b"\n" if line.startswith(others) else line.rsplit(b" ", 1)[0] + b" NaN\n" for line in lines)
