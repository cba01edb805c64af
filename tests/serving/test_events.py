"""Live updates: over the wire, and what becomes of clients that leave or stop reading."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from starlette.types import Message

from adapters.serving.events import Streams
from adapters.serving.store import DecisionBoard
from autoscaler.domain.plan import ServiceDecision
from autoscaler.domain.service import Service

Decide = Callable[..., ServiceDecision]


def events(response: http.client.HTTPResponse) -> Iterator[tuple[str, Any]]:
    name = ""
    while line := response.readline().decode().strip("\n") if not response.closed else "":
        field, _, value = line.partition(": ")
        if field == "event":
            name = value
        if field == "data":
            yield name, json.loads(value)
        if field in ("data", "retry"):
            response.readline()


@pytest.fixture
def listen() -> Iterator[Callable[[Any], Iterator[tuple[str, Any]]]]:
    opened: list[http.client.HTTPConnection] = []

    def connect(served: Any) -> Iterator[tuple[str, Any]]:
        connection = http.client.HTTPConnection("127.0.0.1", served.server.port, timeout=20)
        opened.append(connection)
        connection.request("GET", "/api/v1/events")
        response = connection.getresponse()
        assert response.headers["content-type"].startswith("text/event-stream")
        return events(response)

    yield connect
    for connection in opened:
        connection.close()


def test_a_client_gets_everything_and_then_what_changes(
    *, serve: Callable[..., Any], service: Callable[..., Service], decision: Decide, listen: Callable[..., Any]
) -> None:
    with serve(services=(service("a"), service("b"))) as running:
        stream = listen(running)
        name, first = next(stream)
        assert (name, first["complete"]) == ("services", True)
        assert [one["service"] for one in first["services"]] == ["a", "b"]
        running.board.publish(decision("b", at_s=running.clock.at_s, need=4))
        name, second = next(stream)
        assert (name, second["complete"]) == ("services", False)
        assert [(one["service"], one["latest"]["desired"]) for one in second["services"]] == [("b", 4)]


def test_a_removed_service_leaves_by_a_complete_list(
    *, serve: Callable[..., Any], service: Callable[..., Service], listen: Callable[..., Any]
) -> None:
    with serve(services=(service("a"), service("b"))) as running:
        stream = listen(running)
        next(stream)
        running.board.configure(services=(service("b"),), stale_after_s=15.0)
        _, update = next(stream)
    assert update["complete"] is True
    assert [one["service"] for one in update["services"]] == ["b"]


def test_stopping_the_server_ends_the_streams(
    serve: Callable[..., Any], service: Callable[..., Service], listen: Callable[..., Any]
) -> None:
    with serve(services=(service("a"),)) as running:
        stream = listen(running)
        next(stream)
        running.server.stop()
        assert list(stream) == []


class Client:
    """The far end of a stream: keeps what it is sent, and reads no more after ``takes`` messages."""

    def __init__(self, takes: float = float("inf")) -> None:
        self.got: list[Message] = []
        self.takes = takes
        self.gone = asyncio.Event()
        self.news = asyncio.Event()

    async def send(self, message: Message) -> None:
        if len(self.got) >= self.takes:
            await asyncio.Event().wait()
        self.got.append(message)
        self.news.set()

    async def receive(self) -> Message:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def until(self, told: str) -> None:
        """Wait for a message that holds these words."""
        while not any(told.encode() in message.get("body", b"") for message in self.got):
            self.news.clear()
            await self.news.wait()


@pytest.fixture
def board(service: Callable[..., Service]) -> DecisionBoard:
    return DecisionBoard(services=(service("chat"),), stale_after_s=15.0)


async def follow(streams: Streams, client: Client) -> None:
    stream = streams.open()
    assert stream is not None
    await stream({"type": "http"}, client.receive, client.send)


def test_a_client_that_reads_nothing_is_let_go(board: DecisionBoard) -> None:
    streams, client = Streams(board, now_s=lambda: 0.0, send_timeout_s=0.01), Client(takes=2)
    asyncio.run(follow(streams, client))
    assert len(client.got) == 2
    assert streams.clients == 0


def test_a_client_that_leaves_is_forgotten(board: DecisionBoard, decision: Decide) -> None:
    async def scenario() -> None:
        streams, client = Streams(board, now_s=lambda: 0.0), Client()
        following = asyncio.create_task(follow(streams, client))
        await client.until("services")
        assert streams.clients == 1
        client.gone.set()
        await following
        assert streams.clients == 0
        board.publish(decision("chat"))

    asyncio.run(scenario())


def test_a_slow_client_skips_what_was_overtaken(board: DecisionBoard, decision: Decide) -> None:
    async def scenario() -> list[int]:
        streams, client = Streams(board, now_s=lambda: 0.0, gather_s=0.0), Client()
        following = asyncio.create_task(follow(streams, client))
        await client.until("services")
        for need in range(1, 9):  # the loop is busy here: the stream can't run in between
            board.publish(decision("chat", at_s=float(need), need=need))
        await client.until('"desired":8')
        client.gone.set()
        await following
        bodies = [message.get("body", b"") for message in client.got]
        return [json.loads(body.split(b"data: ")[1])["services"][0]["latest"]["desired"] for body in bodies[3:]]

    assert asyncio.run(scenario()) == [8]


def test_a_silent_board_still_beats(board: DecisionBoard) -> None:
    async def scenario() -> None:
        client = Client()
        streams = Streams(board, now_s=lambda: 1234.5, heartbeat_s=0.01)
        following = asyncio.create_task(follow(streams, client))
        await client.until('event: heartbeat\ndata: {"now_s":1234.5}')
        client.gone.set()
        await following

    asyncio.run(scenario())


def test_too_many_clients_are_refused(
    serve: Callable[..., Any], service: Callable[..., Service], listen: Callable[..., Any]
) -> None:
    with serve(services=(service("a"),)) as running:
        streams = [listen(running) for _ in range(64)]
        for stream in streams:
            next(stream)
        reply = running.ask("/api/v1/events")
    assert (reply.status, reply.json()["error"]["kind"]) == (503, "TooManyStreams")
    assert reply.headers["retry-after"] == "10"
