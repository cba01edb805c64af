"""A gRPC client that costs little, so that what it measures is the server: the frames of HTTP/2 written by hand.

One connection, unary calls, plain text, no compression of headers (RFC 9113, RFC 7541; gRPC's
``doc/PROTOCOL-HTTP2.md``). It acknowledges settings and pings, as every client must, and does no more.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY, _WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
_END_STREAM, _ACK, _END_HEADERS = 0x1, 0x1, 0x4
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEAD_BYTES = 9
# Room for all answers of a run, so that the window never has to be opened again.
_WINDOW_BYTES = 2**31 - 1 - 65_535


@dataclass
class Call:
    """One call under way; ``answer`` is its message's bytes once it is done."""

    begun_s: float
    data: bytearray = field(default_factory=bytearray)
    took_s: float | None = None

    @property
    def answer(self) -> bytes:
        """Without gRPC's prefix of a flag and a length."""
        return bytes(self.data[5:])


class LeanClient(asyncio.Protocol):
    """Calls one method."""

    def __init__(self, path: str) -> None:
        self._headers = _header_block(path)
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._calls: dict[int, Call] = {}
        self._next_stream = 1
        self._idle = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say hello."""
        if not isinstance(transport, asyncio.Transport):
            raise TypeError(f"{transport} is no stream")
        self._transport = transport
        window = _WINDOW_BYTES.to_bytes(4, "big")
        transport.write(_PREFACE + _frame(_SETTINGS, 0, 0, b"") + _frame(_WINDOW_UPDATE, 0, 0, window))

    def call(self, message: bytes) -> Call:
        """Send a message; the answer comes later."""
        if self._transport is None or self._transport.is_closing():
            raise SystemExit("the server has closed the connection")
        stream, self._next_stream = self._next_stream, self._next_stream + 2
        data = b"\x00" + len(message).to_bytes(4, "big") + message
        call = self._calls[stream] = Call(begun_s=time.perf_counter())
        self._idle.clear()
        self._transport.write(
            _frame(_HEADERS, _END_HEADERS, stream, self._headers) + _frame(_DATA, _END_STREAM, stream, data)
        )
        return call

    async def all_answered(self) -> None:
        """Wait for what is under way."""
        if self._calls:
            await self._idle.wait()

    def data_received(self, data: bytes) -> None:
        """Take frames as they come."""
        self._buffer += data
        while len(self._buffer) >= _HEAD_BYTES:
            end = _HEAD_BYTES + int.from_bytes(self._buffer[:3], "big")
            if len(self._buffer) < end:
                return
            kind, flags = self._buffer[3], self._buffer[4]
            stream = int.from_bytes(self._buffer[5:9], "big")
            payload = bytes(self._buffer[_HEAD_BYTES:end])
            del self._buffer[:end]
            self._take(kind, flags, stream, payload)

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind in (_SETTINGS, _PING) and not flags & _ACK and self._transport is not None:
            self._transport.write(_frame(kind, _ACK, 0, payload if kind == _PING else b""))
        elif kind in (_RST_STREAM, _GOAWAY):
            raise SystemExit(f"the server ends {'a call' if kind == _RST_STREAM else 'the connection'}: {payload!r}")
        elif kind == _DATA:
            self._calls[stream].data += payload
        if kind in (_DATA, _HEADERS) and flags & _END_STREAM:
            call = self._calls.pop(stream)
            call.took_s = time.perf_counter() - call.begun_s
            if not self._calls:
                self._idle.set()


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def _header_block(path: str) -> bytes:
    headers = {
        ":method": "POST",
        ":scheme": "http",
        ":path": path,
        ":authority": "localhost",
        "content-type": "application/grpc",
        "te": "trailers",
    }
    return b"".join(b"\x00" + _text(name) + _text(value) for name, value in headers.items())


def _text(text: str) -> bytes:
    data = text.encode()
    if len(data) >= 127:
        raise ValueError(f"{text}: a length of {len(data)} takes more than a byte")
    return bytes([len(data)]) + data
