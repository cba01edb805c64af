"""What an answer of the API server that is no success means to the caller: one of the ``PortError`` kinds.

Status codes and the Status object: Kubernetes API conventions, "Response Status Kind" and "HTTP Status codes".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from autoscaler.ports import ConflictError, InvalidAnswerError, PortError, RefusedError, UnavailableError

_SHOWN_CHARACTERS = 500
_UNNAMED_USER = "system:anonymous"


class NotFoundError(RefusedError):
    """No such object, or no such kind of object on this server."""


class GoneError(UnavailableError):
    """The version or page asked for is no longer kept: list anew."""


class BusyError(UnavailableError):
    """The server asks for a pause."""

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


_MEANINGS: Final[Mapping[int, type[PortError]]] = {
    404: NotFoundError,
    408: UnavailableError,
    409: ConflictError,
    410: GoneError,
}


def error_of(*, doing: str, code: int, headers: Mapping[str, str], body: bytes) -> PortError:
    """The error for a status ``code`` other than 2xx; ``doing`` names the verb and the path."""
    message = f"{doing}: {code} {_told(body)}".rstrip()
    if code in _MEANINGS:
        return _MEANINGS[code](message)
    if code == 429 or (code >= 500 and "retry-after" in headers):
        return BusyError(message, retry_after_s=_pause_s(headers.get("retry-after", "")))
    if code >= 500:
        return UnavailableError(message)
    if code >= 400:
        if _UNNAMED_USER in message:
            message += " (no credentials were sent: does the user of the kubeconfig, or its exec plugin, give any?)"
        return RefusedError(message)
    return InvalidAnswerError(message)


def _told(body: bytes) -> str:
    """The Status object's message, which names verb, resource and user; else the beginning of what came."""
    try:
        status = json.loads(body)
        if isinstance(status, dict) and isinstance(status.get("message"), str):
            return str(status["message"])
    except (ValueError, RecursionError):
        pass
    return body[:_SHOWN_CHARACTERS].decode("utf-8", "replace")


def _pause_s(retry_after: str) -> float:
    """Seconds of a Retry-After header; the API server writes whole seconds, never a date."""
    return float(min(int(retry_after), 60)) if retry_after.isdecimal() else 1.0
