"""gRPC's calls upon streams of HTTP/2 (gRPC's ``doc/PROTOCOL-HTTP2.md``): messages, statuses and their texts."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from enum import IntEnum
from typing import TypeAlias
from urllib.parse import quote

from adapters.serving.keda.frames import header_block
from adapters.serving.keda.streams import Stream

_log = logging.getLogger(__name__)

Unary: TypeAlias = Callable[[bytes], bytes]
Streaming: TypeAlias = Callable[[bytes], AsyncGenerator[bytes, None]]

PREFIX_BYTES = 5
_CONTENT_TYPE = "application/grpc"
# Clients take 8 KiB of headers, unless told otherwise (gRPC core: GRPC_ARG_MAX_METADATA_SIZE).
_MAX_DETAILS_BYTES = 4096


class Status(IntEnum):
    """How a call ends (gRPC's ``doc/statuscodes.md``)."""

    OK = 0
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    NOT_FOUND = 5
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


class RefusedCallError(Exception):
    """A call that ends with this status."""

    def __init__(self, status: Status, details: str) -> None:
        super().__init__(details)
        self.status = status
        self.details = details


_HEADERS = header_block((":status", "200"), ("content-type", _CONTENT_TYPE), ("grpc-accept-encoding", "identity"))
_OK = header_block(("grpc-status", "0"))
_NO_GRPC = header_block((":status", "415"))


class Calls:
    """Answers streams by methods from bytes to bytes, which are called in the event loop's thread.

    A method ends its call with RefusedCallError.
    """

    def __init__(self, service: str, *, unary: Mapping[str, Unary], streaming: Mapping[str, Streaming]) -> None:
        self._unary = {f"/{service}/{name}".encode(): method for name, method in unary.items()}
        self._streaming = {f"/{service}/{name}".encode(): method for name, method in streaming.items()}

    def answer(self, stream: Stream) -> None:
        """A request that is whole, or too long."""
        if not stream.headers.get(b"content-type", b"").startswith(_CONTENT_TYPE.encode()):
            stream.finish(_NO_GRPC)
            return
        path = stream.headers.get(b":path", b"")
        unary = self._unary.get(path)
        try:
            message = _message(stream)
            if unary is not None:
                stream.respond(_HEADERS, _prefixed(unary(message)), _OK)
            elif path in self._streaming:
                stream.run(self._stream(stream, self._streaming[path](message)))
            else:
                raise RefusedCallError(Status.UNIMPLEMENTED, f"there is no method {path.decode(errors='replace')}")
        except Exception as error:
            stream.finish(header_block((":status", "200"), ("content-type", _CONTENT_TYPE), *_ending(error)))

    async def _stream(self, stream: Stream, messages: AsyncGenerator[bytes, None]) -> None:
        begun = False
        ending: tuple[tuple[str, str], ...] = (("grpc-status", "0"),)
        try:
            async with aclosing(messages):
                async for each in messages:
                    if not begun:
                        stream.begin(_HEADERS)
                        begun = True
                    await stream.send(_prefixed(each))
        except Exception as error:
            ending = _ending(error)
        first = () if begun else ((":status", "200"), ("content-type", _CONTENT_TYPE))
        stream.finish(header_block(*first, *ending))


def _message(stream: Stream) -> bytes:
    """The one message of a request. Raises RefusedCallError."""
    body = stream.body
    if stream.too_long:
        raise RefusedCallError(Status.RESOURCE_EXHAUSTED, "the message is longer than any trigger's")
    if len(body) < PREFIX_BYTES or len(body) != PREFIX_BYTES + int.from_bytes(body[1:PREFIX_BYTES], "big"):
        raise RefusedCallError(Status.INTERNAL, "a request is one whole message")
    if body[0]:
        raise RefusedCallError(Status.UNIMPLEMENTED, "messages are taken uncompressed alone")
    return bytes(body[PREFIX_BYTES:])


def _prefixed(message: bytes) -> bytes:
    return b"\x00" + len(message).to_bytes(4, "big") + message


def _ending(error: Exception) -> tuple[tuple[str, str], ...]:
    if not isinstance(error, RefusedCallError):
        _log.error("external scaler: a call failed", exc_info=error)
        return (("grpc-status", str(int(Status.UNKNOWN))), ("grpc-message", "the call failed; the log says why"))
    return (("grpc-status", str(int(error.status))), ("grpc-message", _encoded(error.details)))


def _encoded(text: str) -> str:
    """Printable ASCII but the percent sign stays as it is (``doc/PROTOCOL-HTTP2.md``, Status-Message)."""
    encoded = quote(text, safe=" !\"#$&'()*+,/:;<=>?@[\\]^`{|}")
    if len(encoded) <= _MAX_DETAILS_BYTES:
        return encoded
    return re.sub("%.?$", "", encoded[:_MAX_DETAILS_BYTES]) + "..."
