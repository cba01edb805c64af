"""The script of ``helm test`` against a real API: passes where it should, fails with what was wrong."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from adapters.serving.api import create_app
from adapters.serving.auth import ApiSettings
from adapters.serving.server import ApiServer
from adapters.serving.store import DecisionBoard
from tests.charts.pages import board_with_a_past, new_board
from tests.charts.rendering import CHART

TOKEN = "0123456789abcdef"


@contextmanager
def serving(board: DecisionBoard) -> Iterator[str]:
    """The API over a board; its address."""
    settings = ApiSettings(port=0, token=TOKEN)
    api = create_app(board=board, history=board, settings=settings, now_s=time.time, version="1")
    server = ApiServer(api, settings)
    server.start()
    try:
        yield server.url.rstrip("/")
    finally:
        server.stop()


def ask(address: str, *, token: str = TOKEN) -> subprocess.CompletedProcess[str]:
    script = (CHART / "files" / "helm_test.py").read_text(encoding="utf-8")
    environ = {**os.environ, "API": address, "TOKEN": token}
    return subprocess.run((sys.executable, "-c", script), env=environ, check=False, capture_output=True, text=True)


def test_it_passes() -> None:
    with serving(board_with_a_past(time.time())) as address:
        done = ask(address)
    assert done.returncode == 0, done.stderr
    assert "llm/chat" in done.stdout


@pytest.mark.parametrize(
    ("token", "decided", "words"),
    [
        pytest.param("another-token-16", True, "HTTP 401", id="wrong token"),
        pytest.param(TOKEN, False, "HTTP 503", id="not ready"),
    ],
)
def test_it_fails_with_the_reason(token: str, decided: bool, words: str) -> None:  # noqa: FBT001
    with serving(board_with_a_past(time.time()) if decided else new_board()) as address:
        done = ask(address, token=token)
    assert done.returncode == 1
    assert words in done.stderr
    assert token not in done.stderr


def test_nobody_answers() -> None:
    with serving(new_board()) as address:
        pass
    done = ask(address)
    assert done.returncode == 1
    assert address in done.stderr
