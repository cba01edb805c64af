"""The only reader of the machine's clock."""

from __future__ import annotations

import threading
import time


class WallClock:
    """Seconds since the epoch that never run backwards while the process lives.

    The epoch is read once; from then on the monotonic clock counts, so a stepped system clock
    (NTP, a hand) neither repeats nor skips time for the controller.
    """

    def __init__(self) -> None:
        self._offset_s = time.time() - time.monotonic()
        self._woken = threading.Event()

    def now_s(self) -> float:
        """Seconds since the epoch."""
        return time.monotonic() + self._offset_s

    def wait_until(self, at_s: float) -> None:
        """Return at ``at_s``, or earlier when ``wake`` was called since the last return."""
        self._woken.wait(timeout=max(0.0, at_s - self.now_s()))
        self._woken.clear()

    def wake(self) -> None:
        """End the present (or else the next) wait at once. Safe from any thread."""
        self._woken.set()
