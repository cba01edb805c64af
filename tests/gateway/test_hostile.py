"""Clients that make mistakes, or mean harm."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web

if TYPE_CHECKING:
    from adapters.local.template import RoutePolicy
    from tests.gateway.conftest import Gateway, Serve

pytestmark = pytest.mark.anyio


async def echo(request: web.BaseRequest) -> web.StreamResponse:
    return web.Response(body=await request.read())


async def status_of(port: int, request: bytes) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    line = await reader.readline()
    writer.close()
    return int(line.split()[1])


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        pytest.param(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n", 413, id="huge length"),
        pytest.param(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400, id="negative length"),
        pytest.param(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: many\r\n\r\n", 400, id="length in words"),
        pytest.param(
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            400,
            id="length and chunks",
        ),
        pytest.param(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400, id="bad chunk"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\nX-A: " + b"a" * 200_000 + b"\r\n\r\n", 400, id="huge header"),
        pytest.param(b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 400, id="huge path"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400, id="TLS"),
        pytest.param(b"CONNECT elsewhere:443 HTTP/1.1\r\nHost: elsewhere\r\n\r\n", 400, id="CONNECT"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\nX-A: \xff\xfe\r\nConnection: close\r\n\r\n", 200, id="not UTF-8"),
    ],
)
async def test_mistakes_are_answered_and_go_no_further(
    gateway: Gateway, policy: RoutePolicy, serve: Serve, request_bytes: bytes, status: int
) -> None:
    async with serve(echo) as replica:
        gateway.route(policy, replica.endpoint(policy.service))
        assert await status_of(gateway.port, request_bytes) == status
        assert len(replica.requests) == (status == 200)
    reading = await gateway.until(policy.service, lambda reading: reading.in_flight == 0)
    assert reading.arrivals == (status == 200)


async def test_a_body_is_bounded_however_it_is_sent(
    gateway: Gateway, policy: RoutePolicy, serve: Serve, client: aiohttp.ClientSession
) -> None:
    async with serve(echo) as replica:
        gateway.route(policy, replica.endpoint(policy.service))
        async with client.post(gateway.url, data=bytes(1_000_000)) as answer:
            assert answer.status == 200
        async with client.post(gateway.url, data=bytes(1_000_001)) as answer:
            assert answer.status == 413
            assert (await answer.json())["error"]["code"] == "request_too_large"
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(101):
            writer.write(b"2710\r\n" + bytes(10_000) + b"\r\n")
        assert (await reader.readline()).split()[1] == b"413"
        writer.close()
        assert len(replica.requests) == 1


async def test_clients_that_send_slowly_hold_nobody_up(
    gateway: Gateway, policy: RoutePolicy, serve: Serve, client: aiohttp.ClientSession
) -> None:
    async with serve(echo) as replica:
        gateway.route(policy, replica.endpoint(policy.service))
        slow = []
        for start in (b"POST /", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345") * 50:
            _, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            writer.write(start)
            await writer.drain()
            slow.append(writer)
        for _ in range(10):
            async with client.post(gateway.url, data=b"body") as answer:
                assert await answer.read() == b"body"
        assert gateway.reading(policy.service).arrivals == 10  # what has not arrived whole has not arrived
        for writer in slow:
            writer.close()
        assert len(replica.requests) == 10


async def test_a_body_that_is_cut_short_is_not_sent_on(gateway: Gateway, policy: RoutePolicy, serve: Serve) -> None:
    async with serve(echo) as replica:
        gateway.route(policy, replica.endpoint(policy.service))
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345")
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()
        assert not replica.requests
    assert gateway.reading(policy.service).arrivals == 0


async def test_what_follows_a_body_is_another_request(gateway: Gateway, policy: RoutePolicy, serve: Serve) -> None:
    """A length that is too short does not smuggle the rest into the same request."""
    async with serve(echo) as replica:
        gateway.route(policy, replica.endpoint(policy.service))
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(
            b"POST /first HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody"
            b"GET /second HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        )
        content = await reader.read()
        writer.close()
        assert content.count(b"HTTP/1.1 200 OK") == 2
        assert [request.path for request in replica.requests] == ["/first", "/second"]


async def test_counts_are_exact_after_a_crowd_of_every_kind(
    gateway: Gateway, policy: RoutePolicy, serve: Serve, client: aiohttp.ClientSession
) -> None:
    """Whole answers, streams, failures and clients that leave at any moment: at the end nothing is in flight."""
    seeded = random.Random(7)

    async def any_answer(request: web.BaseRequest) -> web.StreamResponse:
        kind = request.path.strip("/")
        await asyncio.sleep(0.002)
        if kind == "fails":
            return web.Response(status=500)
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        for _ in range(3):
            await answer.write(b"data: x\n\n")
            await asyncio.sleep(0.002)
        if kind == "breaks":
            assert request.transport is not None
            request.transport.abort()
        return answer

    async def ask(kind: str) -> None:
        async with client.post(f"{gateway.url}/{kind}", data=b"{}") as answer:
            await answer.read()

    async with serve(any_answer) as first, serve(any_answer) as second:
        gateway.route(policy, first.endpoint(policy.service), second.endpoint(policy.service))
        asked = [asyncio.create_task(ask(seeded.choice(["streams", "fails", "breaks"]))) for _ in range(300)]
        for task in asked:
            if seeded.random() < 0.3:
                asyncio.get_running_loop().call_later(seeded.random() * 0.5, task.cancel)
        await asyncio.gather(*asked, return_exceptions=True)
        reading = await gateway.until(policy.service, lambda reading: reading.in_flight == 0)
        assert gateway.client.in_flight() == {first.name: 0, second.name: 0}
        assert reading.arrivals >= reading.finished + reading.failed
        assert reading.finished > 0
        assert reading.failed > 0
        assert reading.refused == reading.waiting == 0
