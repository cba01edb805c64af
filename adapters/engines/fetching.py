"""One page over HTTP, bounded in time and size."""

from __future__ import annotations

import asyncio
import zlib
from http import HTTPStatus

import aiohttp
from yarl import URL

from adapters.engines.content import wrong_type
from adapters.engines.fetched import FetchedPage
from adapters.http_failures import in_words
from autoscaler.domain.reading import Unknown, UnknownReason

_MAX_REDIRECTS = 3
_REDIRECTS = frozenset(
    {
        HTTPStatus.MOVED_PERMANENTLY,
        HTTPStatus.FOUND,
        HTTPStatus.SEE_OTHER,
        HTTPStatus.TEMPORARY_REDIRECT,
        HTTPStatus.PERMANENT_REDIRECT,
    }
)
_HEADERS = {"Accept": "text/plain;version=0.0.4,*/*;q=0.1", "Accept-Encoding": "identity"}
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS


def open_session(*, max_connections: int) -> aiohttp.ClientSession:
    """A session for ``fetch_page``; keeps connections. To be called in, and closed by, the event loop that uses it."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=max_connections),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),  # fetch_page bounds the whole exchange itself
        headers=_HEADERS,
        auto_decompress=False,
    )


async def fetch_page(
    session: aiohttp.ClientSession, url: str, *, timeout_s: float, max_bytes: int
) -> FetchedPage | Unknown:
    """The page at ``url``, or why there is none. Follows redirects within the same scheme, host and port only.

    ``timeout_s`` bounds it all, the last byte included. ``max_bytes`` bounds the body as sent and as decompressed.
    """
    try:
        address = URL(url)
        if address.scheme not in ("http", "https") or not address.host:
            return Unknown(UnknownReason.UNREACHABLE, "no http address")  # its text may hold a password
        async with asyncio.timeout(timeout_s):
            return await _follow(session, address, max_bytes)
    except TimeoutError:
        return Unknown(UnknownReason.TIMEOUT, f"no full answer within {timeout_s:g} s")
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return Unknown(_reason(error), in_words(error)[:200])


def _reason(error: Exception) -> UnknownReason:
    if isinstance(error, aiohttp.ClientConnectionError) or not isinstance(error, aiohttp.ClientError):
        return UnknownReason.UNREACHABLE
    if isinstance(error, aiohttp.ClientPayloadError):
        return UnknownReason.MALFORMED_PAGE  # the body was cut short
    return UnknownReason.HTTP_ERROR


async def _follow(session: aiohttp.ClientSession, url: URL, max_bytes: int) -> FetchedPage | Unknown:
    for _ in range(_MAX_REDIRECTS + 1):
        async with session.get(url, allow_redirects=False) as response:
            location = response.headers.get("Location")
            if response.status in _REDIRECTS and location is not None:
                target = _target(url, location)
                if target is None:
                    detail = f"{response.status} to another server, not followed: {location[:100]!r}"
                    return Unknown(UnknownReason.HTTP_ERROR, detail)
                url = target
                continue
            answer = await _read(response, max_bytes)
            if isinstance(answer, Unknown):
                response.close()  # the rest of the body isn't waited for
            return answer
    return Unknown(UnknownReason.HTTP_ERROR, f"more than {_MAX_REDIRECTS} redirects")


def _target(url: URL, location: str) -> URL | None:
    """Where a redirect leads; None where that is another server, or nowhere."""
    try:
        target = url.join(URL(location))
    except ValueError:
        return None
    return target if (target.scheme, target.host, target.port) == (url.scheme, url.host, url.port) else None


async def _read(response: aiohttp.ClientResponse, max_bytes: int) -> FetchedPage | Unknown:
    if response.status != HTTPStatus.OK:
        return Unknown(UnknownReason.HTTP_ERROR, f"{response.status} {response.reason or ''}".strip())
    content_type = response.headers.get("Content-Type", "")
    wrong = wrong_type(content_type)
    if wrong is not None:
        return wrong
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip", "x-gzip", "deflate"):
        return Unknown(UnknownReason.WRONG_CONTENT, f"compressed with {encoding[:40]}; gzip is read")
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > max_bytes:
            return _too_large(max_bytes)
    return FetchedPage(bytes(body), content_type) if encoding == "identity" else _inflate(body, content_type, max_bytes)


def _inflate(body: bytearray, content_type: str, max_bytes: int) -> FetchedPage | Unknown:
    inflater = zlib.decompressobj(_GZIP_OR_ZLIB)
    try:
        text = inflater.decompress(body, max_bytes + 1)
    except zlib.error as error:
        return Unknown(UnknownReason.MALFORMED_PAGE, f"not the compression it claims: {error}")
    if len(text) > max_bytes:
        return _too_large(max_bytes)
    if not inflater.eof or inflater.unused_data:
        return Unknown(UnknownReason.MALFORMED_PAGE, "compressed body cut short or followed by something else")
    return FetchedPage(text, content_type)


def _too_large(max_bytes: int) -> Unknown:
    return Unknown(UnknownReason.PAGE_TOO_LARGE, f"more than {max_bytes} bytes")
