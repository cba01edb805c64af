"""A running external scaler over publications that tests write, and a client of it."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import pytest

from adapters.serving.keda.server import ScalerServer, ScalerSettings
from tests.keda.client import Caller
from tests.keda.notes import NOW_S, Notes


class Clock:
    """A time that stands until it is moved."""

    def __init__(self) -> None:
        self.at_s = NOW_S

    def now_s(self) -> float:
        return self.at_s


@pytest.fixture
def notes() -> Notes:
    """Nothing is known at first."""
    return Notes()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def server(notes: Notes, clock: Clock) -> Iterator[ScalerServer]:
    """Streams repeat themselves never while a test lasts."""
    server = ScalerServer(notes, ScalerSettings(port=0, repeat_s=3600.0, max_streams=3), now_s=clock.now_s)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def keda(server: ScalerServer) -> Iterator[Caller]:
    """A client of it."""
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        yield Caller(channel)
