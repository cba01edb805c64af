"""Starting and stopping."""

from __future__ import annotations

import socket

import grpc
import pytest

from adapters.serving.keda.server import ScalerServer, ScalerSettings
from autoscaler.ports import RefusedError
from tests.keda.client import Caller
from tests.keda.conftest import Clock
from tests.keda.notes import Notes


def test_port_zero_takes_a_free_one_and_tells_it(notes: Notes, clock: Clock) -> None:
    server = ScalerServer(notes, ScalerSettings(port=0), now_s=clock.now_s)
    with pytest.raises(RefusedError, match="not started"):
        _ = server.port
    server.start()
    try:
        with socket.create_connection(("127.0.0.1", server.port), timeout=5) as connection:
            assert connection.recv(1)  # its settings: it has accepted
    finally:
        server.stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port), timeout=5)
    server.stop()


def test_stopping_before_the_start_does_nothing(notes: Notes, clock: Clock) -> None:
    ScalerServer(notes, ScalerSettings(port=0), now_s=clock.now_s).stop()


def test_a_taken_port_is_refused_with_its_number(notes: Notes, clock: Clock, server: ScalerServer) -> None:
    second = ScalerServer(notes, ScalerSettings(port=server.port), now_s=clock.now_s)
    with pytest.raises(RefusedError, match=str(server.port)):
        second.start()
    assert notes.subscribers == 1


def test_a_host_that_is_not_ours_is_refused(notes: Notes, clock: Clock) -> None:
    server = ScalerServer(notes, ScalerSettings(host="192.0.2.1", port=0), now_s=clock.now_s)
    with pytest.raises(RefusedError, match=r"192\.0\.2\.1"):
        server.start()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        pytest.param({"port": 70000}, r"port.*70000", id="port"),
        pytest.param({"repeat_s": 0.0}, "positive", id="repeating without end"),
        pytest.param({"connection_age_s": -1.0}, "positive", id="age"),
        pytest.param({"max_streams": 0}, "max_streams.*0", id="no stream at all"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, int], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ScalerSettings(**settings)  # type: ignore[arg-type]


def test_one_after_another_on_the_same_port(notes: Notes, clock: Clock) -> None:
    notes.publish(2)
    port = 0
    for _ in range(3):
        server = ScalerServer(notes, ScalerSettings(port=port), now_s=clock.now_s)
        server.start()
        port = server.port
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            assert Caller(channel).is_active()
        server.stop()
