"""Real servers on the loopback interface, a clock set by hand."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.adapters_engines.conftest import serve

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
