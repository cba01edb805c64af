"""Reading what the server sends: a whole body by a deadline, or line after line until the server is silent."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from contextlib import suppress
from time import monotonic
from types import TracebackType
from typing import Final

import urllib3
from kubernetes.client import ApiException

from autoscaler.ports import InvalidAnswerError, PortError, RefusedError, UnavailableError

FAILURES: Final = (urllib3.exceptions.HTTPError, ApiException, http.client.HTTPException, OSError, ValueError)
_MAX_BODY_BYTES: Final = 512 * 1024 * 1024
_MAX_LINE_BYTES: Final = 64 * 1024 * 1024
_PIECE_BYTES: Final = 256 * 1024


class LineStream:
    """The lines of one answer, as they come. A context manager; ``close`` may be called from another thread."""

    def __init__(self, response: urllib3.BaseHTTPResponse, *, doing: str) -> None:
        self._response = response
        self._doing = doing

    def __iter__(self) -> Iterator[bytes]:
        """Lines without their end, until the server ends the answer. Raises UnavailableError where it breaks off."""
        rest = bytearray()
        while True:
            try:
                piece = self._response.read1(_PIECE_BYTES, decode_content=True)
            except FAILURES as error:
                raise broken(self._doing, error) from error
            if not piece:
                return
            searched = len(rest)
            rest += piece
            if (end := rest.rfind(b"\n", searched)) < 0:
                if len(rest) > _MAX_LINE_BYTES:
                    raise InvalidAnswerError(f"{self._doing}: a line of more than {_MAX_LINE_BYTES} bytes")
                continue
            whole, rest = bytes(rest[:end]), rest[end + 1 :]
            yield from (line for line in whole.split(b"\n") if line.strip())

    def close(self) -> None:
        """End it; a thread that waits for the next line is woken. May be called twice."""
        with suppress(*FAILURES, RuntimeError):  # RuntimeError: it ended and its connection serves others
            self._response.shutdown()

    def __enter__(self) -> LineStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        self._response.close()


def body_of(response: urllib3.BaseHTTPResponse, *, doing: str, ends_s: float) -> bytes:
    """The whole body by ``ends_s`` (of the monotonic clock). Raises UnavailableError after it, or if it breaks off."""
    pieces: list[bytes] = []
    size = 0
    try:
        while True:
            left_s = ends_s - monotonic()
            if left_s <= 0:
                raise UnavailableError(f"{doing}: the answer was not complete in time")
            if (socket := getattr(response.connection, "sock", None)) is not None:
                # A server that sends a byte now and then would otherwise start the read timeout anew each time.
                socket.settimeout(left_s)
            piece = response.read1(_PIECE_BYTES, decode_content=True)
            if not piece:
                break
            size += len(piece)
            if size > _MAX_BODY_BYTES:
                raise InvalidAnswerError(f"{doing}: an answer of more than {_MAX_BODY_BYTES} bytes")
            pieces.append(piece)
    except FAILURES as error:
        response.close()
        raise broken(doing, error) from error
    except PortError:
        response.close()
        raise
    response.release_conn()
    return b"".join(pieces)


def broken(doing: str, error: Exception) -> PortError:
    """What a failed connection means: a certificate nobody trusts is for a person, all else may pass."""
    told = " ".join(str(error).split()) or type(error).__name__
    if "CERTIFICATE_VERIFY_FAILED" in told:
        return RefusedError(f"{doing}: the server's certificate isn't signed by the configured authority: {told}")
    return UnavailableError(f"{doing}: {told}")
