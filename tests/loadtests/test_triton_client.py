"""What becomes of an inference by Triton's client where no Triton answers as it should."""

from __future__ import annotations

import http.server
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from loadtests.client import PlannedRequest
from loadtests.records import Outcome, RequestRecord
from loadtests.triton_client import TritonTarget

REQUEST = PlannedRequest(number=3, due_s=0.0, prompt_tokens=1, output_tokens=1)


def answer(values: list[float]) -> bytes:
    outputs = [{"name": "OUTPUT", "datatype": "FP32", "shape": [1, len(values)], "data": values}]
    return json.dumps({"model_name": "timed", "model_version": "1", "outputs": outputs}).encode()


@contextmanager
def served(status: int, body: bytes, *, answers: bool = True) -> Iterator[tuple[str, list[str]]]:
    """A server that gives everybody this answer, or none; its address and the paths that it was asked."""
    asked: list[str] = []
    over = threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            self.rfile.read(int(self.headers["Content-Length"]))
            if not answers:
                over.wait(30)
                return
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        over.set()
        server.shutdown()
        serving.join()
        server.server_close()


def measured(url: str, *, timeout_s: float = 30.0) -> RequestRecord:
    target = TritonTarget(url=url, model="timed", timeout_s=timeout_s)
    return target.measure(REQUEST, begin_s=time.monotonic())


def test_a_whole_answer_is_finished_and_its_first_output_is_its_last() -> None:
    with served(200, answer([3.0])) as (url, asked):
        record = measured(url)
    assert asked == ["/v2/models/timed/infer"]
    assert (record.outcome, record.status, record.error) == (Outcome.FINISHED, 200, "")
    assert record.ttft_s == record.e2e_s > 0
    assert (record.itl_s, record.output_tokens) == (None, 1)


@pytest.mark.parametrize(
    ("status", "body", "outcome", "says"),
    [
        pytest.param(503, b'{"error": "nobody is ready"}', Outcome.REFUSED, "nobody is ready", id="refused"),
        pytest.param(400, b'{"error": "unknown model"}', Outcome.REFUSED, "unknown model", id="unknown model"),
        pytest.param(502, b"<html>", Outcome.REFUSED, "decoding", id="no JSON"),
        pytest.param(200, answer([4.0]), Outcome.UNFINISHED, "another answer", id="somebody else's answer"),
    ],
)
def test_any_other_answer_is_none(status: int, body: bytes, outcome: Outcome, says: str) -> None:
    with served(status, body) as (url, _):
        record = measured(url)
    assert (record.outcome, record.status) == (outcome, status)
    assert says in record.error
    assert record.ttft_s is None


def test_nobody_there_is_refused() -> None:
    with closing(socket.socket()) as held:
        held.bind(("127.0.0.1", 0))
        record = measured(f"http://127.0.0.1:{held.getsockname()[1]}")
    assert (record.outcome, record.status) == (Outcome.REFUSED, None)


def test_no_answer_in_time_is_unfinished() -> None:
    with served(200, b"", answers=False) as (url, _):
        record = measured(url, timeout_s=0.2)
    assert record.outcome is Outcome.UNFINISHED
    assert "took longer" in record.error


@pytest.mark.parametrize("url", ["https://127.0.0.1", "127.0.0.1:8000", "http://"])
def test_an_address_that_can_not_be_asked_is_refused_at_once(url: str) -> None:
    with pytest.raises(ValueError, match="the target must be a URL"):
        TritonTarget(url=url, model="timed")
