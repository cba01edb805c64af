"""Log lines: JSON for machines, plain for a person at a terminal."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from autoscaler.reporting import log_to


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _root_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def _say() -> None:
    fields = {"service": "chat", "desired": 3, "detail": "12 req/s over 4 a replica"}
    logging.getLogger("controller").info("%s %s", "chat", "2 -> 3", extra={"fields": fields})


def test_in_a_pipe_each_line_is_json_with_its_fields() -> None:
    stream = io.StringIO()
    log_to(stream)
    _say()
    line = json.loads(stream.getvalue())
    assert (line["level"], line["message"], line["service"], line["desired"]) == ("info", "chat 2 -> 3", "chat", 3)


def test_on_a_terminal_a_line_says_what_happened_and_why() -> None:
    stream = Terminal()
    log_to(stream)
    _say()
    _, level, message = stream.getvalue().rstrip().split(maxsplit=2)
    assert (level, message) == ("info", "chat 2 -> 3  (12 req/s over 4 a replica)")


def test_an_exception_is_shown_whole() -> None:
    stream = Terminal()
    log_to(stream)
    try:
        raise ValueError("no such thing")
    except ValueError:
        logging.getLogger("controller").exception("a tick failed")
    assert "ValueError: no such thing" in stream.getvalue()
