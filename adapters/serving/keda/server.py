"""Runs the external scaler in a thread of the controller's process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

import grpc
import grpc.aio

from adapters.serving.keda.changes import Changes
from adapters.serving.keda.credentials import RotatingCertificate, TlsFiles
from adapters.serving.keda.scaler import ExternalScaler, handlers_of
from autoscaler.ports import Publications, RefusedError

_STOP_WITHIN_S = 2.0
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
        changes = Changes(loop)
        scaler = ExternalScaler(
            self._publications,
            changes=changes,
            now_s=self._now_s,
            repeat_s=self._settings.repeat_s,
            max_streams=self._settings.max_streams,
        )
        server = grpc.aio.server(
            handlers=[handlers_of(scaler)],
            options=_options(self._settings),
            maximum_concurrent_rpcs=self._settings.max_streams + _MAX_CALLS,
        )
        port = self._bind(server)
        await server.start()
        end = self._publications.subscribe(changes.wake)
        self._stop = partial(loop.call_soon_threadsafe, stopping.set)
        self._listening.set_result(port)
        await stopping.wait()
        end()
        changes.close()
        await server.stop(_STOP_WITHIN_S)

    def _bind(self, server: grpc.aio.Server) -> int:
        settings = self._settings
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        address = f"{host}:{settings.port}"
        certificate = None if settings.tls is None else RotatingCertificate(settings.tls)
        try:
            if certificate is None:
                return server.add_insecure_port(address)
            return server.add_secure_port(address, certificate.credentials())
        except RuntimeError as error:
            raise RefusedError(
                f"external scaler: can't listen on {address}: is the port taken, or the host another machine's? "
                "Port 0 takes a free one"
            ) from error


def _options(settings: ScalerSettings) -> tuple[tuple[str, int], ...]:
    """Names and meanings: gRPC core, ``include/grpc/impl/channel_arg_names.h``."""
    return (
        ("grpc.so_reuseport", 0),  # or a second server would take over part of the calls unnoticed
        ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
        ("grpc.max_metadata_size", 16 * 1024),
        ("grpc.max_concurrent_streams", settings.max_streams + _MAX_CALLS),
        ("grpc.max_connection_age_ms", round(1000 * settings.connection_age_s)),  # with no limit on open streams
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
        ("grpc.http2.max_ping_strikes", 0),  # clients may ping as often as they like
    )
