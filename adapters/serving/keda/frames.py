"""The frames of HTTP/2 (RFC 9113, section 4 and 6), those that gRPC needs, and headers without a table of their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
MAX_FRAME_BYTES: Final = 16_384
MOST_WINDOW_BYTES: Final = 2**31 - 1
FIRST_WINDOW_BYTES: Final = 65_535
MOST_STREAM: Final = 2**31 - 1

DATA: Final = 0x0
HEADERS: Final = 0x1
RST_STREAM: Final = 0x3
SETTINGS: Final = 0x4
PUSH_PROMISE: Final = 0x5
PING: Final = 0x6
GOAWAY: Final = 0x7
WINDOW_UPDATE: Final = 0x8
CONTINUATION: Final = 0x9

ACK: Final = 0x1
END_STREAM: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
WITH_PRIORITY: Final = 0x20

MAX_CONCURRENT_STREAMS: Final = 0x3
INITIAL_WINDOW_SIZE: Final = 0x4
MAX_HEADER_LIST_SIZE: Final = 0x6

_HEAD_BYTES = 9


class ErrorCode(IntEnum):
    """Why a stream or a connection ends (RFC 9113, section 7)."""

    NO_ERROR = 0x0
    PROTOCOL_ERROR = 0x1
    FLOW_CONTROL_ERROR = 0x3
    STREAM_CLOSED = 0x5
    FRAME_SIZE_ERROR = 0x6
    REFUSED_STREAM = 0x7
    COMPRESSION_ERROR = 0x9
    ENHANCE_YOUR_CALM = 0xB


class BrokenConnectionError(Exception):
    """The other side breaks the protocol, so that nothing more can be read from it."""

    def __init__(self, code: ErrorCode, why: str) -> None:
        super().__init__(why)
        self.code = code


@dataclass(slots=True)
class Frame:
    """One frame as it came. ``stream`` 0: of the connection."""

    kind: int
    flags: int
    stream: int
    payload: bytes

    def content(self) -> bytes:
        """Of DATA and HEADERS, without padding and priority. Raises BrokenConnectionError."""
        begin, end = 0, len(self.payload)
        if self.flags & PADDED:
            begin, end = 1, end - (self.payload[0] if self.payload else 1)
        if self.kind == HEADERS and self.flags & WITH_PRIORITY:
            begin += 5
        if begin > end:
            raise BrokenConnectionError(ErrorCode.PROTOCOL_ERROR, "padding or priority longer than its frame")
        return self.payload[begin:end] if begin or end < len(self.payload) else self.payload


class FrameReader:
    """Bytes as they come, cut into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self.greeted = False

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that are whole now. Raises BrokenConnectionError where it is no HTTP/2, or a frame is too long."""
        buffer = self._buffer
        buffer += data
        if not self.greeted:
            if not PREFACE.startswith(buffer[: len(PREFACE)]):
                raise BrokenConnectionError(ErrorCode.PROTOCOL_ERROR, "no HTTP/2")
            if len(buffer) < len(PREFACE):
                return
            del buffer[: len(PREFACE)]
            self.greeted = True
        at = 0
        while len(buffer) - at >= _HEAD_BYTES:
            begin = at + _HEAD_BYTES
            end = begin + int.from_bytes(buffer[at : at + 3], "big")
            if end - begin > MAX_FRAME_BYTES:
                raise BrokenConnectionError(ErrorCode.FRAME_SIZE_ERROR, f"a frame of {end - begin} bytes")
            if len(buffer) < end:
                break
            stream = int.from_bytes(buffer[at + 5 : begin], "big") & MOST_STREAM
            yield Frame(buffer[at + 3], buffer[at + 4], stream, bytes(buffer[begin:end]))
            at = end
        del buffer[:at]


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """One frame to send."""
    return b"%b%c%c%b%b" % (len(payload).to_bytes(3, "big"), kind, flags, stream.to_bytes(4, "big"), payload)


def settings(values: dict[int, int]) -> bytes:
    """The content of a SETTINGS frame."""
    return b"".join(key.to_bytes(2, "big") + value.to_bytes(4, "big") for key, value in values.items())


def goaway(last_stream: int, code: ErrorCode, why: str) -> bytes:
    """Requests after ``last_stream`` are not answered."""
    return frame(GOAWAY, 0, 0, last_stream.to_bytes(4, "big") + int(code).to_bytes(4, "big") + why.encode())


def reset(stream: int, code: ErrorCode) -> bytes:
    """Nothing more comes on the stream."""
    return frame(RST_STREAM, 0, stream, int(code).to_bytes(4, "big"))


def header_block(*headers: tuple[str, str]) -> bytes:
    """Headers as literals that no table remembers (RFC 7541, section 6.2.2), so that each block stands for itself."""
    return b"".join(b"\x00" + _string(name) + _string(value) for name, value in headers)


def _string(text: str) -> bytes:
    """RFC 7541, section 5.1 and 5.2: a length with a prefix of 7 bits, then the bytes."""
    data = text.encode("ascii")
    rest = len(data) - 0x7F
    if rest < 0:
        return bytes([len(data)]) + data
    length = bytearray([0x7F])
    while rest >= 0x80:
        length.append(rest & 0x7F | 0x80)
        rest >>= 7
    length.append(rest)
    return bytes(length) + data
