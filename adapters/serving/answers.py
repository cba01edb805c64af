"""JSON answers, compressed where the client takes it, and errors of one shape."""

from __future__ import annotations

import gzip
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from autoscaler.codec import encode

_COMPRESSED_FROM_BYTES = 1024


def answer(request: Request, value: object, *, status: int = 200) -> Response:
    """A value in canonical JSON. Raises ValueError where it holds NaN or an infinity."""
    return compressed(request, encode(value), media_type="application/json", status=status)


def failure(
    status: int,
    kind: str,
    message: str,
    *,
    nearest: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """What went wrong and what to do: {"error": {"kind", "message"}} and, for a wrong name, the "nearest" right one."""
    error = {"kind": kind, "message": message}
    if nearest is not None:
        error["nearest"] = nearest
    return Response(encode({"error": error}), status, dict(headers or {}), "application/json")


def compressed(request: Request, body: bytes, *, media_type: str, status: int = 200) -> Response:
    """The body, gzipped if it is worth it and the client takes gzip."""
    headers = {"vary": "accept-encoding"}
    if len(body) >= _COMPRESSED_FROM_BYTES and takes_gzip(request):
        body = gzip.compress(body, compresslevel=4)
        headers["content-encoding"] = "gzip"
    return Response(body, status, headers, media_type)


def takes_gzip(request: Request) -> bool:
    """True if the client said so."""
    return "gzip" in request.headers.get("accept-encoding", "").lower()
