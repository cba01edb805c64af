"""The guard in front of every route: the right host, a reader who may read, and headers that keep browsers strict."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from adapters.serving.answers import failure
from adapters.serving.auth import Gatekeeper
from adapters.serving.pages import sign_in_page

_FOR_EVERYBODY = frozenset({"/healthz", "/readyz"})
SIGN_IN_PATH = "/sign-in"
_SESSION_S = 30 * 24 * 3600
_MAX_FORM_BYTES = 4096
# Plotly writes style attributes and a style element; scripts come from our own files alone.
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class Guard:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, *, gatekeeper: Gatekeeper) -> None:
        self._app = app
        self._gatekeeper = gatekeeper

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it here."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        answer = await self._answer(Request(scope, receive))
        await (answer or self._app)(scope, receive, send_guarded)

    async def _answer(self, request: Request) -> Response | None:
        """None where the request may pass."""
        if request.url.path in _FOR_EVERYBODY:
            return None
        if not self._gatekeeper.knows_host(request.headers.getlist("host")):
            return failure(
                403,
                "UnknownHost",
                "this API answers to localhost and 127.0.0.1; add the name by which you call it to api.allowedHosts",
            )
        return None if self._gatekeeper.session is None else await self._identify(request)

    async def _identify(self, request: Request) -> Response | None:
        """None where the reader has shown the token."""
        if request.url.path == SIGN_IN_PATH and request.method == "POST":
            return await self._sign_in(request)
        if request.url.path == "/" and "token" in request.query_params:
            kept = [(key, value) for key, value in parse_qsl(request.url.query) if key != "token"]
            return self._admit(request, request.query_params["token"], f"/?{urlencode(kept)}" if kept else "/")
        if self._gatekeeper.admits(request.headers.get("authorization", ""), request.cookies):
            return None
        return _refusal(request)

    async def _sign_in(self, request: Request) -> Response:
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > _MAX_FORM_BYTES:
                return failure(413, "TooLarge", f"a sign-in has at most {_MAX_FORM_BYTES} bytes")
        fields = dict(parse_qsl(body.decode("utf-8", "replace")))
        return self._admit(request, fields.get("token", ""), "/")

    def _admit(self, request: Request, token: str, destination: str) -> Response:
        """Set the cookie and go on without the token in the address."""
        session = self._gatekeeper.session
        if session is None or not self._gatekeeper.accepts(token):
            return _refusal(request, wrong="That token is not the one.")
        answer = RedirectResponse(destination, status_code=303)
        answer.set_cookie(
            session.name,
            session.value,
            max_age=_SESSION_S,
            path="/",
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="strict",
        )
        return answer


def _refusal(request: Request, *, wrong: str = "") -> Response:
    challenge = {"www-authenticate": "Bearer"}
    if "text/html" in request.headers.get("accept", ""):
        return Response(sign_in_page(wrong), status_code=401, media_type="text/html", headers=challenge)
    message = wrong or "show the token of api.token: `Authorization: Bearer TOKEN`"
    return failure(401, "Unauthorized", message, headers=challenge)
