"""The state directory: who may use it, and what lies in it."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from adapters.local.database import FILE_NAME, Database
from autoscaler.ports import RefusedError


class DirectoryLock:
    """One controller a directory, for as long as its process lives. Replicas don't inherit it."""

    def __init__(self, directory: Path) -> None:
        """Take the lock. Raises RefusedError, naming the process that has it, or why it can't be taken."""
        path = directory / "controller.lock"
        try:
            # O_CLOEXEC: a child that kept the descriptor would keep the lock.
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise RefusedError(f"state directory {directory} can't be used: {error.strerror}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._file, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(self._file)
            raise RefusedError(
                f"state directory {directory} is in use by the controller with process number {holder}"
            ) from error
        with suppress(OSError):  # a full disk: the lock holds, only its message lacks the number
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let another controller have the directory."""
        with suppress(OSError):
            os.ftruncate(self._file, 0)
        os.close(self._file)


class StateDirectory:
    """An opened, locked state directory: ``database`` (state.sqlite) and ``logs``, a log file for each replica.

    ``owner``: marks the processes that belong to this directory; made of its place, so that it survives its contents.
    """

    def __init__(self, path: Path, *, now_s: Callable[[], float]) -> None:
        """Make the directory (for this user alone) where it is missing, and lock it. Raises RefusedError."""
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise RefusedError(f"state directory {path} can't be made: {error.strerror}") from error
        self.path = path.resolve()
        self.logs = self.path / "logs"
        self.owner = hashlib.sha256(os.fsencode(self.path)).hexdigest()[:16]
        self._lock = DirectoryLock(self.path)
        try:
            self.database = Database(self.path / FILE_NAME, now_s=now_s)
        except BaseException:
            self._lock.release()
            raise

    def close(self) -> None:
        """Close the database and give up the lock."""
        self.database.close()
        self._lock.release()
