"""TGI 3's metrics page: every series appears with its first use, requests are counted at receipt (a chat request
twice), and times, lengths and tokens when a request has finished.

Rules: router/src/server.rs and backends/v3/src of huggingface/text-generation-inference. The queue's gauge rises as
a request joins it and is set when a batch is taken, so that of an engine that hangs only grows.
"""

from __future__ import annotations

from loadtests.emulator.batching import EngineLimits, Sequence, StepResult
from loadtests.emulator.metrics_page import MetricsPage, course_s
from loadtests.emulator.plain_series import PlainSeries

TIME_BOUNDS = tuple([0.0001 * 1.5**n for n in range(1, 36)])
_REQUEST_TIMES = ("request_duration", "request_queue_duration", "request_inference_duration")
_TOKEN_TIME = "request_mean_time_per_token_duration"


class TgiPage(MetricsPage):
    """All series of one TGI router."""

    def __init__(self, *, limits: EngineLimits) -> None:
        lengths = [limits.max_model_len * (n + 1) / 100 for n in range(100)]
        series = PlainSeries()
        series.declare("counter", "tgi_request_count", "tgi_request_success", "tgi_request_failure")
        series.declare("counter", "tgi_batch_inference_count", "tgi_batch_inference_success")
        series.declare("gauge", "tgi_queue_size", "tgi_batch_current_size", "tgi_batch_current_max_tokens")
        series.declare("gauge", "tgi_batch_max_total_tokens")
        series.declare("histogram", *[f"tgi_{name}" for name in (*_REQUEST_TIMES, _TOKEN_TIME)], bounds=TIME_BOUNDS)
        series.declare("histogram", "tgi_request_input_length", "tgi_request_generated_tokens", bounds=lengths)
        series.set("tgi_batch_max_total_tokens", limits.kv_tokens)
        self._series = series

    def render(self) -> bytes:
        """The page now."""
        return self._series.render()

    def receive(self, *, chat: bool) -> None:
        """One for the handler, and one more for the generation that the chat handler calls."""
        self._series.add("tgi_request_count", 2 if chat else 1)

    def refuse(self) -> None:
        """Validation has failed."""
        self._series.add("tgi_request_failure", labels={"err": "validation"})

    def enqueue(self) -> None:
        """The gauge rises; nothing lowers it but a batch that is taken."""
        self._series.add("tgi_queue_size")

    def begin_step(self, *, waiting: int) -> None:
        """A batch is taken."""
        self._series.set("tgi_queue_size", waiting)

    def count_step(self, result: StepResult, *, preemptions: int) -> None:
        """A prefill, a decode, or both."""
        first = any(gap_s is None for _, gap_s in result.tokens)
        later = any(gap_s is not None for _, gap_s in result.tokens)
        for method, happened in (("prefill", first), ("decode", later)):
            if happened:
                self._series.add("tgi_batch_inference_count", labels={"method": method})
                self._series.add("tgi_batch_inference_success", labels={"method": method})

    def show_load(self, *, running: int, waiting: int, kv_used_tokens: int) -> None:
        """The batch; requests whose client has gone stay in the queue until a batch is taken."""
        self._series.set("tgi_batch_current_size", running)
        self._series.set("tgi_batch_current_max_tokens", kv_used_tokens)

    def count_finish(self, sequence: Sequence, *, reason: str, max_tokens: int) -> None:
        """A success with its times and lengths."""
        scheduled_s, _, last_s = course_s(sequence)
        times_s = (last_s - sequence.arrived_s, scheduled_s - sequence.arrived_s, last_s - scheduled_s)
        self._series.add("tgi_request_success")
        for name, time_s in zip(_REQUEST_TIMES, times_s, strict=True):
            self._series.observe(f"tgi_{name}", time_s)
        self._series.observe(f"tgi_{_TOKEN_TIME}", (last_s - scheduled_s) / sequence.generated)
        self._series.observe("tgi_request_input_length", sequence.prompt_tokens)
        self._series.observe("tgi_request_generated_tokens", sequence.generated)
