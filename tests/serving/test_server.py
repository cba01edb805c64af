"""Starting and stopping."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Callable
from typing import Any

import pytest

from adapters.serving.api import create_app
from adapters.serving.auth import ApiSettings
from adapters.serving.server import ApiServer
from adapters.serving.store import DecisionBoard
from autoscaler.domain.service import Service
from autoscaler.ports import RefusedError


def a_server(settings: ApiSettings) -> ApiServer:
    board = DecisionBoard(services=(), stale_after_s=15.0)
    api = create_app(board=board, history=board, settings=settings, now_s=lambda: 0.0, version="1.2.3")
    return ApiServer(api, settings)


def test_a_taken_port_is_refused_with_its_number_and_the_way_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(RefusedError) as error:
            a_server(ApiSettings(port=port)).start()
    assert "api.port" in str(error.value)
    assert str(port) in str(error.value)
    assert "another api.port" in str(error.value)


@pytest.mark.parametrize(
    "host",
    [pytest.param("192.0.2.1", id="an address of another machine"), pytest.param("no.such.host.invalid", id="no host")],
)
def test_a_host_that_is_not_ours_is_refused(host: str) -> None:
    with pytest.raises(RefusedError, match=host):
        a_server(ApiSettings(host=host, port=0, open=True)).start()


def test_port_zero_takes_a_free_one_and_tells_it() -> None:
    server = a_server(ApiSettings(port=0))
    with pytest.raises(RefusedError, match="not started"):
        _ = server.port
    server.start()
    try:
        assert server.port > 0
        assert server.url == f"http://127.0.0.1:{server.port}/"
    finally:
        server.stop()


def test_an_open_host_is_shown_as_this_machine_reaches_it() -> None:
    server = a_server(ApiSettings(host="0.0.0.0", port=0, open=True))
    server.start()
    try:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        connection.request("GET", "/healthz", headers={"host": "any.example"})
        assert connection.getresponse().status == 200
        connection.close()
        assert server.url == f"http://127.0.0.1:{server.port}/"
    finally:
        server.stop()


def test_after_stop_the_port_is_free_at_once() -> None:
    first = a_server(ApiSettings(port=0))
    first.start()
    port = first.port
    first.stop()
    first.stop()
    second = a_server(ApiSettings(port=port))
    second.start()
    second.stop()


def test_nothing_of_a_request_reaches_a_log(
    serve: Callable[..., Any], service: Callable[..., Service], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    with serve(services=(service(),), settings=ApiSettings(token="a-token-of-some-length")) as running:
        running.ask("/api/v1/services?q=a-private-query", {"authorization": "Bearer a-wrong-private-token"})
        running.ask("/?token=a-token-of-some-length")
    assert not [word for word in ("private", "a-token-of", "authorization") if word in caplog.text.lower()]
