"""Connections over time: who is cut off, and how clients are asked to connect anew."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeAlias

import pytest

from adapters.serving.keda.calls import Calls
from adapters.serving.keda.connections import Connections
from adapters.serving.keda.limits import Limits
from tests.keda.raw_http2 import (
    DATA,
    GOAWAY,
    HEADERS,
    LIMITS,
    PING,
    PREFACE,
    SETTINGS,
    WINDOW_UPDATE,
    Sent,
    block,
    frame,
    message,
    request,
    settings,
)

HELLO = PREFACE + settings()
_WITHIN_S = 20.0
CALLS = Calls("externalscaler.ExternalScaler", unary={"GetMetrics": lambda data: data}, streaming={})


class Client:
    """Reads frames, passing over the server's greeting."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.send = writer.write
        self.close = writer.close

    async def next(self) -> Sent | None:
        """None: the connection is at its end."""
        while True:
            head = await self._reader.read(9)
            if not head:
                return None
            payload = await self._reader.readexactly(int.from_bytes(head[:3], "big"))
            if head[3] not in (SETTINGS, WINDOW_UPDATE):
                return Sent(head[3], head[4], int.from_bytes(head[5:9], "big"), payload)


Talk: TypeAlias = Callable[[Client, Connections], Awaitable[None]]


def with_client(limits: Limits, talk: Talk) -> None:
    """A client of a server on loopback."""

    async def run() -> None:
        connections = Connections(limits, CALLS.answer)
        server = await asyncio.get_running_loop().create_server(connections.new, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        client = Client(*await asyncio.open_connection("127.0.0.1", port))
        async with asyncio.timeout(_WITHIN_S):
            await talk(client, connections)
        client.close()
        server.close()
        await connections.close(1.0)

    asyncio.run(run())


@pytest.mark.parametrize("sent", [pytest.param(b"", id="nothing"), pytest.param(PREFACE[:9], id="half a greeting")])
def test_a_client_that_does_not_greet_is_cut_off(sent: bytes) -> None:
    async def talk(client: Client, _: Connections) -> None:
        client.send(sent)
        assert await client.next() is None

    with_client(replace(LIMITS, answer_s=0.05), talk)


def test_a_client_that_is_gone_is_asked_once_and_then_cut_off() -> None:
    async def talk(client: Client, _: Connections) -> None:
        client.send(HELLO)
        asked = await client.next()
        assert asked is not None
        assert asked.kind == PING
        assert await client.next() is None

    with_client(replace(LIMITS, silent_s=0.05, answer_s=0.2), talk)


def test_a_client_that_answers_stays() -> None:
    async def talk(client: Client, _: Connections) -> None:
        client.send(HELLO)
        for _again in range(5):
            asked = await client.next()
            assert asked is not None
            client.send(frame(PING, 1, 0, asked.payload))
        client.send(request(1, b"there"))
        told = await client.next()
        assert told is not None
        assert told.kind == HEADERS

    with_client(replace(LIMITS, silent_s=0.02, answer_s=2.0), talk)


def test_an_old_connection_takes_what_is_on_its_way_and_then_no_more() -> None:
    async def talk(client: Client, _: Connections) -> None:
        client.send(HELLO)
        announced, asked = await client.next(), await client.next()
        assert announced is not None
        assert (announced.kind, announced.payload[:8]) == (GOAWAY, b"\x7f\xff\xff\xff" + bytes(4))
        assert asked is not None
        client.send(frame(HEADERS, 4, 5, block()) + frame(PING, 1, 0, asked.payload))
        last = await client.next()
        assert last is not None
        assert (last.kind, last.payload[:8]) == (GOAWAY, b"\x00\x00\x00\x05" + bytes(4))
        client.send(request(7, b"too late") + frame(DATA, 1, 5, message(b"in time")))
        told = [await client.next() for _each in range(3)]
        assert [each.stream for each in told if each] == [5] * 3
        assert told[1] is not None
        assert told[1].payload == message(b"in time")
        assert await client.next() is None

    with_client(replace(LIMITS, age_s=0.02), talk)


def test_closing_answers_what_was_asked_and_waits_for_no_more() -> None:
    async def talk(client: Client, connections: Connections) -> None:
        client.send(HELLO + frame(HEADERS, 4, 1, block()) + frame(PING, 0, 0, bytes(8)))
        assert (await client.next()) == Sent(PING, 1, 0, bytes(8))
        closing = asyncio.create_task(connections.close(_WITHIN_S))
        last = await client.next()
        assert last is not None
        assert (last.kind, last.payload[:4]) == (GOAWAY, b"\x00\x00\x00\x01")
        client.send(frame(DATA, 1, 1, message(b"asked")))
        assert [each.kind for each in [await client.next() for _each in range(3)] if each] == [HEADERS, DATA, HEADERS]
        assert await client.next() is None
        await closing

    with_client(LIMITS, talk)


def test_closing_leaves_those_behind_that_do_not_end() -> None:
    async def talk(client: Client, connections: Connections) -> None:
        client.send(HELLO + frame(HEADERS, 4, 1, block()) + frame(PING, 0, 0, bytes(8)))
        await client.next()
        await connections.close(0.05)
        last = await client.next()
        assert last is not None
        assert last.kind == GOAWAY
        assert await client.next() is None

    with_client(LIMITS, talk)
