"""An emulated engine as a child process, for tests and scripts that need one."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from types import TracebackType

_PAUSE_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One HTTP answer."""

    status: int
    content_type: str
    body: bytes


class EmulatorProcess:
    """Runs ``python -m loadtests.engine_emulator`` with ``flags`` on a free port; a context manager that kills it."""

    def __init__(self, *flags: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        command = [sys.executable, "-m", "loadtests.engine_emulator", "--port", str(self.port), *flags]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> EmulatorProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()

    def ask(self, path: str, body: object = None, *, method: str | None = None, timeout_s: float = 30.0) -> Answer:
        """One request on a connection of its own, ``body`` as JSON. Raises OSError or http.client.HTTPException."""
        payload = None if body is None else json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        try:
            connection.request(method or ("GET" if payload is None else "POST"), path, payload)
            response = connection.getresponse()
            kind = response.headers.get("Content-Type", "")
            return Answer(status=response.status, content_type=kind, body=response.read())
        finally:
            connection.close()

    def await_status(self, path: str, status: int | None, *, timeout_s: float = 40.0) -> None:
        """Return as soon as ``path`` answers with ``status`` (None: nothing answers). Raises TimeoutError."""
        deadline_s = time.monotonic() + timeout_s
        while (found := self._status(path)) != status:
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"{self.url}{path} answers {found}, not {status}, after {timeout_s:g} s")
            time.sleep(_PAUSE_S)

    def set_faults(self, faults: object) -> None:
        """Make exactly these faults hold, given as POST /faults takes them. Raises ValueError on a bad one."""
        answer = self.ask("/faults", faults)
        if answer.status != 200:
            raise ValueError(answer.body.decode())

    def clear_faults(self) -> None:
        """End every fault."""
        self.ask("/faults", method="DELETE")

    def _status(self, path: str) -> int | None:
        try:
            return self.ask(path, timeout_s=5.0).status
        except (OSError, http.client.HTTPException):
            return None
