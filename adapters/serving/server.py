"""Runs the API in a thread of the controller's process."""

from __future__ import annotations

import errno
import socket
import sys
import threading

import uvicorn

from adapters.serving.api import Api
from adapters.serving.auth import ApiSettings
from autoscaler.ports import RefusedError

_STOP_WITHIN_S = 2
_UNREAD_MS = 30_000


class ApiServer:
    """One listening API. Nothing is opened before ``start``; after ``stop`` a new one has to be made."""

    def __init__(self, api: Api, settings: ApiSettings) -> None:
        self._api = api
        self._settings = settings
        self._socket: socket.socket | None = None
        self._server = uvicorn.Server(
            uvicorn.Config(
                api.app,
                access_log=False,  # addresses and headers of readers are nobody's business
                log_config=None,
                log_level="warning",
                lifespan="off",
                http="h11",
                ws="none",
                server_header=False,
                proxy_headers=False,
                limit_concurrency=256,
                timeout_keep_alive=15,
                timeout_graceful_shutdown=_STOP_WITHIN_S,
            )
        )
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Listen, and return once requests are answered. Raises RefusedError where it can't."""
        self._socket = _listening(self._settings)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, name="api", daemon=True
        )
        self._thread.start()
        while not self._server.started:
            self._thread.join(timeout=0.01)
            if not self._thread.is_alive():
                raise RefusedError("api: the server ended while it started; its log says why")

    @property
    def port(self) -> int:
        """The port that is listened on. Raises RefusedError before ``start``."""
        if self._socket is None:
            raise RefusedError("api: not started")
        return int(self._socket.getsockname()[1])

    @property
    def url(self) -> str:
        """The dashboard's address as this machine can open it, without the token."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self._settings.host, self._settings.host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/"

    def stop(self) -> None:
        """End the open streams, answer what was asked, and close. Does nothing if it isn't running."""
        if self._thread is None:
            return
        self._api.streams.close()
        self._server.should_exit = True
        self._thread.join(timeout=2 * _STOP_WITHIN_S)
        self._thread = None


def _listening(settings: ApiSettings) -> socket.socket:
    host, port = settings.host, settings.port
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except socket.gaierror as error:
        raise RefusedError(f"api.host: {host} is no address of this machine: {error.strerror}") from error
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if sys.platform == "linux":  # accepted sockets inherit it: a reader that takes nothing is cut off
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNREAD_MS)
        listening.bind(address)
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise RefusedError(_refused(error, host, port)) from error
    return listening


def _refused(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"api.port: {port} on {host} is taken by another program; stop that one, or set another api.port "
            "(0 takes a free one)"
        )
    if error.errno == errno.EACCES:
        return f"api.port: {port} may be opened by root alone; set an api.port above 1023"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"api.host: {host} is no address of this machine"
    return f"api.host, api.port: can't listen on {host}:{port}: {error.strerror}"
