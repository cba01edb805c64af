"""A connection that is refused costs nobody a request; a request that has begun is never sent twice."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web

from adapters.local.routes import Endpoint

if TYPE_CHECKING:
    from adapters.local.template import RoutePolicy
    from tests.gateway.conftest import Gateway, Serve

pytestmark = pytest.mark.anyio


async def hello(_: web.BaseRequest) -> web.StreamResponse:
    return web.Response(text="hello")


def absent(policy: RoutePolicy, port: int, name: str = "absent") -> Endpoint:
    """A replica that is routed to and does not listen."""
    return Endpoint(service=policy.service, replica=name, url=f"http://127.0.0.1:{port}", accepting=True)


async def test_a_refused_connection_is_tried_on_another_replica(
    gateway: Gateway, policy: RoutePolicy, serve: Serve, client: aiohttp.ClientSession, free_port: int
) -> None:
    async with serve(hello) as replica:
        gateway.route(policy, absent(policy, free_port), replica.endpoint(policy.service))
        for _ in range(20):
            async with client.post(gateway.url, data=b"body") as answer:
                assert await answer.text() == "hello"
        assert len(replica.requests) == 20
    reading = await gateway.until(policy.service, lambda reading: reading.in_flight == 0)
    assert (reading.arrivals, reading.finished, reading.failed) == (20, 20, 0)
    assert gateway.client.in_flight() == {"absent": 0, replica.name: 0}


async def test_a_replica_that_does_not_even_refuse_is_passed_over_in_time(
    own_gateway: Gateway, policy: RoutePolicy, serve: Serve, client: aiohttp.ClientSession
) -> None:
    """Its queue of connections is full: the kernel answers nothing at all."""
    own_gateway.process.settings = replace(own_gateway.process.settings, connect_timeout_s=0.2)
    own_gateway.process.ensure()
    with socket.socket() as deaf, socket.socket() as filler:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        filler.connect(deaf.getsockname())
        port = deaf.getsockname()[1]
        async with serve(hello) as replica:
            own_gateway.route(policy, absent(policy, port), replica.endpoint(policy.service))
            async with client.get(f"{own_gateway.url}/") as answer:
                assert await answer.text() == "hello"


async def test_when_all_refuse_requests_wait_until_one_listens_again(
    gateway: Gateway, policy: RoutePolicy, serve: Serve, client: aiohttp.ClientSession, free_port: int
) -> None:
    gateway.route(policy, absent(policy, free_port, "replica-0"))

    async def ask() -> str:
        async with client.post(gateway.url, data=b"body") as answer:
            return await answer.text()

    asked = [asyncio.create_task(ask()) for _ in range(10)]
    await gateway.until(policy.service, lambda reading: reading.waiting == 10)
    async with serve(hello, port=free_port):  # the routes are not touched
        assert await asyncio.gather(*asked) == ["hello"] * 10
    reading = await gateway.until(policy.service, lambda reading: reading.in_flight == 0)
    assert (reading.finished, reading.refused, reading.failed) == (10, 0, 0)


async def test_when_all_refuse_for_too_long_the_answer_is_503(
    gateway: Gateway, policy: RoutePolicy, client: aiohttp.ClientSession, free_port: int
) -> None:
    gateway.route(replace(policy, max_wait_s=0.1), absent(policy, free_port))
    async with client.post(gateway.url) as answer:
        assert answer.status == 503
        assert "Retry-After" in answer.headers


@pytest.mark.parametrize("method", ["GET", "PUT", "POST"])
async def test_a_request_that_has_begun_is_not_sent_again(
    gateway: Gateway, policy: RoutePolicy, serve: Serve, client: aiohttp.ClientSession, method: str
) -> None:
    async def hang_up(request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/warm-up":
            return web.Response()
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async with serve(hang_up) as first, serve(hang_up) as second:
        gateway.route(policy, first.endpoint(policy.service), second.endpoint(policy.service))
        for _ in range(2):  # leaves each a connection that is kept, on which aiohttp would try again by itself
            async with client.get(f"{gateway.url}/warm-up") as answer:
                assert answer.status == 200
        async with client.request(method, f"{gateway.url}/") as answer:
            assert answer.status == 502
            assert (await answer.json())["error"]["code"] == "upstream_error"
        assert len(first.requests) + len(second.requests) == 3
    reading = await gateway.until(policy.service, lambda reading: reading.in_flight == 0)
    assert (reading.finished, reading.failed, reading.judged, reading.within_slo) == (2, 1, 3, 2)


async def test_requests_go_to_the_replica_with_the_fewest(
    gateway: Gateway, policy: RoutePolicy, serve: Serve, client: aiohttp.ClientSession
) -> None:
    release = asyncio.Event()

    async def held(_: web.BaseRequest) -> web.StreamResponse:
        await release.wait()
        return web.Response()

    async def ask() -> int:
        async with client.post(gateway.url) as answer:
            return answer.status

    async with serve(held) as first, serve(held) as second, serve(held) as third:
        gateway.route(policy, first.endpoint(policy.service))
        asked = [asyncio.create_task(ask()) for _ in range(4)]
        await gateway.until(policy.service, lambda reading: reading.in_flight == 4)
        gateway.route(policy, *(replica.endpoint(policy.service) for replica in (first, second, third)))
        asked += [asyncio.create_task(ask()) for _ in range(8)]
        await gateway.until(policy.service, lambda reading: reading.in_flight == 12)
        assert gateway.client.in_flight() == {first.name: 4, second.name: 4, third.name: 4}
        release.set()
        assert Counter(await asyncio.gather(*asked)) == {200: 12}
        await gateway.until(policy.service, lambda reading: reading.in_flight == 0)
        assert gateway.client.in_flight() == {first.name: 0, second.name: 0, third.name: 0}


async def test_a_draining_replica_finishes_what_it_has_and_gets_no_more(
    gateway: Gateway, policy: RoutePolicy, serve: Serve, client: aiohttp.ClientSession
) -> None:
    release = asyncio.Event()

    async def held(_: web.BaseRequest) -> web.StreamResponse:
        await release.wait()
        return web.Response(text="finished")

    async def ask() -> str:
        async with client.post(gateway.url) as answer:
            return await answer.text()

    async with serve(held) as draining, serve(hello) as other:
        gateway.route(policy, draining.endpoint(policy.service))
        asked = [asyncio.create_task(ask()) for _ in range(3)]
        await gateway.until(policy.service, lambda reading: reading.in_flight == 3)
        gateway.route(policy, draining.endpoint(policy.service, accepting=False), other.endpoint(policy.service))
        for _ in range(10):
            assert await ask() == "hello"
        assert gateway.client.in_flight() == {draining.name: 3, other.name: 0}
        gateway.route(policy, other.endpoint(policy.service))  # gone from the routes, still answering
        assert gateway.client.in_flight() == {draining.name: 3, other.name: 0}
        release.set()
        assert await asyncio.gather(*asked) == ["finished"] * 3
        await gateway.until(policy.service, lambda reading: reading.in_flight == 0)
        assert gateway.client.in_flight() == {other.name: 0}


@asynccontextmanager
async def breaking_off(*, after: bytes) -> AsyncIterator[str]:
    """A server that sends ``after`` to each request and then closes the connection."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(after)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\n", id="chunked"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart", id="length"),
    ],
)
async def test_an_answer_that_breaks_off_is_seen_to_be_broken(
    gateway: Gateway, policy: RoutePolicy, client: aiohttp.ClientSession, sent: bytes
) -> None:
    async with breaking_off(after=sent) as url:
        gateway.route(policy, Endpoint(service=policy.service, replica="a", url=url, accepting=True))
        async with client.get(gateway.url) as answer:
            assert answer.status == 200
            assert await answer.content.readany() == b"part"
            with pytest.raises(aiohttp.ClientPayloadError):
                await answer.content.readany()
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(b"GET / HTTP/1.0\r\n\r\n")
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()
    reading = await gateway.until(policy.service, lambda reading: reading.in_flight == 0)
    assert (reading.finished, reading.failed, reading.judged, reading.within_slo) == (0, 2, 2, 0)


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-", id="half a head"),
        pytest.param(b"SSH-2.0-OpenSSH_9.6\r\n", id="not HTTP"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n", id="malformed length"),
    ],
)
async def test_no_answer_at_all_is_502(
    gateway: Gateway, policy: RoutePolicy, client: aiohttp.ClientSession, sent: bytes
) -> None:
    async with breaking_off(after=sent) as url:
        gateway.route(policy, Endpoint(service=policy.service, replica="a", url=url, accepting=True))
        async with client.get(gateway.url) as answer:
            assert answer.status == 502
    reading = gateway.reading(policy.service)
    assert (reading.failed, reading.in_flight) == (1, 0)


async def test_a_client_that_goes_away_ends_its_request_at_the_replica(
    gateway: Gateway, policy: RoutePolicy, serve: Serve, client: aiohttp.ClientSession
) -> None:
    cancelled = asyncio.Event()

    async def endless(request: web.BaseRequest) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        await answer.write(b"data: 1\n\n")
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return answer

    async with serve(endless) as replica:
        gateway.route(policy, replica.endpoint(policy.service))
        async with client.post(gateway.url) as answer:
            await answer.content.readany()
            answer.close()
        await cancelled.wait()
        reading = await gateway.until(policy.service, lambda reading: reading.in_flight == 0)
        assert (reading.finished, reading.failed, reading.judged) == (0, 0, 0)
        assert gateway.client.in_flight() == {replica.name: 0}


async def test_a_limit_on_the_whole_time_holds_where_one_is_set(
    gateway: Gateway, policy: RoutePolicy, serve: Serve, client: aiohttp.ClientSession
) -> None:
    async def never(request: web.BaseRequest) -> web.StreamResponse:
        answer = web.StreamResponse()
        if request.path == "/begins":
            await answer.prepare(request)
            await answer.write(b"part")
        await asyncio.Event().wait()
        return answer

    async with serve(never) as replica:
        gateway.route(replace(policy, request_timeout_s=0.2), replica.endpoint(policy.service))
        async with client.get(f"{gateway.url}/") as answer:
            assert answer.status == 504
        async with client.get(f"{gateway.url}/begins") as answer:
            with pytest.raises(aiohttp.ClientPayloadError):
                await answer.read()
        reading = await gateway.until(policy.service, lambda reading: reading.in_flight == 0)
        assert reading.failed == 2
        assert gateway.client.in_flight() == {replica.name: 0}
