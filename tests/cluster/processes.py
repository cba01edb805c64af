"""The processes of a test cluster: each in a session of its own with a log file, none left when the test run ends."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

_WATCHER = Path(__file__).with_name("watcher.py")
_PAUSE_S = 0.02
# Below Linux's range for outgoing connections, which could take a port between its choice and its use.
_PORTS = range(15_000, 32_000)
_RANDOM = random.SystemRandom()  # workers that are seeded alike must not agree


class NotReadyError(RuntimeError):
    """Something of the test cluster did not get ready. The message bears the end of its log where it has one."""


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on."""
    while True:
        port = _RANDOM.choice(_PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def wait_for(condition: Callable[[], object], what: str, *, within_s: float = 60.0) -> None:
    """Return as soon as the condition is true. Raises NotReadyError, naming ``what``, where it does not become true."""
    deadline_s = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline_s:
            raise NotReadyError(f"not within {within_s:g} s: {what}")
        time.sleep(_PAUSE_S)


class ManagedProcess:
    """One running process. It leads its own session, so that signals reach what it started as well."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self.name = name
        self.log = log
        self._process = process

    @property
    def pid(self) -> int:
        """Its number, also that of its process group."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """It has not ended."""
        return self._process.poll() is None

    def signal(self, number: int) -> None:
        """Send a signal to it and all that it started; nothing happens where it is gone."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def wait(self, timeout_s: float) -> bool:
        """Whether it ended within that time."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
            return True
        return False

    def end_of_log(self) -> str:
        """The last part of what it printed."""
        return self.log.read_text(errors="replace")[-3000:]


class Processes:
    """Starts and stops processes, their logs in ``folder``. A watcher kills what is left when this process dies."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: list[ManagedProcess] = []
        self._watcher = subprocess.Popen(
            (sys.executable, "-ES", str(_WATCHER)), stdin=subprocess.PIPE, start_new_session=True, text=True
        )

    def start(self, name: str, command: Sequence[str], environ: Mapping[str, str] | None = None) -> ManagedProcess:
        """Start a process; ``environ`` is added to this one's environment. A log of that name is continued."""
        log = self._folder / f"{name}.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                command,
                env={**os.environ, **(environ or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        started = ManagedProcess(name, process, log)
        self._running.append(started)
        self._tell_watcher(f"+{started.pid}")
        return started

    def stop(self, process: ManagedProcess, *, grace_s: float = 10.0) -> None:
        """TERM, then KILL after the grace; returns when it is gone. A stopped (SIGSTOP) process is continued first."""
        process.signal(signal.SIGTERM)
        process.signal(signal.SIGCONT)
        if not process.wait(grace_s):
            self.kill(process)
        self._forget(process)

    def kill(self, process: ManagedProcess) -> None:
        """KILL it and all that it started; returns when it is gone."""
        process.signal(signal.SIGKILL)
        process.wait(30.0)
        self._forget(process)

    def await_ready(self, process: ManagedProcess, condition: Callable[[], object], *, within_s: float = 60.0) -> None:
        """Return as soon as the condition is true. Raises NotReadyError where the process or time ends before."""

        def ready_or_gone() -> bool:
            return bool(condition()) or not process.running

        try:
            wait_for(ready_or_gone, f"{process.name} is ready", within_s=within_s)
        except NotReadyError as error:
            raise NotReadyError(f"{error}; the end of its log:\n{process.end_of_log()}") from None
        if not process.running:
            raise NotReadyError(f"{process.name} has ended; the end of its log:\n{process.end_of_log()}")

    def stop_all(self) -> None:
        """End everything, the last started first."""
        for process in reversed(list(self._running)):
            self.stop(process, grace_s=3.0)
        with self._watcher as watcher:
            assert watcher.stdin is not None
            watcher.stdin.close()

    def _forget(self, process: ManagedProcess) -> None:
        if process in self._running:
            # What its leader left behind goes with it.
            process.signal(signal.SIGKILL)
            self._running.remove(process)
            self._tell_watcher(f"-{process.pid}")

    def _tell_watcher(self, line: str) -> None:
        assert self._watcher.stdin is not None
        print(line, file=self._watcher.stdin, flush=True)
