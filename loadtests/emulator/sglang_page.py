"""SGLang's metrics page: first tokens and gaps live, requests at their end, and gauges that lag.

Rules: python/sglang/srt/metrics/collector.py and the scheduler's metrics of sgl-project/sglang. The scheduler writes
its gauges and the live token counters at a prefill and at every 40th decode step; when it goes idle they keep their
last values, and are written again only after some 30 s (sgl-project/sglang#26495).
"""

from __future__ import annotations

import time
from collections.abc import Callable

from loadtests.emulator.batching import EngineLimits, Sequence, StepResult
from loadtests.emulator.metrics_page import MetricsPage, course_s
from loadtests.emulator.plain_series import PlainSeries

LOG_INTERVAL_STEPS = 40
IDLE_FLUSH_S = 30.0
FIRST_TOKEN_BOUNDS = (
    *(0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 20.0, 40.0, 60.0, 80.0, 100.0, 200.0, 400.0),
)
TOKEN_GAP_BOUNDS = (0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.03, 0.04, 0.06, 0.08, 0.1, 0.2, 0.4, 1.0, 8.0)
REQUEST_BOUNDS = (*FIRST_TOKEN_BOUNDS, 600.0, 1200.0, 1800.0, 2400.0)
QUEUE_BOUNDS = (0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 3000.0)
_GAUGES = ("num_running_reqs", "num_queue_reqs", "num_grammar_queue_reqs", "token_usage")
_COUNTERS = ("num_requests_total", "num_aborted_requests_total", "prompt_tokens_total", "generation_tokens_total")


class SglangPage(MetricsPage):
    """All series of one engine. ``clock``: seconds that only grow."""

    def __init__(self, *, model: str, limits: EngineLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self._labels = {"engine_type": "unified", "model_name": model}
        self._limits = limits
        self._clock = clock
        self._steps = 0
        self._log_due = False
        self._idle_since_s: float | None = None
        self._unlogged = {"prefill_compute": 0, "decode": 0}
        series = PlainSeries()
        series.declare("gauge", *[f"sglang:{name}" for name in _GAUGES], "sglang:max_total_num_tokens")
        series.declare("counter", *[f"sglang:{name}" for name in _COUNTERS], "sglang:realtime_tokens_total")
        for name, bounds in (
            ("time_to_first_token_seconds", FIRST_TOKEN_BOUNDS),
            ("inter_token_latency_seconds", TOKEN_GAP_BOUNDS),
            ("e2e_request_latency_seconds", REQUEST_BOUNDS),
            ("queue_time_seconds", QUEUE_BOUNDS),
        ):
            series.declare("histogram", f"sglang:{name}", bounds=bounds)
        self._series = series
        series.set("sglang:max_total_num_tokens", limits.kv_tokens, self._labels)
        self._write_gauges(0, 0, 0)

    def render(self) -> bytes:
        """The page now."""
        if self._idle_since_s is not None and self._clock() - self._idle_since_s >= IDLE_FLUSH_S:
            self._write_gauges(0, 0, 0)
        return self._series.render()

    def count_step(self, result: StepResult, *, preemptions: int) -> None:
        """First tokens and gaps at once; tokens when they are logged."""
        self._steps += 1
        first_tokens = 0
        for sequence, gap_s in result.tokens:
            if gap_s is not None:
                self._series.observe("sglang:inter_token_latency_seconds", gap_s, self._labels)
            elif sequence.first_token_s is not None:
                first_tokens += 1
                waited_s = sequence.first_token_s - sequence.arrived_s
                self._series.observe("sglang:time_to_first_token_seconds", waited_s, self._labels)
        self._unlogged["prefill_compute"] += result.admitted_tokens
        self._unlogged["decode"] += len(result.tokens)
        self._log_due = first_tokens > 0 or self._steps % LOG_INTERVAL_STEPS == 0

    def show_load(self, *, running: int, waiting: int, kv_used_tokens: int) -> None:
        """Written where the step is one that is logged, else kept to oneself."""
        idle = running + waiting == 0
        if not idle:
            self._idle_since_s = None
        elif self._idle_since_s is None:
            self._idle_since_s = self._clock()
        if self._log_due:
            self._log_due = False
            for mode, tokens in self._unlogged.items():
                self._series.add("sglang:realtime_tokens_total", tokens, {**self._labels, "mode": mode})
                self._unlogged[mode] = 0
            if not idle:
                self._write_gauges(running, waiting, kv_used_tokens)

    def drop(self) -> None:
        """An aborted request."""
        self._series.add("sglang:num_aborted_requests_total", 1, self._labels)

    def count_finish(self, sequence: Sequence, *, reason: str, max_tokens: int) -> None:
        """A completed request with its times and tokens."""
        scheduled_s, _, last_s = course_s(sequence)
        for name, by in (
            ("num_requests_total", 1),
            ("prompt_tokens_total", sequence.prompt_tokens),
            ("generation_tokens_total", sequence.generated),
        ):
            self._series.add(f"sglang:{name}", by, self._labels)
        self._series.observe("sglang:e2e_request_latency_seconds", last_s - sequence.arrived_s, self._labels)
        self._series.observe("sglang:queue_time_seconds", scheduled_s - sequence.arrived_s, self._labels)

    def _write_gauges(self, running: int, waiting: int, kv_used_tokens: int) -> None:
        values = (running, waiting, 0, kv_used_tokens / self._limits.kv_tokens)
        for name, value in zip(_GAUGES, values, strict=True):
            self._series.set(f"sglang:{name}", value, self._labels)
