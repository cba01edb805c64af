"""A request and its answer pass through as they are."""

from __future__ import annotations

import asyncio
import gzip
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web

if TYPE_CHECKING:
    from adapters.local.template import RoutePolicy
    from tests.gateway.conftest import Gateway, Serve

pytestmark = pytest.mark.anyio


async def hello(_: web.BaseRequest) -> web.StreamResponse:
    return web.Response(text="hello")


async def echo(request: web.BaseRequest) -> web.StreamResponse:
    return web.Response(body=await request.read())


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "PROPFIND"])
async def test_any_method(
    gateway: Gateway, policy: RoutePolicy, serve: Serve, client: aiohttp.ClientSession, method: str
) -> None:
    async with serve(hello) as replica:
        gateway.route(policy, replica.endpoint(policy.service))
        async with client.request(method, f"{gateway.url}/some/path") as answer:
            assert answer.status == 200
            assert answer.headers["Content-Length"] == "5"
            assert await answer.read() == (b"" if method == "HEAD" else b"hello")
        assert [request.method for request in replica.requests] == [method]


@pytest.mark.parametrize(
    "target",
    [
        "/",
        "/v1/chat/completions",
        "/a%2Fb?q=%20x&q=+&empty=",
        "//twice",
        "/%C3%BC",
        "/a/../b",
        "/@x:y",
        "/?http://other/",
    ],
)
async def test_path_and_query_arrive_as_they_were_sent(
    gateway: Gateway, policy: RoutePolicy, serve: Serve, target: str
) -> None:
    async with serve(hello) as replica:
        gateway.route(policy, replica.endpoint(policy.service))
        status, _ = await raw(gateway.port, f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        assert status == 200
        assert replica.requests[0].raw_path == target


@pytest.mark.parametrize(
    "target", ["http://elsewhere/path?q=1", "@elsewhere/path", "*"], ids=["absolute", "userinfo", "asterisk"]
)
async def test_no_request_gets_elsewhere(gateway: Gateway, policy: RoutePolicy, serve: Serve, target: str) -> None:
    async with serve(hello) as replica:
        gateway.route(policy, replica.endpoint(policy.service))
        status, _ = await raw(
            gateway.port, f"OPTIONS {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()
        )
        assert status in (200, 400)
        assert len(replica.requests) == (1 if status == 200 else 0)


async def test_header_fields_of_the_request(
    gateway: Gateway, policy: RoutePolicy, serve: Serve, client: aiohttp.ClientSession
) -> None:
    async with serve(echo) as replica:
        gateway.route(policy, replica.endpoint(policy.service))
        sent = {"Authorization": "Bearer key", "X-Own": "1", "Connection": "X-Hop", "X-Hop": "1", "TE": "trailers"}
        async with client.post(f"{gateway.url}/", data=b"body", headers=sent) as answer:
            assert await answer.read() == b"body"
        got = replica.requests[0].headers
        assert got["Authorization"] == "Bearer key"
        assert got["X-Own"] == "1"
        assert "X-Hop" not in got
        assert "TE" not in got
        assert got["Host"] == replica.url.removeprefix("http://")
        assert got["X-Forwarded-Host"] == gateway.url.removeprefix("http://")
        assert got["X-Forwarded-For"] == "127.0.0.1"
        assert got["X-Forwarded-Proto"] == "http"


async def test_header_fields_of_the_answer(
    gateway: Gateway, policy: RoutePolicy, serve: Serve, client: aiohttp.ClientSession
) -> None:
    async def answering(_: web.BaseRequest) -> web.StreamResponse:
        answer = web.Response(status=418, reason="Short and stout", body=gzip.compress(b"tea"))
        answer.headers["Content-Encoding"] = "gzip"
        answer.headers.add("Set-Cookie", "a=1")
        answer.headers.add("Set-Cookie", "b=2")
        answer.headers["Connection"] = "X-Hop"
        answer.headers["X-Hop"] = "1"
        answer.headers["Server"] = "an engine"
        return answer

    async with serve(answering) as replica:
        gateway.route(policy, replica.endpoint(policy.service))
        async with client.get(f"{gateway.url}/") as answer:
            assert (answer.status, answer.reason) == (418, "Short and stout")
            assert gzip.decompress(await answer.read()) == b"tea"
            assert answer.headers.getall("Set-Cookie") == ["a=1", "b=2"]
            assert answer.headers["Server"] == "an engine"
            assert "X-Hop" not in answer.headers


async def test_redirects_are_the_clients_to_follow(
    gateway: Gateway, policy: RoutePolicy, serve: Serve, client: aiohttp.ClientSession
) -> None:
    async def moved(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=307, headers={"Location": "/metrics/"})

    async with serve(moved) as replica:
        gateway.route(policy, replica.endpoint(policy.service))
        async with client.get(f"{gateway.url}/metrics", allow_redirects=False) as answer:
            assert answer.status == 307
            assert answer.headers["Location"] == "/metrics/"


async def test_a_chunk_is_passed_on_before_the_next_is_there(
    gateway: Gateway, policy: RoutePolicy, serve: Serve, client: aiohttp.ClientSession
) -> None:
    go_on = asyncio.Event()

    async def streaming(request: web.BaseRequest) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        for number in range(5):
            await answer.write(f"data: {number}\n\n".encode())
            await go_on.wait()
            go_on.clear()
        return answer

    async with serve(streaming) as replica:
        gateway.route(policy, replica.endpoint(policy.service))
        async with client.post(f"{gateway.url}/v1/completions", data=b"{}") as answer:
            assert answer.headers["Content-Type"] == "text/event-stream"
            for number in range(5):
                assert await answer.content.readany() == f"data: {number}\n\n".encode()
                go_on.set()  # the replica sends the next only now
            assert await answer.content.readany() == b""
    reading = await gateway.until(policy.service, lambda reading: reading.finished == 1)
    assert (reading.judged, reading.within_slo) == (1, 1)
    assert (reading.ttft.count, reading.itl.count, reading.e2e.count) == (1, 1, 1)


async def test_the_head_of_an_answer_does_not_wait_for_its_body(
    gateway: Gateway, policy: RoutePolicy, serve: Serve, client: aiohttp.ClientSession
) -> None:
    headers_seen = asyncio.Event()

    async def slow(request: web.BaseRequest) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Length": "4"})
        await answer.prepare(request)
        await headers_seen.wait()
        await answer.write(b"body")
        return answer

    async with serve(slow) as replica:
        gateway.route(policy, replica.endpoint(policy.service))
        async with client.get(f"{gateway.url}/") as answer:
            headers_seen.set()
            assert await answer.read() == b"body"


async def test_a_slow_client_slows_the_replica_down(gateway: Gateway, policy: RoutePolicy, serve: Serve) -> None:
    """The gateway does not take in what the client does not take from it."""
    chunk = bytes(1024 * 1024)
    sent_bytes = 0

    async def endless(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal sent_bytes
        answer = web.StreamResponse()
        await answer.prepare(request)
        while True:
            await answer.write(chunk)
            sent_bytes += len(chunk)

    async with serve(endless) as replica:
        gateway.route(policy, replica.endpoint(policy.service))
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port, limit=1024)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readline()  # and then no more
        before = -1
        while before != sent_bytes:
            before = sent_bytes
            await asyncio.sleep(0.3)
        assert before < 64 * 1024 * 1024  # what the kernel's buffers of two connections hold, far from endless
        writer.close()
        await gateway.until(policy.service, lambda reading: reading.in_flight == 0)


async def test_a_large_body_arrives_whole(
    gateway: Gateway, policy: RoutePolicy, serve: Serve, client: aiohttp.ClientSession
) -> None:
    body = bytes(range(256)) * 3900

    async def chunked(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=await request.content.read())

    async with serve(chunked) as replica:
        gateway.route(policy, replica.endpoint(policy.service))
        async with client.post(f"{gateway.url}/", data=body) as answer:
            assert await answer.read() == body

        async def pieces() -> object:
            for start in range(0, len(body), 10_000):
                yield body[start : start + 10_000]

        async with client.post(f"{gateway.url}/", data=pieces()) as answer:
            assert await answer.read() == body
        assert {request.headers["Content-Length"] for request in replica.requests} == {str(len(body))}


async def test_connections_are_kept_on_both_sides(gateway: Gateway, policy: RoutePolicy, serve: Serve) -> None:
    ports: set[int] = set()

    async def note_connection(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        ports.add(request.transport.get_extra_info("peername")[1])
        return web.Response(text="hello")

    async with serve(note_connection) as replica, aiohttp.ClientSession() as session:
        gateway.route(policy, replica.endpoint(policy.service))
        for _ in range(5):
            async with session.get(f"{gateway.url}/") as answer:
                await answer.read()
                assert answer.headers.get("Connection", "keep-alive") == "keep-alive"
    assert len(ports) == 1


async def test_http_1_0(gateway: Gateway, policy: RoutePolicy, serve: Serve) -> None:
    async def streaming(request: web.BaseRequest) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b"one ")
        await answer.write(b"two")
        return answer

    async with serve(streaming) as replica:
        gateway.route(policy, replica.endpoint(policy.service))
        status, content = await raw(gateway.port, b"GET / HTTP/1.0\r\n\r\n")
        assert (status, content) == (200, b"one two")


async def test_expecting_to_be_told_to_go_on(gateway: Gateway, policy: RoutePolicy, serve: Serve) -> None:
    async with serve(echo) as replica:
        gateway.route(policy, replica.endpoint(policy.service))
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n")
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"body")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK\r\n")
        assert await reader.readexactly(4) == b"body"
        writer.close()


async def test_an_upgrade_is_refused_plainly(
    gateway: Gateway, policy: RoutePolicy, serve: Serve, client: aiohttp.ClientSession
) -> None:
    async with serve(hello) as replica:
        gateway.route(policy, replica.endpoint(policy.service))
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await client.ws_connect(f"{gateway.url}/v1/realtime")
        assert refused.value.status == 501
        assert not replica.requests


async def test_an_offer_of_http_2_is_passed_over(gateway: Gateway, policy: RoutePolicy, serve: Serve) -> None:
    """Java's HttpClient makes it with its first request."""
    async with serve(echo) as replica:
        gateway.route(policy, replica.endpoint(policy.service))
        status, content = await raw(
            gateway.port,
            b"POST / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\n"
            b"HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\nContent-Length: 4\r\n\r\nbody",
        )
        assert (status, content) == (200, b"body")
        assert "Upgrade" not in replica.requests[0].headers


async def raw(port: int, request: bytes) -> tuple[int, bytes]:
    """Status and the rest after the head; the connection is read to its end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    head, _, content = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return int(head.split()[1]), content
