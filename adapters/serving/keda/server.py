"""Runs the external scaler in a thread of the controller's process."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

from adapters.serving.keda.changes import Changes
from adapters.serving.keda.connections import Connections
from adapters.serving.keda.credentials import TlsFiles, rotating_context
from adapters.serving.keda.limits import Limits
from adapters.serving.keda.scaler import ExternalScaler, calls_of
from autoscaler.ports import Publications, RefusedError

_STOP_WITHIN_S = 2.0
_BACKLOG = 1024
_MAX_MESSAGE_BYTES = 64 * 1024
_MAX_CALLS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalerSettings:
    """Where KEDA's external scaler listens. ``port`` 0 takes a free one. ``tls`` None: plain text.

    ``repeat_s``: an open stream repeats what it said. ``connection_age_s``: from then on a client is asked to connect
    anew, so that it finds replicas that have come since; streams go on. ``max_streams``: so many may be open.
    """

    host: str = "127.0.0.1"
    port: int = 9090
    tls: TlsFiles | None = None
    repeat_s: float = 30.0
    connection_age_s: float = 30.0
    max_streams: int = 1000

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ValueError(f"port: must lie in [0, 65535] (0 takes a free port), got {self.port}")
        if self.repeat_s <= 0 or self.connection_age_s <= 0:
            raise ValueError(f"times must be positive, got {self.repeat_s} s and {self.connection_age_s} s")
        if self.max_streams < 1:
            raise ValueError(f"max_streams: must be at least 1, got {self.max_streams}")


class ScalerServer:
    """One listening scaler. Nothing is opened before ``start``; after ``stop`` a new one has to be made."""

    def __init__(self, publications: Publications, settings: ScalerSettings, *, now_s: Callable[[], float]) -> None:
        self._publications = publications
        self._settings = settings
        self._now_s = now_s
        self._listening: Future[int] = Future()
        self._stop: Callable[[], object] | None = None
        self._thread = threading.Thread(target=self._run, name="external-scaler", daemon=True)

    def start(self) -> None:
        """Listen, and return once calls are answered. Raises RefusedError where it can't."""
        self._thread.start()
        self._listening.result()

    @property
    def port(self) -> int:
        """The port that is listened on. Raises RefusedError before ``start``."""
        if not self._listening.done():
            raise RefusedError("external scaler: not started")
        return self._listening.result()

    def stop(self) -> None:
        """End the open streams in good order, answer what was asked, and close. Does nothing if it isn't running."""
        if self._stop is None:
            return
        self._stop()
        self._stop = None
        self._thread.join(timeout=2 * _STOP_WITHIN_S)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception as error:
            if self._listening.done():
                raise
            self._listening.set_exception(error)

    async def _serve(self) -> None:
        loop, stopping = asyncio.get_running_loop(), asyncio.Event()
        settings = self._settings
        changes = Changes(loop)
        scaler = ExternalScaler(
            self._publications,
            changes=changes,
            now_s=self._now_s,
            repeat_s=settings.repeat_s,
            max_streams=settings.max_streams,
        )
        limits = Limits(
            max_message_bytes=_MAX_MESSAGE_BYTES,
            max_streams=settings.max_streams + _MAX_CALLS,
            age_s=settings.connection_age_s,
        )
        connections = Connections(limits, calls_of(scaler).answer)
        tls = None if settings.tls is None else rotating_context(settings.tls)
        with _listening(settings) as listening:
            accepting = loop.create_task(connections.accept(listening, tls))
            end = self._publications.subscribe(changes.wake)
            self._stop = partial(loop.call_soon_threadsafe, stopping.set)
            self._listening.set_result(listening.getsockname()[1])
            await stopping.wait()
            end()
            accepting.cancel()
            await asyncio.wait([accepting])
            changes.close()
            await connections.close(_STOP_WITHIN_S)


def _listening(settings: ScalerSettings) -> socket.socket:
    """On an address of IPv6 that names no machine, IPv4 is listened on as well, as gRPC's servers do.

    Raises RefusedError.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        listening = socket.create_server(
            address[:2], family=family, backlog=_BACKLOG, reuse_port=False, dualstack_ipv6=both
        )
    except OSError as error:
        raise RefusedError(
            f"external scaler: can't listen on {settings.host}:{settings.port}: is the port taken, or the host "
            f"another machine's? Port 0 takes a free one ({error.strerror})"
        ) from error
    listening.setblocking(False)
    return listening
