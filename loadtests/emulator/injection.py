"""Faults at work: which hold now, when they end, and what they do to the page and to the engine."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Callable, Coroutine
from dataclasses import dataclass

from loadtests.emulator.faults import EngineFault, Fault, Faults, PageFault
from loadtests.emulator.metrics_page import MetricsPage
from loadtests.emulator.page import with_not_a_number, without_family
from loadtests.emulator.stepping import Stepper

_TEXT = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class PageAnswer:
    """What ``/metrics`` says."""

    status: int = 200
    body: bytes = b""
    content_type: str = _TEXT


class FaultInjector:
    """Holds the faults of one engine. ``refuse`` closes its port for that many seconds and opens it again."""

    def __init__(
        self, *, page: MetricsPage, stepper: Stepper, refuse: Callable[[float], Coroutine[None, None, None]]
    ) -> None:
        self.faults = Faults()
        self._page = page
        self._stepper = stepper
        self._refuse = refuse
        self._frozen = b""
        self._page_answers = asyncio.Event()
        self._timers: list[asyncio.TimerHandle] = []
        self._refusing: asyncio.Task[None] | None = None

    def set(self, faults: Faults) -> None:
        """Make exactly these faults hold from now on."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        self._set_page(faults.page)
        self._set_engine(faults.engine)

    def fails_requests(self) -> bool:
        """Requests are to be answered with status 500."""
        return self.faults.engine is not None and self.faults.engine.kind is EngineFault.ERROR

    async def page(self) -> PageAnswer:
        """The page as the present fault lets it through; may take long, or for ever."""
        fault = self.faults.page
        if fault is not None and fault.kind is PageFault.SLOW:
            await asyncio.sleep(fault.seconds)
        elif fault is not None and fault.kind is PageFault.HANG:
            await self._page_answers.wait()
        return _spoiled(fault, self._page.render(), self._frozen)

    def _set_page(self, fault: Fault | None) -> None:
        self.faults = Faults(page=fault, engine=self.faults.engine)
        self._frozen = self._page.render()
        if fault is not None and fault.kind is PageFault.HANG:
            self._page_answers.clear()
        else:
            self._page_answers.set()
        if fault is not None and math.isfinite(fault.for_s):
            self._later(fault.for_s, lambda: self._set_page(None))

    def _set_engine(self, fault: Fault | None) -> None:
        self.faults = Faults(page=self.faults.page, engine=fault)
        kind = None if fault is None else fault.kind
        self._stepper.slowdown = fault.factor if fault is not None and kind is EngineFault.SLOW else 1.0
        if kind is EngineFault.HANG:
            self._stepper.hang()
        else:
            self._stepper.release()
        if fault is None:
            return
        if kind is EngineFault.CRASH:
            self._later(fault.seconds, lambda: os._exit(1))
        elif kind is EngineFault.REFUSE:
            # A moment later, so that the answer to the request that sets the fault still gets out.
            self._later(0.05, lambda: self._start_refusing(fault.for_s))
        if math.isfinite(fault.for_s):
            self._later(fault.for_s, lambda: self._set_engine(None))

    def _start_refusing(self, for_s: float) -> None:
        self._refusing = asyncio.ensure_future(self._refuse(for_s))

    def _later(self, delay_s: float, action: Callable[[], None]) -> None:
        self._timers.append(asyncio.get_running_loop().call_later(delay_s, action))


def _spoiled(fault: Fault | None, page: bytes, frozen: bytes) -> PageAnswer:
    answer = PageAnswer(body=page)
    match fault.kind if fault is not None else None:
        case PageFault.ERROR:
            answer = PageAnswer(status=500, body=b"Internal Server Error")
        case PageFault.EMPTY:
            answer = PageAnswer()
        case PageFault.HTML:
            answer = PageAnswer(body=b"<html><body>Welcome</body></html>", content_type="text/html")
        case PageFault.STALE:
            answer = PageAnswer(body=frozen)
        case PageFault.NOT_A_NUMBER:
            answer = PageAnswer(body=with_not_a_number(page))
        case PageFault.MISSING if fault is not None:
            answer = PageAnswer(body=without_family(page, fault.family))
    return answer
