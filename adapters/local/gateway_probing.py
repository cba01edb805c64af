"""Asks replicas that refused a connection whether they accept one again, so that no request is spent on finding out."""

from __future__ import annotations

import asyncio
import logging
from urllib.parse import urlsplit

from adapters.local.gateway_traffic import Traffic
from adapters.local.routes import Endpoint

_log = logging.getLogger(__name__)

PROBE_INTERVAL_S = 0.25


class Prober:
    """One task for each refusing replica; it ends when the replica accepts, or has left the table."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        self._tasks: set[asyncio.Task[None]] = set()

    def watch(self, endpoint: Endpoint, *, connect_timeout_s: float) -> None:
        """Ask until it accepts."""
        task = asyncio.create_task(self._ask(endpoint, connect_timeout_s))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Ask no more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _ask(self, endpoint: Endpoint, connect_timeout_s: float) -> None:
        _log.warning("replica %s of %s refuses connections", endpoint.replica, endpoint.service)
        while self._traffic.table.is_refusing(endpoint):
            await asyncio.sleep(PROBE_INTERVAL_S)
            if await _accepts(endpoint, connect_timeout_s):
                _log.info("replica %s of %s accepts connections again", endpoint.replica, endpoint.service)
                self._traffic.reachable(endpoint)
                return


async def _accepts(endpoint: Endpoint, connect_timeout_s: float) -> bool:
    parts = urlsplit(endpoint.url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        async with asyncio.timeout(connect_timeout_s):
            _, writer = await asyncio.open_connection(parts.hostname, port)
    except OSError:  # TimeoutError is one
        return False
    writer.close()
    return True
