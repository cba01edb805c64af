"""The demo's processes: the controller with all that it starts, and the load; and that none of them stays behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

import psutil

# Every process of a demo inherits this variable, whoever started it, so it can be found again.
_MARK = "GPU_AUTOSCALER_DEMO"
_STOP_S = 90.0


class Stack:
    """Starts processes and ends all of them, with their children, on leaving the context."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._mark = uuid.uuid4().hex
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Stack:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in reversed(list(self._processes)):
            self.stop(name)
        for process in self.left_over(patience_s=0.0):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()

    def start(self, name: str, command: Sequence[str], *, env: Mapping[str, str] | None = None) -> None:
        """Run it, ``env`` added to this process's environment, in a session of its own, so that Ctrl-C reaches only the
        demo, which then ends it in order.

        Its output goes to ``NAME.log`` in the demo's directory.
        """
        with (self._directory / f"{name}.log").open("wb") as log:
            self._processes[name] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {}), _MARK: self._mark},
                start_new_session=True,
            )

    def exit_code(self, name: str) -> int | None:
        """How it ended, None while it runs."""
        return self._processes[name].poll()

    def stop(self, name: str) -> None:
        """Ask it to end, wait for what it has to finish, and kill it if it does not."""
        process = self._processes[name]
        if process.poll() is not None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def log_tail(self, name: str, lines: int = 15) -> str:
        """The last lines that it wrote."""
        text = (self._directory / f"{name}.log").read_text(errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def marked(self) -> list[psutil.Process]:
        """Every living process of this demo, whoever started it."""
        return [process for process in psutil.process_iter() if self._is_marked(process)]

    def left_over(self, *, patience_s: float = 10.0) -> list[psutil.Process]:
        """Marked processes beside those that were started here; those just ending get ``patience_s``."""
        deadline_s = time.monotonic() + patience_s
        while True:
            own = {process.pid for process in self._processes.values() if process.poll() is None}
            found = [process for process in self.marked() if process.pid not in own]
            if not found or time.monotonic() >= deadline_s:
                return found
            time.sleep(0.2)

    def _is_marked(self, process: psutil.Process) -> bool:
        try:
            return process.status() != psutil.STATUS_ZOMBIE and process.environ().get(_MARK) == self._mark
        except (psutil.Error, OSError):
            return False


def controller_command(config: Path) -> tuple[str, ...]:
    """The project's own command, from the environment that runs this demo."""
    return (sys.executable, "-m", "autoscaler.cli", "run", "--config", str(config))
