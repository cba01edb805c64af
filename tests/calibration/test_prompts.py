"""What is sent: prompts that no prefix cache can shorten, the same again under the same salt."""

from __future__ import annotations

import http.server
import json
import threading
import time
from collections.abc import Iterator

import pytest

from loadtests.client import PlannedRequest, Target, measure


class Listener(http.server.BaseHTTPRequestHandler):
    """Keeps the prompts, answers nothing."""

    prompts: list[tuple[int, ...]]

    def do_POST(self) -> None:
        """Keep it."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.prompts.append(tuple(body["prompt"]))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def listener() -> Iterator[tuple[str, list[tuple[int, ...]]]]:
    prompts: list[tuple[int, ...]] = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Kept", (Listener,), {"prompts": prompts}))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", prompts
    server.shutdown()
    server.server_close()
    thread.join()


def test_no_two_prompts_begin_alike(listener: tuple[str, list[tuple[int, ...]]]) -> None:
    url, prompts = listener
    for salt in (1, 2):
        target = Target(url=url, model="m", salt=salt)
        for number in (0, 1, 390, 391):
            request = PlannedRequest(number=number, due_s=0.0, prompt_tokens=64, output_tokens=1)
            measure(request, target=target, begin_s=time.monotonic())
    assert {len(prompt) for prompt in prompts} == {64}
    assert len({prompt[:16] for prompt in prompts}) == len(prompts) == 8


def test_the_same_salt_sends_the_same(listener: tuple[str, list[tuple[int, ...]]]) -> None:
    url, prompts = listener
    for _ in range(2):
        request = PlannedRequest(number=7, due_s=0.0, prompt_tokens=20, output_tokens=1)
        measure(request, target=Target(url=url, model="m", salt=5), begin_s=time.monotonic())
    assert prompts[0] == prompts[1]
