"""An event loop in a thread of its own, and its end: what still runs in it is cancelled before the loop is closed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import TypeVar

_Result = TypeVar("_Result")
_CLOSING_TIMEOUT_S = 5.0


class LoopThread:
    """Runs from its making to ``close``, which may be called from any other thread."""

    def __init__(self, name: str) -> None:
        """``name``: of the thread."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def begin(self, work: Coroutine[object, object, _Result]) -> Future[_Result]:
        """Begin work in the loop, and return at once. Cancelling the future cancels the work."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self, last: Callable[[], Awaitable[None]] | None = None) -> None:
        """Cancel what runs, do what is to be done ``last``, and end the thread. Idempotent.

        Raises TimeoutError where that takes more than 5 s, and what ``last`` raises.
        """
        if self._loop.is_closed():
            return
        self.begin(self._end(last)).result(timeout=_CLOSING_TIMEOUT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=_CLOSING_TIMEOUT_S)
        self._loop.close()

    async def _end(self, last: Callable[[], Awaitable[None]] | None) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        if last is not None:
            await last()
        await self._loop.shutdown_asyncgens()
