"""Puts the gateway together and runs it until it is told to stop."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from adapters.local.gateway_admin import Admin
from adapters.local.gateway_forwarding import Forwarder, open_session
from adapters.local.gateway_handling import Handler
from adapters.local.gateway_logging import log_loop_error, log_to_stderr
from adapters.local.gateway_page import pages
from adapters.local.gateway_probing import Prober
from adapters.local.gateway_protocol import PROTOCOL, Identity
from adapters.local.gateway_traffic import Traffic
from adapters.local.template import GatewaySettings

# Longer than clients keep idle connections (httpx, which carries OpenAI's client, 5 s), so that it is never us who
# close one under a request; and the end of connections that never send a whole request.
_CLIENT_IDLE_S = 600.0
_MAX_HEADER_BYTES = 64 * 1024
_ADMIN_CLOSE_S = 1.0
_CUT_OFF_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """Sockets that listen already: for clients, for its own ``pages``, and for the controller at ``admin_path``.

    ``backlog``: connections that may wait to be accepted while the process is busy.
    """

    clients: Sequence[socket.socket]
    pages: Sequence[socket.socket]
    admin: socket.socket
    admin_path: Path
    backlog: int


def run(listening: Listening, settings: GatewaySettings, *, grace_s: float) -> None:
    """Serve until SIGTERM, SIGINT or an order to stop; then finish what is in flight, for at most ``grace_s``."""
    log_to_stderr()
    _allow_many_connections()
    asyncio.run(_serve(listening, settings, grace_s))


async def _serve(listening: Listening, settings: GatewaySettings, grace_s: float) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(log_loop_error)
    stopping: asyncio.Future[float] = loop.create_future()
    traffic = Traffic(started_s=time.time())
    prober = Prober(traffic)
    async with open_session() as session:
        handler = Handler(traffic, Forwarder(traffic, session, prober), settings)
        clients = web.Server(
            handler.handle,
            handler_cancellation=True,
            access_log=None,
            auto_decompress=False,
            keepalive_timeout=_CLIENT_IDLE_S,
            max_line_size=_MAX_HEADER_BYTES,
            max_field_size=_MAX_HEADER_BYTES,
        )
        accepting = [
            await loop.create_server(clients, sock=listener, backlog=listening.backlog)
            for listener in listening.clients
        ]

        def stop(within_s: float) -> None:
            if not stopping.done():
                listening.admin_path.unlink(missing_ok=True)
                for server in accepting:
                    server.close()
                stopping.set_result(within_s)

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop, grace_s)
        identity = Identity(
            protocol=PROTOCOL,
            pid=os.getpid(),
            started_s=traffic.started_s,
            port=listening.clients[0].getsockname()[1],
            settings=settings,
            metrics_port=listening.pages[0].getsockname()[1] if listening.pages else None,
        )
        controller = web.AppRunner(
            Admin(traffic, handler, identity, stop).application(),
            access_log=None,
            shutdown_timeout=_ADMIN_CLOSE_S,
        )
        await controller.setup()
        await web.SockSite(controller, listening.admin).start()
        scraper = web.AppRunner(pages(traffic), access_log=None, shutdown_timeout=_ADMIN_CLOSE_S)
        await scraper.setup()
        for listener in listening.pages:
            await web.SockSite(scraper, listener).start()

        gc.freeze()  # all that is here by now stays; do not look through it again while requests wait
        within_s = await stopping
        traffic.close()
        await _finish(clients, within_s)
        await controller.cleanup()
        await scraper.cleanup()  # only now: what the last requests came to is told as well
        await prober.close()


async def _finish(clients: web.Server, within_s: float) -> None:
    await asyncio.sleep(0)  # let the requests that have just come in begin
    clients.pre_shutdown()
    with suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            await clients.shutdown(within_s)
    await clients.shutdown(_CUT_OFF_S)  # of those that are left
    await asyncio.sleep(0)  # let them notice, before their replicas' connections are closed too


def _allow_many_connections() -> None:
    # Each request holds two connections; the usual soft limit of 1,024 files would do for 500 of them.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # a system that limits below "unlimited" keeps its soft limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
