"""HTTP/2 by hand, for what no client library sends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from adapters.serving.keda.connection import Connection
from adapters.serving.keda.limits import Limits
from adapters.serving.keda.streams import Stream

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
LIMITS = Limits(max_message_bytes=1000, max_streams=3, age_s=3600.0)
PATH = "/externalscaler.ExternalScaler/GetMetrics"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)


@dataclass(frozen=True)
class Sent:
    """A frame as the server sent it."""

    kind: int
    flags: int
    stream: int
    payload: bytes


class Wire(asyncio.Transport):
    """Keeps what is written; nothing is closed before it is looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def get_write_buffer_size(self) -> int:
        return len(self.written)

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abort = close


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def settings(**values: int) -> bytes:
    """By number: ``s4=0`` lets no data be sent on a stream."""
    return frame(
        SETTINGS,
        payload=b"".join(int(key[1:]).to_bytes(2, "big") + value.to_bytes(4, "big") for key, value in values.items()),
    )


def block(path: str = PATH, kind: str = "application/grpc") -> bytes:
    """Headers of a request, each a literal."""
    headers = {":method": "POST", ":scheme": "http", ":path": path, "content-type": kind, "te": "trailers"}
    return b"".join(
        b"\x00" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
        for name, value in headers.items()
    )


def message(content: bytes, *, flag: int = 0) -> bytes:
    return bytes([flag]) + len(content).to_bytes(4, "big") + content


def request(stream: int, content: bytes = b"asked", **said: str) -> bytes:
    """A whole one."""
    return frame(HEADERS, 0x4, stream, block(**said)) + frame(DATA, 0x1, stream, message(content))


def frames(data: bytes | bytearray) -> list[Sent]:
    found = []
    while data:
        end = 9 + int.from_bytes(data[:3], "big")
        assert len(data) >= end, "a frame is cut off"
        found.append(Sent(data[3], data[4], int.from_bytes(data[5:9], "big"), bytes(data[9:end])))
        data = data[end:]
    return found


def converse(
    pieces: Sequence[bytes], answer: Callable[[Stream], None], limits: Limits = LIMITS
) -> tuple[list[Sent], Wire]:
    """What a connection sends to a client that sends these, and how it is left."""

    async def talk() -> Wire:
        wire = Wire()
        connection = Connection(limits, answer, lambda _: True, lambda _: None)
        connection.connection_made(wire)
        for piece in pieces:
            connection.data_received(piece)
        connection.connection_lost(None)
        return wire

    wire = asyncio.run(talk())
    return frames(wire.written), wire


def answers(sent: Sequence[Sent]) -> dict[int, list[tuple[int, int, bytes]]]:
    """Frames by stream, in their order."""
    found: dict[int, list[tuple[int, int, bytes]]] = {}
    for each in sent:
        if each.stream:
            found.setdefault(each.stream, []).append((each.kind, each.flags, each.payload))
    return found
