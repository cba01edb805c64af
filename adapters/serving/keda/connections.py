"""All connections of the external scaler."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from adapters.serving.keda.connection import Connection
from adapters.serving.keda.limits import Limits
from adapters.serving.keda.streams import Stream


class Connections:
    """Makes connections and closes them.

    ``most``: more at once are turned away, so that the process keeps files to open for what else it does.
    """

    def __init__(self, limits: Limits, answer: Callable[[Stream], None], *, most: int = 512) -> None:
        """``answer``: as a Connection takes it."""
        self._limits = limits
        self._answer = answer
        self._most = most
        self._open: set[Connection] = set()
        self._none = asyncio.Event()

    def new(self) -> Connection:
        """For a client that has connected."""
        return Connection(self._limits, self._answer, self._came, self._left)

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

    def _came(self, connection: Connection) -> bool:
        """After the TLS handshake: of one that fails asyncio tells its protocol nothing."""
        if len(self._open) >= self._most:
            return False
        self._open.add(connection)
        self._none.clear()
        return True

    def _left(self, connection: Connection) -> None:
        self._open.discard(connection)
        if not self._open:
            self._none.set()
