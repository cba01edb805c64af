"""All connections of the external scaler."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from adapters.serving.keda.connection import Connection, Limits
from adapters.serving.keda.streams import Stream


class Connections:
    """Makes connections and closes them."""

    def __init__(self, limits: Limits, answer: Callable[[Stream], None]) -> None:
        """``answer``: as a Connection takes it."""
        self._limits = limits
        self._answer = answer
        self._open: set[Connection] = set()
        self._none = asyncio.Event()

    def new(self) -> Connection:
        """For a client that has connected."""
        connection = Connection(self._limits, self._answer, self._left)
        self._open.add(connection)
        self._none.clear()
        return connection

    async def close(self, within_s: float) -> None:
        """Answer what was asked, then close all; those that take longer at once."""
        for connection in tuple(self._open):
            connection.shut()
        if self._open:
            with suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    await self._none.wait()
        for connection in tuple(self._open):
            connection.abort()
        await asyncio.sleep(0)  # let them notice

    def _left(self, connection: Connection) -> None:
        self._open.discard(connection)
        if not self._open:
            self._none.set()
