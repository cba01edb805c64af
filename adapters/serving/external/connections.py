"""Connections: how many there may be, and how long one may stay that has proven nothing."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from adapters.serving.external.authentication import Caller

# What http.Transport of Go, and so kube-apiserver, keeps idle connections for is 90 s; it is never us who close one
# under a request.
IDLE_S = 120.0
_MAX_TARGET_BYTES = 8 * 1024
_MAX_HEADER_BYTES = 32 * 1024
_LINGER_S = 1.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Deadline:
    transport: asyncio.Transport
    timer: asyncio.TimerHandle


class Connections(web.Server):
    """The HTTP server of all connections.

    A connection is cut off unless a request on it proves who asks within ``unproven_s``, be it silent, or slow, or
    sending its request letter by letter. Where there are too many, such a connection is the first to go, then one of a
    direct caller; never one of the front proxy, through which the HPAs read.
    """

    def __init__(self, handler: Any, *, most: int, unproven_s: float) -> None:
        """``handler``: coroutine function from aiohttp's BaseRequest to its StreamResponse."""
        super().__init__(
            handler,
            access_log=None,  # who reads what is nobody's business
            logger=_log,
            auto_decompress=False,
            keepalive_timeout=IDLE_S,
            lingering_time=_LINGER_S,
            max_line_size=_MAX_TARGET_BYTES,
            max_field_size=_MAX_HEADER_BYTES,
        )
        self._most = most
        self._unproven_s = unproven_s
        self._unproven: dict[web.RequestHandler, _Deadline] = {}
        self._direct: dict[web.RequestHandler, asyncio.Transport] = {}

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """aiohttp's; after the TLS handshake."""
        super().connection_made(handler, transport)
        if len(self.connections) > self._most:
            self._make_room(transport)
        timer = asyncio.get_running_loop().call_later(self._unproven_s, self._cut_off, handler)
        self._unproven[handler] = _Deadline(transport, timer)

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        """aiohttp's."""
        self._settle(handler)
        self._direct.pop(handler, None)
        super().connection_lost(handler, exc)

    def proven(self, handler: web.RequestHandler, caller: Caller) -> None:
        """It may stay."""
        deadline = self._settle(handler)
        if deadline is not None and not caller.proxied:
            self._direct[handler] = deadline.transport

    async def close(self, within_s: float) -> None:
        """Finish the requests that have begun, then end all connections, those too whose peers take nothing."""
        transports = [
            handler.transport for handler in self.connections if isinstance(handler.transport, asyncio.Transport)
        ]
        self.pre_shutdown()
        await self.shutdown(within_s)
        for transport in transports:
            _abort(transport)
        await asyncio.sleep(0)  # let them notice

    def _make_room(self, newcomer: asyncio.Transport) -> None:
        """The oldest goes; the newcomer itself where all others are the front proxy's."""
        if self._unproven:
            self._cut_off(next(iter(self._unproven)))
        elif self._direct:
            _abort(self._direct.pop(next(iter(self._direct))))
        else:
            _abort(newcomer)

    def _cut_off(self, handler: web.RequestHandler) -> None:
        deadline = self._settle(handler)
        if deadline is not None:
            _abort(deadline.transport)

    def _settle(self, handler: web.RequestHandler) -> _Deadline | None:
        """Its deadline, which counts no more."""
        deadline = self._unproven.pop(handler, None)
        if deadline is not None:
            deadline.timer.cancel()
        return deadline


def _worth_telling(record: logging.LogRecord) -> bool:
    """Not what is no HTTP: anybody can send that, as often as they like."""
    return record.exc_info is None or not isinstance(record.exc_info[1], HttpProcessingError)


_log.addFilter(_worth_telling)


def _abort(transport: asyncio.Transport) -> None:
    """End it at once.

    A TLS transport that was closed twice is on its way out; CPython 3.11.2 (Debian 12's) forgets its connection then
    and fails on it here.
    """
    with suppress(AttributeError):
        transport.abort()
