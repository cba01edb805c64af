"""What is sent back: always JSON with its content type (client-go takes an answer without one for protobuf)."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import Enum

JSON = "application/json"
_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


class Failure(Enum):
    """Kinds of failure: HTTP status and the ``reason`` of a metav1.Status (apimachinery, pkg/apis/meta/v1/types.go).

    429 is none of them: client-go asks again ten times inside one round of the HPA.
    """

    BAD_REQUEST = (400, "BadRequest")
    UNAUTHORIZED = (401, "Unauthorized")
    FORBIDDEN = (403, "Forbidden")
    NOT_FOUND = (404, "NotFound")
    METHOD_NOT_ALLOWED = (405, "MethodNotAllowed")
    INTERNAL_ERROR = (500, "InternalError")
    UNAVAILABLE = (503, "ServiceUnavailable")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Status, body and headers of an HTTP answer."""

    status: int = 200
    body: bytes
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = field(default=())


class FailedError(Exception):
    """The request ends in a failure; ``str`` is the sentence that the caller reads."""

    def __init__(self, failure: Failure, message: str, *, headers: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(message)
        self.failure = failure
        self.headers = headers


def json_bytes(document: object) -> bytes:
    """Compact JSON in ASCII. Raises ValueError for NaN and infinities."""
    return _ENCODER.encode(document).encode()


def failed(error: FailedError) -> Answer:
    """The failure as a metav1.Status, whose message an HPA shows word by word in its condition and events."""
    code, reason = error.failure.value
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": str(error),
        "reason": reason,
        "code": code,
    }
    return Answer(status=code, body=json_bytes(status), headers=error.headers)


def plain(text: str, *, status: int = 200) -> Answer:
    """A probe's answer."""
    return Answer(status=status, body=text.encode(), content_type="text/plain; charset=utf-8")
