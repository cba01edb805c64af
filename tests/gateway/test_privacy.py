"""Nothing of what clients send reaches the log."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web

if TYPE_CHECKING:
    from adapters.local.template import RoutePolicy
    from tests.gateway.conftest import Gateway, Serve

pytestmark = pytest.mark.anyio

SECRET = "sk-very-secret"


async def test_no_prompt_key_header_or_path_is_logged(
    own_gateway: Gateway, policy: RoutePolicy, serve: Serve, client: aiohttp.ClientSession
) -> None:
    async def misbehave(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        if request.path.startswith("/breaks"):
            answer = web.StreamResponse(headers={"X-Secret": SECRET})
            await answer.prepare(request)
            await answer.write(SECRET.encode())
        request.transport.abort()
        return web.Response()

    malformed = [
        f"GET /{SECRET} HTTP/1.1\r\nHost: x\r\n{SECRET}\r\n\r\n",
        f"GET /{SECRET} HTTP/9.9\r\nAuthorization: {SECRET}\r\n\r\n",
        f"GET / HTTP/1.1\r\nHost: x\r\nX-A: {SECRET}\x00\r\n\r\n",
        f"GET / HTTP/1.1\r\nHost: x\r\nX-A: {SECRET * 10_000}\r\n\r\n",
        f"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n{SECRET}\r\n",
    ]
    async with serve(misbehave) as replica:
        own_gateway.route(policy, replica.endpoint(policy.service))
        for path in ("breaks", "fails"):
            url = f"{own_gateway.url}/{path}?key={SECRET}"
            async with client.post(url, data=SECRET, headers={"Authorization": SECRET}) as answer:
                with suppress(aiohttp.ClientPayloadError):
                    await answer.read()
        for request in malformed:
            reader, writer = await asyncio.open_connection("127.0.0.1", own_gateway.port)
            writer.write(request.encode("latin-1"))
            await reader.read()
            writer.close()
    await asyncio.to_thread(own_gateway.process.stop, grace_s=1.0)
    log = (own_gateway.directory / "gateway.log").read_text()
    assert log.count("replica failed during a request") == 2
    assert SECRET not in log
    assert "Traceback" not in log


async def test_malformed_requests_do_not_fill_the_log(own_gateway: Gateway) -> None:
    log = own_gateway.directory / "gateway.log"
    before = log.read_text()
    for _ in range(50):
        reader, writer = await asyncio.open_connection("127.0.0.1", own_gateway.port)
        writer.write(b"nonsense\r\n\r\n")
        assert b" 400 " in await reader.read()
        writer.close()
    await asyncio.to_thread(own_gateway.process.stop, grace_s=1.0)
    assert log.read_text() == before
