"""What a metrics page is told of an engine's life; each engine's page makes of it what that engine would."""

from __future__ import annotations

from enum import StrEnum

from loadtests.emulator.batching import Sequence, StepResult


class PageOf(StrEnum):
    """The engine whose metrics page is shown."""

    VLLM = "vllm"
    TGI = "tgi"
    SGLANG = "sglang"
    TRITON = "triton"


class MetricsPage:
    """A page and the moments at which it may count. A moment that an engine doesn't count at leaves it as it is."""

    def render(self) -> bytes:
        """The page now, in Prometheus' text format."""
        raise NotImplementedError

    def receive(self, *, chat: bool) -> None:
        """A request has reached the HTTP handler."""

    def refuse(self) -> None:
        """A received request was answered with an error before it was queued."""

    def enqueue(self) -> None:
        """A request has joined the queue."""

    def begin_step(self, *, waiting: int) -> None:
        """A step begins with its batch chosen; ``waiting`` requests are left in the queue."""

    def count_step(self, result: StepResult, *, preemptions: int) -> None:
        """A step has ended, with ``preemptions`` at its beginning."""

    def show_load(self, *, running: int, waiting: int, kv_used_tokens: int) -> None:
        """The load after a step or after a request was dropped."""

    def drop(self) -> None:
        """A request was taken out unfinished, its client gone."""

    def count_finish(self, sequence: Sequence, *, reason: str, max_tokens: int) -> None:
        """A request has all its tokens. ``reason``: "stop" or "length"."""

    def count_http(
        self, *, handler: str, status: int, duration_s: float, request_bytes: int, response_bytes: int
    ) -> None:
        """An HTTP exchange has ended."""


def course_s(sequence: Sequence) -> tuple[float, float, float]:
    """When a finished request was scheduled, had its first token and its last one. Raises ValueError before that."""
    scheduled_s, first_s, last_s = sequence.scheduled_s, sequence.first_token_s, sequence.last_token_s
    if scheduled_s is None or first_s is None or last_s is None:
        raise ValueError("a request finishes after its first token")
    return scheduled_s, first_s, last_s
