"""Readiness by HTTP, against real sockets."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from adapters.local.command import free_port
from adapters.local.probes import Answer, HttpProbes, Probed
from tests.local.real import wait_for


class Statuses(BaseHTTPRequestHandler):
    """/CODE answers with that status; 302 points to a page that would be 200."""

    def do_GET(self) -> None:
        self.send_response(int(self.path[1:]))
        self.send_header("Location", "/200")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def probes() -> Iterator[HttpProbes]:
    probes = HttpProbes()
    yield probes
    probes.close()


@pytest.fixture
def server() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Statuses)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def mute() -> Iterator[str]:
    """Takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def answers(probes: HttpProbes, *urls: str) -> dict[str, Probed]:
    found: dict[str, Probed] = {}

    def all_there() -> bool:
        found.update(probes.take())
        return found.keys() >= set(urls)

    wait_for(all_there, f"answers of {urls}")
    return found


@pytest.mark.parametrize(
    ("status", "answer"),
    [(200, Answer.READY), (204, Answer.NOT_YET), (302, Answer.NOT_YET), (404, Answer.NOT_YET), (503, Answer.NOT_YET)],
)
def test_only_200_is_ready(probes: HttpProbes, server: str, status: int, answer: Answer) -> None:
    url = f"{server}/{status}"
    probes.ask(url, patience_s=10.0)
    assert answers(probes, url)[url] == Probed(answer=answer, detail=f"answered {status}")


def test_a_closed_port_refuses(probes: HttpProbes) -> None:
    url = f"http://127.0.0.1:{free_port(())}/health"
    probes.ask(url, patience_s=10.0)
    assert answers(probes, url)[url].answer is Answer.REFUSED


def test_no_answer_in_time_is_silence(probes: HttpProbes, mute: str) -> None:
    probes.ask(f"{mute}/health", patience_s=0.05)
    found = answers(probes, f"{mute}/health")[f"{mute}/health"]
    assert found == Probed(answer=Answer.SILENT, detail="no answer within 0.05 s")


def test_what_is_not_http_is_silence(probes: HttpProbes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/health"
        probes.ask(url, patience_s=10.0)
        connection, _ = listening.accept()
        with connection:
            connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")
        assert answers(probes, url)[url].answer is Answer.SILENT


def test_one_that_hangs_delays_no_other(probes: HttpProbes, mute: str, server: str) -> None:
    hanging = [f"{mute}/{number}" for number in range(50)]
    for url in hanging:
        probes.ask(url, patience_s=60.0)
    probes.ask(f"{server}/200", patience_s=60.0)
    assert answers(probes, f"{server}/200").keys() == {f"{server}/200"}


def test_a_question_is_not_asked_twice_at_a_time(probes: HttpProbes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/health"
        for _ in range(3):
            probes.ask(url, patience_s=60.0)
        connection, _ = listening.accept()
        listening.setblocking(False)
        with connection:
            connection.recv(4096)
            with pytest.raises(BlockingIOError):
                listening.accept()


def test_closing_does_not_wait_for_answers(mute: str) -> None:
    probes = HttpProbes()
    probes.ask(f"{mute}/health", patience_s=3600.0)
    probes.close()
    assert not any(thread.name == "readiness" for thread in threading.enumerate())
