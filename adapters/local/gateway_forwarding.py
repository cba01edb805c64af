"""Passes one request on to a replica, and its answer back, chunk by chunk as it comes."""

from __future__ import annotations

import asyncio
import socket
import struct

import aiohttp
from aiohttp import HttpVersion11, hdrs, web
from yarl import URL

from adapters.local.gateway_headers import for_client, for_replica
from adapters.local.gateway_metrics import Exchange
from adapters.local.gateway_probing import Prober
from adapters.local.gateway_receiving import Body, target_of
from adapters.local.gateway_traffic import Lane, Traffic
from adapters.local.gateway_waiting import Place
from adapters.local.routes import Endpoint

# An idle connection is not used again when it has been idle for nearly as long as servers keep theirs (uvicorn, which
# carries vLLM, SGLang and Ray Serve, 5 s): a request sent into a closing connection would be lost.
_IDLE_CONNECTION_S = 2.0
_MAX_HEADER_BYTES = 64 * 1024


class ReplicaFailedError(Exception):
    """The replica took the request and did not answer it, or not to the end."""


def open_session() -> aiohttp.ClientSession:
    """Connections to the replicas: any number, nothing added to the requests, nothing unpacked, nothing retried."""
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE_CONNECTION_S),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        skip_auto_headers=(hdrs.ACCEPT, hdrs.ACCEPT_ENCODING, hdrs.CONTENT_TYPE, hdrs.USER_AGENT),
        max_line_size=_MAX_HEADER_BYTES,
        max_field_size=_MAX_HEADER_BYTES,
    )
    # aiohttp sends GETs and PUTs a second time when a connection breaks, with no public switch; a request that may
    # have begun is not ours to repeat.
    session._retry_connection = False
    return session


class Forwarder:
    """Finds a replica that takes the request, waiting for one where it may, and relays the answer."""

    def __init__(self, traffic: Traffic, session: aiohttp.ClientSession, prober: Prober) -> None:
        self._traffic = traffic
        self._session = session
        self._prober = prober

    async def forward(
        self,
        request: web.BaseRequest,
        body: Body,
        *,
        lane: Lane,
        exchange: Exchange,
        place: Place,
        max_waiting: int,
        connect_timeout_s: float,
    ) -> web.StreamResponse:
        """The answer, sent; the exchange is finished then.

        Raises ReplicaFailedError, ConnectionError where the client has gone, and what WaitingRoom.wait raises.
        """
        while True:
            endpoint = await self._find(lane, exchange, place, max_waiting)
            try:
                upstream = await self._open(request, body, endpoint, connect_timeout_s)
                try:
                    body.release()
                    return await _relay(request, upstream, exchange)
                finally:
                    upstream.close()  # keeps the connection where the answer was read to its end
            except _NotConnectedError:
                if self._traffic.table.refused(endpoint):
                    self._prober.watch(endpoint, connect_timeout_s=connect_timeout_s)
            finally:
                self._traffic.table.end(endpoint)

    async def _find(self, lane: Lane, exchange: Exchange, place: Place, max_waiting: int) -> Endpoint:
        loop = asyncio.get_running_loop()
        while (endpoint := self._traffic.table.begin(lane.policy.service)) is None:
            since_s = loop.time()
            try:
                await lane.room.wait(place, max_waiting=max_waiting)
            finally:
                exchange.held(loop.time() - since_s)
        return endpoint

    async def _open(
        self, request: web.BaseRequest, body: Body, endpoint: Endpoint, connect_timeout_s: float
    ) -> aiohttp.ClientResponse:
        try:
            return await self._session.request(
                request.method,
                URL(endpoint.url.rstrip("/") + target_of(request), encoded=True),
                headers=for_replica(request.headers, client=request.remote, scheme=request.scheme),
                data=body.data or None,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=connect_timeout_s),
            )
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise _NotConnectedError from error
        except (aiohttp.ClientError, OSError) as error:
            raise ReplicaFailedError(f"{endpoint.replica}: {type(error).__name__}") from error


class _NotConnectedError(Exception):
    """No connection, so nothing of the request has been sent."""


async def _relay(request: web.BaseRequest, upstream: aiohttp.ClientResponse, exchange: Exchange) -> web.StreamResponse:
    loop = asyncio.get_running_loop()
    exchange.begins(status=upstream.status, media_type=upstream.content_type)
    headers = for_client(upstream.headers)
    if upstream.content.is_eof() and request.method != hdrs.METH_HEAD:  # all of it is here: send it in one piece
        content = await _next_chunk(upstream)
        exchange.passes(content, loop.time())
        whole = web.Response(status=upstream.status, reason=upstream.reason, headers=headers, body=content)
        await whole.prepare(request)
        await whole.write_eof()
        exchange.finish(loop.time())
        return whole
    answer = web.StreamResponse(status=upstream.status, reason=upstream.reason, headers=headers)
    await answer.prepare(request)
    while chunk := await _next_chunk(upstream):
        exchange.passes(chunk, loop.time())
        await answer.write(chunk)  # waits while the client is slower than the replica
    await answer.write_eof()
    exchange.finish(loop.time())
    return answer


async def _next_chunk(upstream: aiohttp.ClientResponse) -> bytes:
    """All that has come by now, as soon as there is anything; empty at the end."""
    try:
        return await upstream.content.readany()
    except (aiohttp.ClientError, OSError) as error:
        raise ReplicaFailedError(type(error).__name__) from error


def break_off(request: web.BaseRequest) -> web.StreamResponse:
    """Close the client's connection in such a way that it can't take the answer so far for the whole of it.

    Returns an answer that will not be sent, as aiohttp wants one.
    """
    transport = request.transport
    if transport is not None:
        if request.version < HttpVersion11:
            # Without chunks the end of the connection may be the end of the answer; a reset is not.
            connection: socket.socket = transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            transport.abort()
        else:
            transport.close()
    return web.Response()
