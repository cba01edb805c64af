"""Runs the external metrics API in a thread of its own."""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

from adapters.serving.external.authentication import Authenticator
from adapters.serving.external.authorization import Authorizer
from adapters.serving.external.certificates import PeerJudge
from adapters.serving.external.connections import Connections
from adapters.serving.external.handling import Handler
from adapters.serving.external.reviews import ReviewApi, Reviews
from adapters.serving.external.settings import ExternalMetricsSettings
from adapters.serving.external.tls import ServingTls
from autoscaler.domain.caller import CallerTrust, TokenRefused, User, Verdict
from autoscaler.ports import Publications, RefusedError

_log = logging.getLogger(__name__)

_BACKLOG = 1024
_HANDSHAKE_WITHIN_S = 10.0
_CLOSE_WITHIN_S = 2.0
_STOP_WITHIN_S = 2.0
_UNREAD_MS = 30_000


class ExternalMetricsServer:
    """One listening server. Nothing is opened before ``start``; after ``stop`` a new one has to be made.

    Until ``set_trust`` was called no certificate counts, and ``/readyz`` says so.
    """

    def __init__(
        self,
        settings: ExternalMetricsSettings,
        publications: Publications,
        api: ReviewApi,
        *,
        now_s: Callable[[], float],
        read_files_every_s: float = 5.0,
        prove_within_s: float = 10.0,
    ) -> None:
        """``now_s``: seconds since the epoch, for certificates, ages and what is remembered.

        ``prove_within_s``: how long a connection may stay on which no request has shown who asks.

        Raises RefusedError, naming the key, where the certificate and its key can't be used.
        """
        self._settings = settings
        self._read_files_every_s = read_files_every_s
        self._prove_within_s = prove_within_s
        self._tls = ServingTls(settings.certificate_file, settings.key_file)
        self._tokens: Reviews[User | TokenRefused] = Reviews("token-review", now_s=now_s)
        self._verdicts: Reviews[Verdict] = Reviews("subject-access-review", now_s=now_s)
        self._authenticator = Authenticator(api, self._tokens, audiences=settings.audiences)
        self._handler = Handler(publications, self._authenticator, Authorizer(api, self._verdicts), now_s=now_s)
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._serving = threading.Event()

    def set_trust(self, trust: CallerTrust) -> None:
        """Tell callers apart by this from now on, those on open connections too. Safe from any thread.

        Raises RefusedError, naming the key of the ConfigMap, where it can't be read; the last then holds on.
        """
        try:
            judge = PeerJudge(trust)
        except ValueError as error:
            raise RefusedError(str(error)) from error
        self._tls.set_trust(trust)
        self._authenticator.judge_by(judge)
        self._handler.trusted = True

    def start(self) -> None:
        """Listen, and return once requests are answered. Raises RefusedError where it can't."""
        self._socket = _listening(self._settings)
        _allow_many_connections()
        self._thread = threading.Thread(target=self._run, name="external-metrics", daemon=True)
        self._thread.start()
        while not self._serving.wait(timeout=0.05):
            if not self._thread.is_alive():
                raise RefusedError("externalMetrics: the server ended while it started; its log says why")

    @property
    def port(self) -> int:
        """The port that is listened on. Raises RefusedError before ``start``."""
        if self._socket is None:
            raise RefusedError("externalMetrics: not started")
        return int(self._socket.getsockname()[1])

    def stop(self) -> None:
        """Answer what was asked, and close. Does nothing if it isn't running."""
        if self._thread is None or self._loop is None or self._stopping is None:
            return
        with suppress(RuntimeError):  # the loop has ended by itself
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(timeout=4 * _STOP_WITHIN_S)
        self._thread = None

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        assert self._socket is not None
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        connections = Connections(
            self._handler.handle, most=self._settings.max_connections, unproven_s=self._prove_within_s
        )

        self._handler.proven = connections.proven
        server = await self._loop.create_server(
            connections,
            sock=self._socket,
            backlog=_BACKLOG,
            ssl=self._tls.context,
            ssl_handshake_timeout=_HANDSHAKE_WITHIN_S,
            ssl_shutdown_timeout=_CLOSE_WITHIN_S,
        )
        reading = self._loop.create_task(self._read_files())
        self._serving.set()
        await self._stopping.wait()
        server.close()
        reading.cancel()
        await connections.close(_STOP_WITHIN_S)
        self._tokens.close()
        self._verdicts.close()

    async def _read_files(self) -> None:
        told = ""
        while True:
            await asyncio.sleep(self._read_files_every_s)
            try:
                if await asyncio.to_thread(self._tls.read_again):
                    _log.info("the certificate of the external metrics API was read again")
                told = ""
            except RefusedError as error:
                if str(error) != told:
                    _log.error("%s; the last certificate stays in use", error)
                told = str(error)


def _listening(settings: ExternalMetricsSettings) -> socket.socket:
    host, port = settings.host, settings.port
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except socket.gaierror as error:
        raise RefusedError(f"externalMetrics.host: {host} is no address of this machine: {error.strerror}") from error
    try:
        listening = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:  # no IPv6 here, say
        raise RefusedError(_refused(error, host, port)) from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        if sys.platform == "linux":  # accepted sockets inherit it: a reader that takes nothing is cut off
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNREAD_MS)
        listening.bind(address)
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise RefusedError(_refused(error, host, port)) from error
    return listening


def _refused(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"externalMetrics.port: {port} on {host} is taken by another program; set another (0 takes a free one)"
    if error.errno == errno.EACCES:
        return f"externalMetrics.port: {port} may be opened by root alone; set one above 1023"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"externalMetrics.host: {host} is no address of this machine"
    return f"externalMetrics.host, externalMetrics.port: can't listen on {host}:{port}: {error.strerror}"


def _allow_many_connections() -> None:
    # The usual soft limit of 1,024 files would do for fewer connections than kube-apiservers and probes may open.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # a system that limits below "unlimited" keeps its soft limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
