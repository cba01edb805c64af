"""Waiting that a stop ends at once, and how long to wait after a failure."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


class Waiter(Protocol):
    """Lets time pass for a thread that works in rounds."""

    def wait(self, duration_s: float) -> bool:
        """Return after ``duration_s``, or at once when stopped; true when stopped."""
        ...

    def stop(self) -> None:
        """End all waits, the present one included."""
        ...


class EventWaiter:
    """Waits on the machine's clock."""

    def __init__(self) -> None:
        self._stopped = threading.Event()

    def wait(self, duration_s: float) -> bool:
        """Return after ``duration_s``, or at once when stopped; true when stopped."""
        return self._stopped.wait(max(0.0, duration_s))

    def stop(self) -> None:
        """End all waits."""
        self._stopped.set()


@dataclass(slots=True, kw_only=True)
class Backoff:
    """Pauses that double from ``first_s`` to ``most_s``, each cut by a random half so that clients don't meet again."""

    first_s: float
    most_s: float
    chance: Callable[[], float] = random.random
    _failures: int = 0

    def next_s(self) -> float:
        """The pause after one more failure."""
        whole_s = min(self.most_s, self.first_s * 2.0 ** min(self._failures, 30))
        self._failures += 1
        return whole_s * (0.5 + 0.5 * self.chance())

    def reset(self) -> None:
        """All is well again."""
        self._failures = 0
