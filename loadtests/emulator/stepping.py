"""The engine in real time: one loop that sleeps until the next step boundary and hands out that step's
tokens.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

from loadtests.emulator.batching import ContinuousBatching, Sequence, StepResult
from loadtests.emulator.metrics_page import MetricsPage


class TokenSink(Protocol):
    """Where a request's tokens go. Called from the stepping loop, so neither may block nor raise."""

    def token(self) -> None:
        """One token more, not the last one."""
        ...

    def last_token(self) -> None:
        """The last token; the request has finished."""
        ...


class Stepper:
    """Runs a ``ContinuousBatching`` by the monotonic clock.

    Boundaries are added up, not measured: a machine that wakes late hands out late tokens at once and is on
    time again at the next boundary, so the mean step time is the model's. ``slowdown`` stretches steps that
    begin from then on.
    """

    def __init__(self, *, engine: ContinuousBatching, page: MetricsPage) -> None:
        self.slowdown = 1.0
        self._engine = engine
        self._page = page
        self._sinks: dict[Sequence, TokenSink] = {}
        self._work = asyncio.Event()
        self._free = asyncio.Event()
        self._free.set()

    def submit(self, sequence: Sequence, sink: TokenSink) -> None:
        """Queue a request. Raises ValueError where it is too long for the engine."""
        self._engine.submit(sequence)
        self._sinks[sequence] = sink
        self._page.enqueue()
        self._work.set()
        if not self._free.is_set():
            self._show_load()

    def abort(self, sequence: Sequence) -> None:
        """Drop a request whose client has gone; nothing happens where it has finished."""
        if self._sinks.pop(sequence, None) is not None:
            self._engine.abort(sequence)
            self._page.drop()
            self._show_load()

    def hang(self) -> None:
        """Take no further step; the step under way hands out nothing."""
        self._free.clear()

    def release(self) -> None:
        """Go on after ``hang``."""
        self._free.set()

    async def run(self) -> None:
        """Step for ever."""
        boundary_s = time.monotonic()
        while True:
            preemptions = self._engine.preemptions
            duration_s = self._engine.begin_step(time.monotonic())
            if duration_s is None:
                self._work.clear()
                await self._work.wait()
                boundary_s = time.monotonic()
                continue
            self._page.begin_step(waiting=self._engine.waiting)
            boundary_s += duration_s * self.slowdown
            await asyncio.sleep(max(0.0, boundary_s - time.monotonic()))
            if not self._free.is_set():
                await self._free.wait()
                boundary_s = time.monotonic()
            result = self._engine.end_step(time.monotonic())
            self._page.count_step(result, preemptions=self._engine.preemptions - preemptions)
            self._show_load()
            self._hand_out(result)

    def _hand_out(self, result: StepResult) -> None:
        for sequence, _ in result.tokens:
            if sequence.finished:
                self._sinks.pop(sequence).last_token()
            else:
                self._sinks[sequence].token()

    def _show_load(self) -> None:
        self._page.show_load(
            running=self._engine.running,
            waiting=self._engine.waiting,
            kv_used_tokens=self._engine.kv_used_tokens,
        )
