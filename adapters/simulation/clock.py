"""Virtual time: the clock that the controller waits on, and the queue of everything that happens meanwhile."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum

# Monday 2026-01-05, 00:00 UTC: hours of the week and of the day begin where a week begins.
BEGIN_S = 1_767_571_200.0


class Order(IntEnum):
    """Which of several events of one moment comes first."""

    WORLD = 0
    """What happens by itself: a replica is ready, a fault begins."""
    SCRAPE = 1
    """Who collects metrics looks."""
    RECORD = 2
    """What the run notes of itself."""


@dataclass(slots=True, order=True)
class _Event:
    at_s: float
    order: int
    sequence: int
    action: Callable[[], None] = field(compare=False)


class VirtualClock:
    """A Clock that jumps: to wait is to let happen what is due, in order of time, ``Order``, and of being planned.

    ``begin_s``: what it shows at first, seconds since the epoch. Nothing here depends on the machine's time, so equal
    plans give equal runs.
    """

    def __init__(self, begin_s: float = BEGIN_S) -> None:
        self.begin_s = begin_s
        self._now_s = begin_s
        self._events: list[_Event] = []
        self._sequence = 0
        self._woken = False

    def now_s(self) -> float:
        """Seconds since the epoch."""
        return self._now_s

    @property
    def elapsed_s(self) -> float:
        """Seconds since the begin."""
        return self._now_s - self.begin_s

    def wait_until(self, at_s: float) -> None:
        """Let everything up to ``at_s`` happen, or up to the event that wakes the waiting one."""
        while self._events and self._events[0].at_s <= at_s:
            if self._woken:
                break
            event = heapq.heappop(self._events)
            self._now_s = max(self._now_s, event.at_s)
            event.action()
        if not self._woken:
            self._now_s = max(self._now_s, at_s)
        self._woken = False

    def let_pass(self, until_s: float) -> None:
        """Let everything up to ``until_s`` happen; nobody waits whom an event could wake."""
        while self._now_s < until_s or (self._events and self._events[0].at_s <= until_s):
            self.wait_until(until_s)

    def wake(self) -> None:
        """End the present (or else the next) wait at once."""
        self._woken = True

    def at(self, at_s: float, action: Callable[[], None], order: Order = Order.WORLD) -> None:
        """Do this at ``at_s`` (now, where that has passed). Raises ValueError where it is no time at all."""
        if not math.isfinite(at_s):
            raise ValueError(f"an event needs a finite time, got {at_s}")
        heapq.heappush(self._events, _Event(max(at_s, self._now_s), order, self._sequence, action))
        self._sequence += 1

    def after(self, span_s: float, action: Callable[[], None], order: Order = Order.WORLD) -> None:
        """Do this ``span_s`` from now."""
        self.at(self._now_s + span_s, action, order)

    def every(self, period_s: float, action: Callable[[], None], order: Order, *, first_s: float = 0.0) -> None:
        """Do this every ``period_s`` from ``first_s`` after the begin on, for ever. Raises ValueError."""
        if not (math.isfinite(period_s) and period_s > 0):
            raise ValueError(f"a period must be positive and finite, got {period_s}")

        def turn(number: int) -> None:
            # Counted, not added up: the hundred-thousandth turn is as punctual as the first.
            self.at(self.begin_s + first_s + (number + 1) * period_s, lambda: turn(number + 1), order)
            action()

        self.at(self.begin_s + first_s, lambda: turn(0), order)
