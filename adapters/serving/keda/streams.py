"""One request and its answer on a connection of HTTP/2."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Protocol

from adapters.serving.keda.frames import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    MAX_FRAME_BYTES,
    RST_STREAM,
    ErrorCode,
    frame,
)


class Sending(Protocol):
    """What a stream needs of its connection. ``window``: how many bytes of DATA it may still send."""

    window: int

    def write(self, data: bytes) -> None:
        """Send this after what was sent."""

    def ended(self, stream: Stream) -> None:
        """Nothing more is sent on it."""


class Stream:
    """``headers``, ``body``: the request's. ``too_long``: it went on beyond what is allowed, and was cut.

    ``window``: how many bytes of DATA the client lets us send on it.
    """

    __slots__ = (
        "_connection",
        "_drained",
        "_task",
        "_trailers",
        "_waited",
        "_waiting",
        "answered",
        "body",
        "headers",
        "number",
        "received",
        "too_long",
        "unacknowledged",
        "window",
    )

    def __init__(self, connection: Sending, number: int, headers: dict[bytes, bytes], *, window: int) -> None:
        self.number = number
        self.headers = headers
        self.body = bytearray()
        self.received = False
        self.too_long = False
        self.answered = False
        self.unacknowledged = 0
        self.window = window
        self._connection = connection
        self._waiting = bytearray()
        self._waited = False
        self._trailers: bytes | None = None
        self._drained: asyncio.Event | None = None
        self._task: asyncio.Task[None] | None = None

    def respond(self, headers: bytes, data: bytes, trailers: bytes) -> None:
        """The whole answer, as blocks of headers with data between them."""
        fits = len(data) <= min(self.window, self._connection.window, MAX_FRAME_BYTES)
        if self._waiting or not fits:
            self.begin(headers)
            self._waiting += data
            self.finish(trailers)
            return
        self.window -= len(data)
        self._connection.window -= len(data)
        number = self.number
        self._connection.write(
            frame(HEADERS, END_HEADERS, number, headers)
            + frame(DATA, 0, number, data)
            + frame(HEADERS, END_HEADERS | END_STREAM, number, trailers)
        )
        self._end()

    def begin(self, headers: bytes) -> None:
        """The first block of headers."""
        self._connection.write(frame(HEADERS, END_HEADERS, self.number, headers))

    async def send(self, data: bytes) -> None:
        """Data, once the client takes it."""
        self._waiting += data
        self.push()
        if self._waiting:
            self._drained = asyncio.Event()
            await self._drained.wait()

    def finish(self, trailers: bytes) -> None:
        """The last block of headers, after the data."""
        self._trailers = trailers
        self.push()

    def push(self) -> None:
        """Send as much of what waits as the client allows."""
        while self._waiting:
            size = min(len(self._waiting), self.window, self._connection.window, MAX_FRAME_BYTES)
            if size <= 0:
                return
            self._connection.write(frame(DATA, 0, self.number, bytes(self._waiting[:size])))
            del self._waiting[:size]
            self.window -= size
            self._connection.window -= size
        if self._drained is not None:
            self._drained.set()
        if self._trailers is not None and not self.answered:
            self._connection.write(frame(HEADERS, END_HEADERS | END_STREAM, self.number, self._trailers))
            self._end()

    def overdue(self) -> bool:
        """Whether it waits for its client, and did when this was last asked: for the request's rest, or for room."""
        waits = not self.received or bool(self._waiting)
        overdue, self._waited = waits and self._waited, waits
        return overdue

    def run(self, answering: Coroutine[None, None, None]) -> None:
        """Answer by this; it is cancelled where the client leaves."""
        self._task = asyncio.get_running_loop().create_task(answering)

    def cancel(self) -> None:
        """The client has left."""
        self.answered = True
        if self._task is not None:
            self._task.cancel()

    def _end(self) -> None:
        self.answered = True
        if not self.received:  # the client need not send the rest (RFC 9113, section 8.1)
            self._connection.write(frame(RST_STREAM, 0, self.number, int(ErrorCode.NO_ERROR).to_bytes(4, "big")))
        self._connection.ended(self)
