"""Where requests wait while no replica can take them: in order of arrival, bounded in number, time and bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass


class RoomFullError(Exception):
    """As many requests wait as may."""


class WaitedTooLongError(Exception):
    """No replica could take the request within its time."""


class RoomClosedError(Exception):
    """The service is gone, or the gateway is stopping."""


class OutOfMemoryBudgetError(Exception):
    """The bodies of unanswered requests take up all the memory that they may."""


@dataclass(slots=True, kw_only=True)
class Place:
    """One request's place in the queue: ``number`` in order of arrival, ``until_s`` on the loop's clock.

    ``admitted``: it was let in once. It may come back to its place, full or not, when a replica that had looked ready
    refuses it.
    """

    number: int
    until_s: float
    admitted: bool = False


class WaitingRoom:
    """The requests of one service that no replica can take at present."""

    def __init__(self, *, on_first: Callable[[], None]) -> None:
        """``on_first`` is called when a request comes into the empty room."""
        self._on_first = on_first
        self._held: dict[int, asyncio.Future[None]] = {}
        self._closed = False

    def __len__(self) -> int:
        return len(self._held)

    async def wait(self, place: Place, *, max_waiting: int) -> None:
        """Return when released. Raises RoomFullError, WaitedTooLongError or RoomClosedError."""
        if self._closed:
            raise RoomClosedError
        if not place.admitted and len(self._held) >= max_waiting:
            raise RoomFullError
        place.admitted = True
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._held[place.number] = turn
        if len(self._held) == 1:
            self._on_first()
        try:
            async with asyncio.timeout_at(place.until_s):
                await turn
        except TimeoutError:
            raise WaitedTooLongError from None
        finally:
            if self._held.get(place.number) is turn:
                del self._held[place.number]

    def release(self) -> None:
        """Let all go on, the first come first."""
        for _, turn in self._leave():
            turn.set_result(None)

    def close(self) -> None:
        """Turn all away, and all who come later."""
        self._closed = True
        for _, turn in self._leave():
            turn.set_exception(RoomClosedError())

    def _leave(self) -> list[tuple[int, asyncio.Future[None]]]:
        held = sorted((number, turn) for number, turn in self._held.items() if not turn.done())
        self._held = {}
        return held


class DemandSignal:
    """Tells askers that requests have begun to wait. ``rise`` counts how often that has happened."""

    def __init__(self) -> None:
        self.rise = 0
        self._asking: set[asyncio.Future[None]] = set()

    def raised(self) -> None:
        """A service has begun to hold requests."""
        self.rise += 1
        for asking in self._asking:
            if not asking.done():
                asking.set_result(None)

    async def wait(self, *, timeout_s: float) -> None:
        """Return at the next ``raised``, or after ``timeout_s``."""
        asking: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._asking.add(asking)
        try:
            await asyncio.wait([asking], timeout=timeout_s)
        finally:
            self._asking.discard(asking)


class MemoryBudget:
    """Bytes that the bodies of all unanswered requests may take up together."""

    def __init__(self, *, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0

    def take(self, size_bytes: int) -> None:
        """Raises OutOfMemoryBudgetError."""
        if self.used_bytes + size_bytes > self.limit_bytes:
            raise OutOfMemoryBudgetError
        self.used_bytes += size_bytes

    def give_back(self, size_bytes: int) -> None:
        """The bytes are free again."""
        self.used_bytes -= size_bytes
