"""What the supervisor asks of the operating system's processes. ``os_processes`` answers for the real ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessId:
    """One process, for good: ``birth`` tells it from a later one with the same number."""

    pid: int
    birth: str


class Liveness(StrEnum):
    """What is left of a replica's processes."""

    RUNNING = "Running"
    LEFTOVERS = "Leftovers"
    GONE = "Gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """RUNNING: the process lives. LEFTOVERS: it ended, but processes that it started live. GONE: nothing is left.

    ``exit_code``: minus the signal's number where a signal ended it; None where it runs or was not our child.
    """

    liveness: Liveness
    exit_code: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A replica's process to be: ``env`` is added to our own environment, ``cwd`` None means ours.

    ``log``: standard output and error are appended to it. ``record``: a text that stays readable on the process for
    as long as it lives, so that it can be recognized even if every other trace of it is lost.
    """

    name: str
    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    cwd: str | None
    log: Path
    record: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """A living process of the replica ``name``, and the text it was given.

    ``whole`` False: what was spawned has ended, and this is one of the processes that outlived it.
    """

    name: str
    process: ProcessId
    record: str
    whole: bool


class SpawnError(Exception):
    """The process could not be started; the message says why, for people."""


class ProcessTable(Protocol):
    """Processes in groups of their own: they outlive us, and are signalled with all that they started."""

    def spawn(self, launch: Launch) -> ProcessId:
        """Start it. Raises SpawnError."""
        ...

    def status(self, process: ProcessId, name: str) -> Status:
        """What lives of it. ``name``: its replica's."""
        ...

    def terminate(self, process: ProcessId) -> None:
        """Ask it and its group to end; nothing where it ended already."""
        ...

    def kill(self, process: ProcessId, name: str) -> None:
        """End it, its group, and whatever else was started for the replica ``name``."""
        ...

    def marked(self) -> Sequence[Marked]:
        """One process for every replica of this state directory of which any lives, by whichever controller."""
        ...

    def release(self) -> None:
        """Stop looking after our children; they go on."""
        ...
