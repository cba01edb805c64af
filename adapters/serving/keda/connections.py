"""All connections of the external scaler."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress

from adapters.serving.keda.connection import Connection
from adapters.serving.keda.limits import Limits
from adapters.serving.keda.streams import Stream

_log = logging.getLogger(__name__)

_HANDSHAKE_WITHIN_S = 10.0
_SHUTDOWN_WITHIN_S = 2.0
_ACCEPT_AGAIN_S = 1.0


class Connections:
    """Makes connections and closes them.

    ``most``: more at once are turned away, so that the process keeps files to open for what else it does.
    ``most_handshakes``: asyncio keeps 256 KiB for each, before it is known who comes; more wait to be taken in.
    """

    def __init__(
        self, limits: Limits, answer: Callable[[Stream], None], *, most: int = 256, most_handshakes: int = 64
    ) -> None:
        """``answer``: as a Connection takes it."""
        self._limits = limits
        self._answer = answer
        self._most, self._most_handshakes = most, most_handshakes
        self._open: set[Connection] = set()
        self._none = asyncio.Event()
        self._coming: set[asyncio.Task[None]] = set()

    def new(self) -> Connection:
        """For a client that has connected."""
        return Connection(self._limits, self._answer, self._came, self._left)

    async def accept(self, listening: socket.socket, tls: ssl.SSLContext | None) -> None:
        """Take clients in until cancelled; so many at a time as may be in their handshake, others wait."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                if len(self._coming) >= self._most_handshakes:
                    await asyncio.wait(self._coming, return_when=asyncio.FIRST_COMPLETED)
                try:
                    client, _ = await loop.sock_accept(listening)
                except OSError as error:
                    _log.warning("external scaler: no client can be taken in: %s", error)
                    await asyncio.sleep(_ACCEPT_AGAIN_S)
                    continue
                task = loop.create_task(self._welcome(client, tls))
                self._coming.add(task)
                task.add_done_callback(self._coming.discard)
                await asyncio.sleep(0)  # the last line does not wait while clients stand in line
        finally:
            for each in tuple(self._coming):
                each.cancel()

    async def _welcome(self, client: socket.socket, tls: ssl.SSLContext | None) -> None:
        with suppress(OSError):  # of the handshake, too
            await asyncio.get_running_loop().connect_accepted_socket(
                self.new,
                client,
                ssl=tls,
                ssl_handshake_timeout=None if tls is None else _HANDSHAKE_WITHIN_S,
                ssl_shutdown_timeout=None if tls is None else _SHUTDOWN_WITHIN_S,
            )

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
