"""The gateway's own answers, in the form of OpenAI's error objects."""

from __future__ import annotations

import json

from aiohttp import web

from adapters.local.gateway_choosing import Unroutable

# When to ask again. How long a replica needs to start is the controller's knowledge, so this is a modest guess.
RETRY_AFTER_S = 5


def json_answer(status: int, content: object) -> web.Response:
    """Any content."""
    return web.Response(status=status, body=json.dumps(content).encode(), content_type="application/json")


def error(status: int, message: str, *, kind: str, code: str | None = None, param: str | None = None) -> web.Response:
    """OpenAI's error object; ``kind`` is its ``type``."""
    return json_answer(status, {"error": {"message": message, "type": kind, "param": param, "code": code}})


def busy(message: str) -> web.Response:
    """503, ask again later."""
    answer = error(503, message, kind="service_unavailable", code="service_unavailable")
    answer.headers["Retry-After"] = str(RETRY_AFTER_S)
    return answer


def unroutable(found: Unroutable) -> web.Response:
    """404: no service is meant by this request."""
    return error(404, found.message, kind="invalid_request_error", code=found.code, param=found.param)


def client_error(status: int, message: str, *, code: str) -> web.Response:
    """The client's fault; the connection is closed, since the rest of its request may still be under way."""
    return closing(error(status, message, kind="invalid_request_error", code=code))


def upstream_error(status: int, message: str) -> web.Response:
    """The replica's fault."""
    return error(status, message, kind="upstream_error", code="upstream_error")


def closing(answer: web.Response) -> web.Response:
    """The last answer on its connection."""
    answer.force_close()
    return answer
