"""Where a request's tokens go on their way to its client."""

from __future__ import annotations

import asyncio

from loadtests.emulator.openai import Frames


class WholeSink:
    """Of a request that is answered in one piece: only its end matters."""

    def __init__(self) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def token(self) -> None:
        """Nothing to send yet."""

    def last_token(self) -> None:
        """The answer can be sent."""
        if not self.done.done():
            self.done.set_result(None)


class StreamSink:
    """Writes each token's frame straight to the connection.

    The frames are complete HTTP chunks, so that a token costs one write and wakes no task.
    """

    def __init__(self, transport: asyncio.WriteTransport, frames: Frames, *, chunked: bool) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.sent_bytes = 0
        self._transport = transport
        frame = _chunk if chunked else bytes
        self._first = frame(frames.first) if frames.first else b""
        self._token = frame(frames.token)
        self._last = frame(frames.last)

    def token(self) -> None:
        """Send a token."""
        self._write(self._first + self._token)
        self._first = b""

    def last_token(self) -> None:
        """Send the last token and what follows it."""
        self._write(self._first + self._last)
        if not self.done.done():
            self.done.set_result(None)

    def _write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)
            self.sent_bytes += len(data)


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)
