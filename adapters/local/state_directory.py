"""The state directory: who may use it, and what lies in it."""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

from adapters.local.database import FILE_NAME, Database
from autoscaler.ports import RefusedError

# A controller killed in the very act of starting a replica leaves a child with the lock, until that runs its command.
_HALF_BORN_S = 5.0


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
        deadline = time.monotonic() + _HALF_BORN_S
        while not self._taken():
            holder = os.pread(self._file, 32, 0).decode(errors="replace").strip()
            if _lives(holder) or time.monotonic() > deadline:
                os.close(self._file)
                raise RefusedError(
                    f"state directory {directory} is in use by the controller with process number {holder or 'unknown'}"
                )
            time.sleep(0.01)
        with suppress(OSError):  # a full disk: the lock holds, only its message lacks the number
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def _taken(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def release(self) -> None:
        """Let another controller have the directory."""
        with suppress(OSError):
            os.ftruncate(self._file, 0)
        os.close(self._file)


def _lives(number: str) -> bool:
    """Whether the process with this number runs; taken to, where there is no number."""
    if not number.isdigit():
        return True
    try:
        return psutil.Process(int(number)).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


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
