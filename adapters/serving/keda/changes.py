"""Tells the coroutines of one event loop that publications have changed."""

from __future__ import annotations

import asyncio
import contextlib


class Changes:
    """Many changes made before the loop turns are one; a change made after ``next`` was called is never missed."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._next = asyncio.Event()
        self._told = False
        self._closed = False

    @property
    def closed(self) -> bool:
        """True once nothing more will come."""
        return self._closed

    def wake(self) -> None:
        """Something has changed. Safe from any thread; returns at once and raises nothing."""
        if self._told:
            return
        self._told = True
        with contextlib.suppress(RuntimeError):  # the loop has ended: nobody waits any more
            self._loop.call_soon_threadsafe(self._turn)

    def next(self) -> asyncio.Event:
        """What is set at the next change, and when this is closed. Take it before looking at publications."""
        return self._next

    def close(self) -> None:
        """Wake all who wait, for the last time. From the loop's thread."""
        self._closed = True
        self._turn()

    def _turn(self) -> None:
        self._told = False
        before, self._next = self._next, asyncio.Event()
        if self._closed:
            self._next.set()
        before.set()
