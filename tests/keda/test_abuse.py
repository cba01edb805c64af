"""Clients that mean harm: what they send is cheap to them, and must not take memory, room or time from others."""

from __future__ import annotations

import asyncio
import socket
import ssl
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from adapters.serving.keda.calls import Calls
from adapters.serving.keda.connection import Connection
from adapters.serving.keda.connections import Connections
from adapters.serving.keda.streams import Stream
from tests.cluster.certificates import Authority
from tests.keda.raw_http2 import (
    CONTINUATION,
    DATA,
    GOAWAY,
    HEADERS,
    LIMITS,
    PING,
    PREFACE,
    RST_STREAM,
    WINDOW_UPDATE,
    Wire,
    answers,
    block,
    converse,
    frame,
    message,
    request,
    settings,
)
from tests.keda.test_connections import Client, with_client

HELLO = PREFACE + settings()
CALLS = Calls("externalscaler.ExternalScaler", unary={"GetMetrics": lambda data: data}, streaming={})
_WITHIN_S = 20.0


def stay(_: Stream) -> None:
    """A call that stays open, as those that push do."""


def taken_back(times: int) -> list[bytes]:
    return [
        frame(HEADERS, 5, 1 + 2 * index, block()) + frame(RST_STREAM, 0, 1 + 2 * index, bytes(4))
        for index in range(times)
    ]


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([settings(s4=size % 2) * 100 for size in range(100)], id="settings"),
        pytest.param(taken_back(10_000), id="requests taken back (CVE-2023-44487)"),
    ],
)
def test_a_flood_of_what_asks_nothing_ends_the_connection(pieces: Sequence[bytes]) -> None:
    sent, wire = converse((HELLO, *pieces), stay)
    assert wire.closed
    assert (sent[-1].kind, sent[-1].payload[4:8]) == (GOAWAY, (0xB).to_bytes(4, "big"))


def test_requests_taken_back_now_and_then_end_nothing() -> None:
    _, wire = converse((HELLO, *taken_back(1000)), stay)
    assert not wire.closed


@pytest.mark.parametrize(
    ("resizes", "ended"),
    [
        pytest.param(b"\x20\x3f\xe1\x1f", False, id="twice: to nothing and back"),
        pytest.param(b"\x20" * 3, True, id="three times"),
        pytest.param(b"\x3f\x00" * 5000, True, id="with long numbers"),
    ],
)
def test_a_table_that_is_resized_again_and_again_ends_the_connection(resizes: bytes, *, ended: bool) -> None:
    sent, wire = converse((HELLO, frame(HEADERS, 4, 1, resizes + block())), stay)
    assert wire.closed is ended
    assert [each.payload[4:8] for each in sent if each.kind == GOAWAY] == [(9).to_bytes(4, "big")] * ended


def test_headers_that_can_not_be_read_are_not_sent_back() -> None:
    sent, _ = converse((HELLO, frame(HEADERS, 4, 1, b"\x00\x7f" + b"\xff" * 16_000)), stay)
    assert sent[-1].kind == GOAWAY
    assert len(sent[-1].payload) < 100


def test_headers_in_crumbs_are_put_together() -> None:
    whole = block()
    crumbs = [frame(CONTINUATION, 4 * (at == len(whole) - 1), 1, whole[at : at + 1]) for at in range(len(whole))]
    sent, _ = converse((HELLO, frame(HEADERS, 0, 1, b""), *crumbs, frame(DATA, 1, 1, message(b"asked"))), CALLS.answer)
    assert answers(sent)[1][1][2] == message(b"asked")


def test_an_open_call_keeps_no_more_of_its_request_than_is_needed() -> None:
    found: list[Stream] = []
    more = b"\x00\x01x\x7f\x81\x1e" + b"x" * 3968
    long_path = block(path="/" + "p" * 120).replace(b"\x79/", b"\x7f\xad\x02/" + b"p" * 307)
    heads = (frame(HEADERS, 4, 1, block() + more), frame(HEADERS, 5, 3, long_path))
    converse((HELLO, *heads, frame(DATA, 1, 1, message(bytes(900)))), found.append)
    kept = [sum(len(value) for value in stream.headers.values()) + len(stream.body) for stream in found]
    assert len(kept) == 2
    assert max(kept) < 600


def test_open_calls_leave_room_for_the_requests_of_others() -> None:
    limits = replace(LIMITS, max_streams=3000)
    calls = [request(1 + 2 * index, bytes(900)) for index in range(2500)]  # twice what may be under way
    sent, wire = converse((HELLO, *calls), stay, limits)
    granted = [int.from_bytes(each.payload, "big") for each in sent if each.kind == WINDOW_UPDATE]
    assert not wire.closed
    assert sum(granted) > 2 * 2**20


@pytest.mark.parametrize("flood", [settings(s4=7) * 300, frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\1") * 300], ids=len)
def test_a_frame_costs_no_more_with_many_calls_open(flood: bytes) -> None:
    def turns(calls: int) -> int:
        count = 0

        def called(_: object, event: str, __: object) -> None:
            nonlocal count
            count += event == "call"

        async def talk() -> None:
            connection = Connection(replace(LIMITS, max_streams=1000), stay, lambda _: True, lambda _: None)
            connection.connection_made(Wire())
            connection.data_received(HELLO)
            for index in range(calls):
                connection.data_received(frame(HEADERS, 5, 1 + 2 * index, block()))
            before = sys.getprofile()
            sys.setprofile(called)
            connection.data_received(flood)
            sys.setprofile(before)
            connection.connection_lost(None)

        asyncio.run(talk())
        return count

    assert turns(1000) - turns(0) < 2 * 1000


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(frame(HEADERS, 4, 1, block()), id="never asks to the end"),
        pytest.param(settings(s4=0) + request(1), id="never takes the answer"),
    ],
)
def test_a_call_that_waits_for_its_client_for_too_long_is_ended(sent: bytes) -> None:
    async def talk(client: Client, _: Connections) -> None:
        client.send(HELLO + sent)
        while (told := await client.next()) is not None and told.kind != RST_STREAM:
            if told.kind == PING:
                client.send(frame(PING, 1, 0, told.payload))
        assert told is not None
        assert told.stream == 1
        client.send(settings(s4=1000) + request(3, b"there"))
        while (told := await client.next()) is not None and told.kind != DATA:
            pass
        assert told is not None
        assert told.payload == message(b"there")

    with_client(replace(LIMITS, silent_s=0.02, answer_s=0.5), talk)


def test_an_old_connection_is_closed_if_its_client_does_not_answer() -> None:
    async def talk(client: Client, _: Connections) -> None:
        client.send(HELLO)
        told = [await client.next() for _each in range(4)]
        assert [each and each.kind for each in told] == [GOAWAY, PING, GOAWAY, None]

    with_client(replace(LIMITS, age_s=0.05, answer_s=0.2), talk)


def test_more_connections_than_are_taken_are_turned_away_until_there_is_room() -> None:
    async def ask(port: int) -> tuple[asyncio.StreamWriter, bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HELLO)
        try:
            return writer, await reader.read(1)
        except ConnectionResetError:
            return writer, b""

    async def run() -> None:
        connections = Connections(LIMITS, CALLS.answer, most=1)
        server = await asyncio.get_running_loop().create_server(connections.new, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with asyncio.timeout(_WITHIN_S):
            first, greeted = await ask(port)
            assert greeted
            second, greeted = await ask(port)
            assert not greeted
            first.close()
            while not greeted:
                third, greeted = await ask(port)
                third.close()
        second.close()
        server.close()
        await connections.close(1.0)

    asyncio.run(run())


def test_clients_that_never_get_through_their_handshake_are_not_kept() -> None:
    async def run() -> None:
        connections = Connections(LIMITS, CALLS.answer)
        connections.new()  # as asyncio makes them before the handshake, and then tells them nothing
        async with asyncio.timeout(_WITHIN_S):
            await connections.close(10 * _WITHIN_S)

    asyncio.run(run())


class Counting(ssl.SSLContext):
    """How many handshakes were begun."""

    begun = 0

    def wrap_bio(self, *args: object, **more: object) -> ssl.SSLObject:
        self.begun += 1
        return super().wrap_bio(*args, **more)  # type: ignore[arg-type]


def test_handshakes_that_hang_are_few_at_a_time_and_end_with_the_server(tmp_path: Path) -> None:
    pair = Authority(tmp_path, "ours").issue("server", hosts=("localhost",))
    context = Counting(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)

    async def run() -> None:
        connections = Connections(LIMITS, CALLS.answer, most_handshakes=2)
        with socket.create_server(("127.0.0.1", 0)) as listening:
            listening.setblocking(False)
            accepting = asyncio.create_task(connections.accept(listening, context))
            clients = [await asyncio.open_connection(*listening.getsockname()) for _each in range(5)]
            for _turn in range(100):
                await asyncio.sleep(0)
            assert context.begun == 2
            async with asyncio.timeout(_WITHIN_S):
                clients[0][1].close()
                while context.begun < 3:
                    await asyncio.sleep(0)
                accepting.cancel()
                await asyncio.wait([accepting])
                assert await clients[1][0].read() == b""
        for _, writer in clients:
            writer.close()
        await connections.close(1.0)

    asyncio.run(run())
