"""Real servers on the loopback interface, a clock set by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.adapters_engines.conftest import serve
from tests.cluster.processes import Processes

__all__ = ["serve"]


@dataclass
class HandClock:
    """Shows what it is set to."""

    at_s: float = 1000.0

    def now_s(self) -> float:
        return self.at_s

    def wait_until(self, at_s: float) -> None:
        self.at_s = max(self.at_s, at_s)


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    running = Processes(tmp_path)
    yield running
    running.stop_all()
