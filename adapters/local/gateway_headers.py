"""Header fields on their way through: those that belong to one connection are dropped (RFC 9110, 7.6.1)."""

from __future__ import annotations

from collections.abc import Mapping

from multidict import CIMultiDict, CIMultiDictProxy

from adapters.local.gateway_choosing import SERVICE_HEADER

_HOP_BY_HOP = frozenset(
    {
        "connection",
        "http2-settings",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
# Set anew for the replica's connection. The body was read whole, so what was expected has been done.
_OF_THIS_REQUEST = frozenset({"content-length", "expect", "host", SERVICE_HEADER.lower()})


def for_replica(headers: CIMultiDictProxy[str], *, client: str | None, scheme: str) -> CIMultiDict[str]:
    """A request's header fields as the replica gets them. ``client``: the address the request came from."""
    passed = _without_connection_fields(headers, _HOP_BY_HOP | _OF_THIS_REQUEST)
    if client is not None:
        came_through = ", ".join(passed.popall("X-Forwarded-For", []))
        passed["X-Forwarded-For"] = f"{came_through}, {client}" if came_through else client
    passed.setdefault("X-Forwarded-Proto", scheme)
    if "Host" in headers:
        passed.setdefault("X-Forwarded-Host", headers["Host"])
    return passed


def for_client(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    """An answer's header fields as the client gets them."""
    return _without_connection_fields(headers, _HOP_BY_HOP)


def asks_for_upgrade(headers: Mapping[str, str]) -> bool:
    """The request can't be served as plain HTTP. An offer of HTTP/2 may be passed over (RFC 9110, 7.8)."""
    return headers.get("Upgrade", "h2c").strip().lower() != "h2c"


def _without_connection_fields(headers: CIMultiDictProxy[str], dropped: frozenset[str]) -> CIMultiDict[str]:
    for named in headers.getall("Connection", ()):
        dropped = dropped | {field.strip().lower() for field in named.split(",")}
    return CIMultiDict([(name, value) for name, value in headers.items() if name.lower() not in dropped])
