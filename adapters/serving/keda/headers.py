"""Headers of requests: blocks that come in several frames, and the table that all blocks of a connection share."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hpack import Decoder
from hpack.exceptions import HPACKError, OversizedHeaderListError

from adapters.serving.keda.frames import (
    CONTINUATION,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    BrokenConnectionError,
    ErrorCode,
    Frame,
)

MAX_HEADER_BYTES = 16 * 1024
# All that answers depend on. A stream that stays open must not keep whatever else its client has put there.
_READ = frozenset((b":path", b"content-type"))
_MOST_VALUE_BYTES = 256
# A block begins with two changes of the table's size at most (RFC 7541, section 4.2).
_RESIZED_AGAIN = re.compile(rb"(?:[\x20-\x3e]|\x3f[\x80-\xff]*[\x00-\x7f]){3}")


@dataclass(slots=True)
class Head:
    """Headers of one stream, those that are read here, cut if long. ``ends``: nothing comes after them."""

    stream: int
    headers: dict[bytes, bytes]
    ends: bool


class HeaderReader:
    """Frames of HEADERS and CONTINUATION, as they come."""

    def __init__(self) -> None:
        self._decoder = Decoder(max_header_list_size=MAX_HEADER_BYTES)
        self._first: Frame | None = None
        self._block = bytearray()

    def expects(self, frame: Frame) -> bool:
        """Between the frames of one block no other may come (RFC 9113, section 6.10)."""
        if self._first is None:
            return frame.kind != CONTINUATION
        return frame.kind == CONTINUATION and frame.stream == self._first.stream

    def take(self, frame: Frame) -> Head | None:
        """The headers, once they are whole. Raises BrokenConnectionError."""
        if frame.kind == HEADERS:
            if frame.stream % 2 == 0:
                raise BrokenConnectionError(ErrorCode.PROTOCOL_ERROR, f"no stream of a client: {frame.stream}")
            if frame.flags & END_HEADERS:
                return self._head(frame, frame.content())
            self._first, self._block = frame, bytearray(frame.content())
            return None
        first = self._first
        self._block += frame.payload
        if first is None or len(self._block) > MAX_HEADER_BYTES or not frame.payload:
            raise BrokenConnectionError(ErrorCode.ENHANCE_YOUR_CALM, "headers without end")
        if not frame.flags & END_HEADERS:
            return None
        self._first = None
        return self._head(first, bytes(self._block))

    def _head(self, first: Frame, block: bytes) -> Head:
        if _RESIZED_AGAIN.match(block):
            raise BrokenConnectionError(ErrorCode.COMPRESSION_ERROR, "the table is resized again and again")
        try:
            all_headers = self._decoder.decode(block, raw=True)
        except OversizedHeaderListError as error:
            raise BrokenConnectionError(ErrorCode.ENHANCE_YOUR_CALM, "more headers than are taken") from error
        except HPACKError as error:
            raise BrokenConnectionError(ErrorCode.COMPRESSION_ERROR, "headers that can't be read") from error
        headers = {name: value[:_MOST_VALUE_BYTES] for name, value in all_headers if name in _READ}
        return Head(first.stream, headers, bool(first.flags & END_STREAM))
