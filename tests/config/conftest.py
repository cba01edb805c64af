"""Files written and read as a user's would be."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from autoscaler.config import ConfigError, Settings, load

SERVICE = """
services:
  - name: chat
    slo: {ttft: 2s, itl: 50ms}
    command: vllm serve org/model --port {port}
"""


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    """Writes a configuration file and says where."""

    def to_file(text: str) -> Path:
        path = tmp_path / "chat.yaml"
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    return to_file


@pytest.fixture
def read(write: Callable[[str], Path]) -> Callable[[str], Settings]:
    """The settings of a text."""
    return lambda text: load(write(text))


@pytest.fixture
def problems(write: Callable[[str], Path]) -> Callable[[str], list[str]]:
    """What is wrong with a text: ``line:column path: message`` for each problem, in order."""

    def of_text(text: str) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            load(write(text))
        return [f"{each.line}:{each.column} {each}" for each in caught.value.problems]

    return of_text


@pytest.fixture
def service_text() -> str:
    """The smallest file, without its end: further keys of the service may follow, indented by four."""
    return SERVICE
