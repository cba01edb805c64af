"""Live updates as server-sent events.

A client has no queue: it is told that the board changed and then sent what changed since it was last sent anything.
A client that reads slowly skips what was overtaken meanwhile, and one that takes nothing for ``send_timeout_s`` is let
go; neither costs more than one answer's memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from adapters.serving.store import Board, DecisionBoard
from adapters.serving.views import list_of
from autoscaler.codec import encode


class Streams:
    """All open event streams of one API."""

    def __init__(
        self,
        board: DecisionBoard,
        *,
        now_s: Callable[[], float],
        max_clients: int = 64,
        heartbeat_s: float = 5.0,
        gather_s: float = 0.05,
        send_timeout_s: float = 20.0,
    ) -> None:
        """``gather_s``: what is published within it goes out together."""
        self.board = board
        self.now_s = now_s
        self.max_clients = max_clients
        self.heartbeat_s = heartbeat_s
        self.gather_s = gather_s
        self.send_timeout_s = send_timeout_s
        self.closing = False
        self._open: set[_Pulse] = set()

    @property
    def clients(self) -> int:
        """Streams open now."""
        return len(self._open)

    def open(self) -> EventStream | None:
        """A stream for one more client; None where there are too many, or where the API stops."""
        return EventStream(self) if len(self._open) < self.max_clients and not self.closing else None

    def close(self) -> None:
        """End all streams. Safe from any thread."""
        self.closing = True
        for pulse in tuple(self._open):
            pulse.wake()

    def enter(self) -> _Pulse:
        """Take part in the board's changes."""
        pulse = _Pulse(asyncio.get_running_loop())
        pulse.leave = self.board.subscribe(pulse.wake)
        self._open.add(pulse)
        return pulse

    def exit(self, pulse: _Pulse) -> None:
        """No longer."""
        pulse.leave()
        self._open.discard(pulse)


class _Pulse:
    """Wakes one stream, from any thread; many wakes before it runs are one."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.leave: Callable[[], None] = lambda: None
        self._loop = loop
        self._beat = asyncio.Event()
        self._asked = False

    def wake(self) -> None:
        """Let ``wait`` return."""
        if not self._asked and not self._loop.is_closed():
            self._asked = True
            self._loop.call_soon_threadsafe(self._beat.set)

    async def wait(self, timeout_s: float) -> bool:
        """True when woken, False when the time is over."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._beat.wait()
        except TimeoutError:
            return False
        self._beat.clear()
        self._asked = False
        return True


class EventStream(Response):
    """One client's stream: all services first, then those that changed, and a heartbeat in between."""

    def __init__(self, streams: Streams) -> None:
        super().__init__(media_type="text/event-stream")
        # The length is not known; a proxy in front must not wait for more before it passes something on.
        del self.headers["content-length"]
        self.headers["x-accel-buffering"] = "no"
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the client leaves, takes nothing more, or the API stops."""
        pulse = self._streams.enter()
        sending = asyncio.create_task(self._send_all(send, pulse))
        leaving = asyncio.create_task(_until_gone(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._streams.exit(pulse)
            for task in (sending, leaving):
                task.cancel()
            results = await asyncio.gather(sending, leaving, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception) and not isinstance(result, TimeoutError | OSError):
                raise result

    async def _send_all(self, send: Send, pulse: _Pulse) -> None:
        streams = self._streams
        start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        await send(start)
        await self._send(send, b"retry: 2000\n\n")
        sent = -1
        while not streams.closing:
            board = streams.board.board
            if board.version > sent:
                await self._send(send, self._services(board, newer_than=sent))
                sent = board.version
            elif not await pulse.wait(streams.heartbeat_s):
                await self._send(send, _event("heartbeat", encode({"now_s": streams.now_s()})))
            else:
                await asyncio.sleep(streams.gather_s)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _services(self, board: Board, *, newer_than: int) -> bytes:
        return _event("services", encode(list_of(board, now_s=self._streams.now_s(), newer_than=newer_than)))

    async def _send(self, send: Send, body: bytes) -> None:
        """Raises TimeoutError where the client's buffers stay full."""
        async with asyncio.timeout(self._streams.send_timeout_s):
            await send({"type": "http.response.body", "body": body, "more_body": True})


def _event(name: str, data: bytes) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + data + b"\n\n"


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
