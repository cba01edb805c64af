"""Triton's metrics page over the engine as a batch server: one step is one execution.

With prompts and outputs of one token, a step over b requests takes base + b x (cost of a prefilled token): a model
with dynamic batching. Rules: src/infer_stats.cc of triton-inference-server/core. Everything moves with the response,
but the pending gauge: up as a request is queued, down as its execution begins. Each request of a batch is charged the
whole execution.
"""

from __future__ import annotations

from loadtests.emulator.batching import Sequence, StepResult
from loadtests.emulator.machine import MachineUse
from loadtests.emulator.metrics_page import MetricsPage, course_s
from loadtests.emulator.plain_series import PlainSeries

_COUNTERS = (
    *("request_success", "count", "exec_count", "request_duration_us", "queue_duration_us"),
    *("compute_input_duration_us", "compute_infer_duration_us", "compute_output_duration_us"),
)
_PENDING = "nv_inference_pending_request_count"
_FAILURE = "nv_inference_request_failure"


class TritonPage(MetricsPage):
    """All series of one loaded model, at zero from its loading on."""

    def __init__(self, *, model: str) -> None:
        self._labels = {"model": model, "version": "1"}
        self._series = PlainSeries()
        for name in _COUNTERS:
            self._series.declare("counter", f"nv_inference_{name}")
            self._series.set(f"nv_inference_{name}", 0, self._labels)
        self._series.declare("counter", _FAILURE)
        for reason in ("OTHER", "BACKEND", "CANCELED", "REJECTED"):
            self._series.set(_FAILURE, 0, {**self._labels, "reason": reason})
        self._series.declare("gauge", _PENDING)
        self._series.set(_PENDING, 0, self._labels)
        self._machine = MachineUse(self._series)

    def render(self) -> bytes:
        """The page now."""
        self._machine.show()
        return self._series.render()

    def enqueue(self) -> None:
        """One more is pending."""
        self._series.add(_PENDING, 1, self._labels)

    def begin_step(self, *, waiting: int) -> None:
        """The batch's requests are pending no more."""
        self._series.set(_PENDING, waiting, self._labels)

    def count_step(self, result: StepResult, *, preemptions: int) -> None:
        """An execution, where requests came to their end in it."""
        if result.finished:
            self._add("exec_count", 1)
            self._add("count", len(result.finished))

    def show_load(self, *, running: int, waiting: int, kv_used_tokens: int) -> None:
        """What a dropped request leaves pending."""
        self._series.set(_PENDING, waiting, self._labels)

    def drop(self) -> None:
        """A cancelled request is a failure."""
        self._series.add(_FAILURE, 1, {**self._labels, "reason": "CANCELED"})

    def count_finish(self, sequence: Sequence, *, reason: str, max_tokens: int) -> None:
        """A success, its waiting and its execution."""
        scheduled_s, _, last_s = course_s(sequence)
        self._add("request_success", 1)
        self._add("request_duration_us", _microseconds(last_s - sequence.arrived_s))
        self._add("queue_duration_us", _microseconds(scheduled_s - sequence.arrived_s))
        self._add("compute_infer_duration_us", _microseconds(last_s - scheduled_s))

    def _add(self, name: str, by: float) -> None:
        self._series.add(f"nv_inference_{name}", by, self._labels)


def _microseconds(time_s: float) -> int:
    return round(time_s * 1e6)
