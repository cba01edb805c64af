"""The one SQLite file of a state directory: opened, checked, and set aside when it can't be read."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from autoscaler.ports import PortError, RefusedError, UnavailableError

_log = logging.getLogger(__name__)

Value = str | int | float | bytes | None
Row = tuple[Any, ...]  # as wide as the query
Statement = tuple[str, Sequence[Value]]

FILE_NAME = "state.sqlite"
_VERSION = 1
_BUSY_TIMEOUT_S = 5.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS targets (
    service TEXT NOT NULL, variant TEXT NOT NULL, replicas INTEGER NOT NULL, PRIMARY KEY (service, variant));
CREATE TABLE IF NOT EXISTS replicas (name TEXT PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS starts (
    id INTEGER PRIMARY KEY, service TEXT NOT NULL, variant TEXT NOT NULL, took_s REAL NOT NULL);
CREATE TABLE IF NOT EXISTS names (service TEXT NOT NULL, variant TEXT NOT NULL, last INTEGER NOT NULL,
    PRIMARY KEY (service, variant));
CREATE TABLE IF NOT EXISTS ticks (seq INTEGER PRIMARY KEY, at_s REAL NOT NULL, body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS decisions (
    seq INTEGER NOT NULL, service TEXT NOT NULL, at_s REAL NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (seq, service));
CREATE INDEX IF NOT EXISTS decisions_by_time ON decisions (service, at_s);
CREATE TABLE IF NOT EXISTS checkpoints (
    after_seq INTEGER PRIMARY KEY, at_s REAL NOT NULL, state BLOB NOT NULL, plans BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS latest (id INTEGER PRIMARY KEY CHECK (id = 1), at_s REAL NOT NULL, state BLOB NOT NULL);
"""
_CORRUPT = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_REFUSED = {
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_AUTH,
}


class StateLostError(UnavailableError):
    """The file could not be read and was set aside; what is still in memory can be written to the new one."""


class Database:
    """One connection, used by several threads in turn.

    ``notices``: what a person should hear of. ``generation`` grows whenever the file was replaced by an empty one.
    """

    def __init__(self, path: Path, *, now_s: Callable[[], float]) -> None:
        """Open or create ``path``. A file that is no sound database is kept beside it under another name.

        Raises RefusedError, naming the file, where it can't be written or was written by a later version.
        """
        self._path = path
        self._now_s = now_s
        self._lock = threading.RLock()
        self.notices: list[str] = []
        self.generation = 0
        try:
            self._connection = self._open(check=True)
        except sqlite3.Error as error:
            if _primary_code(error) not in _CORRUPT:
                raise self._translated(error) from error
            self._connection = self._fresh(str(error))

    def write(self, statements: Sequence[Statement]) -> None:
        """All or nothing. Raises StateLostError, RefusedError (full, read-only), UnavailableError (busy, I/O)."""
        with self._lock, self._errors_translated():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                for sql, values in statements:
                    self._connection.execute(sql, values)
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def read(self, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        """All rows. Raises as ``write``."""
        with self._lock, self._errors_translated():
            return self._connection.execute(sql, values).fetchall()

    def shrink(self) -> None:
        """Give freed pages back to the disk. Raises as ``write``."""
        with self._lock, self._errors_translated():
            self._connection.execute("PRAGMA incremental_vacuum").fetchall()

    def used_bytes(self) -> int:
        """Size of what is stored, free pages not counted. Raises as ``write``."""
        with self._lock, self._errors_translated():
            pages, free, size = (
                int(self._connection.execute(f"PRAGMA {name}").fetchone()[0])
                for name in ("page_count", "freelist_count", "page_size")
            )
        return (pages - free) * size

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def _open(self, *, check: bool) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
        try:
            if check and connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
                error = sqlite3.DatabaseError("the pages contradict one another")
                error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
                raise error
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version > _VERSION:
                raise RefusedError(f"{self._path} was written by a later version of this program")
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA journal_size_limit = 16777216")
            connection.executescript(_SCHEMA)
            connection.execute(f"PRAGMA user_version = {_VERSION}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _fresh(self, why: str) -> sqlite3.Connection:
        """Set the unreadable file aside, with its journals, and open an empty one."""
        stamp = datetime.fromtimestamp(self._now_s(), UTC).strftime("%Y%m%dT%H%M%SZ")
        kept = self._path.with_name(f"{self._path.name}.corrupt-{stamp}")
        number = 1
        while kept.exists():
            number += 1
            kept = self._path.with_name(f"{self._path.name}.corrupt-{stamp}-{number}")
        try:
            for suffix in ("", "-wal", "-shm"):
                part = self._path.with_name(self._path.name + suffix)
                if part.exists():
                    part.rename(kept.with_name(kept.name + suffix))
            connection = self._open(check=False)
        except (OSError, sqlite3.Error) as error:
            raise RefusedError(f"{self._path} can't be read ({why}), and not be set aside: {error}") from error
        self.generation += 1
        notice = f"{self._path} could not be read ({why}): kept as {kept.name}, started afresh"
        self.notices.append(notice)
        _log.warning(notice)
        return connection

    @contextmanager
    def _errors_translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            if _primary_code(error) in _CORRUPT:
                self._connection.close()
                self._connection = self._fresh(str(error))
                raise StateLostError(self.notices[-1]) from error
            raise self._translated(error) from error

    def _translated(self, error: sqlite3.Error) -> PortError:
        kind = RefusedError if _primary_code(error) in _REFUSED else UnavailableError
        return kind(f"{self._path}: {error}")


def _primary_code(error: sqlite3.Error) -> int:
    """SQLite's result code without its extension, 0 where the library gave none."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def read_only(path: Path) -> sqlite3.Connection:
    """A connection that changes nothing and gets along with a running controller. Raises UnavailableError."""
    if not path.is_file():
        raise UnavailableError(
            f"{path} does not exist: `gpu-autoscaler run` makes it; where it runs with another configuration or state "
            "directory, name that one"
        )
    journal = path.with_name(path.name + "-wal")
    # Without a journal nobody writes; and in a folder that we can't write to, SQLite reads it no other way.
    for options in ("mode=ro", "immutable=1") if not journal.exists() else ("mode=ro",):
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?{options}", uri=True, timeout=_BUSY_TIMEOUT_S, isolation_level=None
        )
        try:
            connection.execute("SELECT 1 FROM sqlite_master").fetchone()
        except sqlite3.Error as error:
            connection.close()
            problem = error
            continue
        return connection
    raise UnavailableError(f"{path} can't be read: {problem}") from problem


def read_rows(path: Path, sql: str, values: Sequence[Value] = ()) -> list[Row]:
    """All rows of one query, read-only. Raises UnavailableError."""
    with closing(read_only(path)) as connection:
        try:
            return connection.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise UnavailableError(f"{path} can't be read: {error}") from error
