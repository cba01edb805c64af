"""What became of each request, as typed records in a file of JSON lines."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from autoscaler.codec import decode, encode
from autoscaler.domain.service import Slo


class Outcome(StrEnum):
    """How a request ended."""

    FINISHED = "Finished"
    """Every token came and the stream ended as it should."""
    REFUSED = "Refused"
    """No connection, or an answer with an error status."""
    UNFINISHED = "Unfinished"
    """Accepted, but broken off, timed out, or still under way when the run ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """One request. Times in seconds; ``due_s`` since the begin of the load.

    ``late_s``: how much later than due it was sent (the generator's own fault). ``ttft_s``: from the moment
    it was due to its first token, so that a late send counts against the service, never for it. ``itl_s``:
    mean gap between its tokens, None with fewer than two. ``e2e_s``: from due to the end. ``status``: HTTP
    status, None without an answer.
    """

    number: int
    due_s: float
    late_s: float
    prompt_tokens: int
    asked_tokens: int
    output_tokens: int
    outcome: Outcome
    status: int | None
    ttft_s: float | None
    itl_s: float | None
    e2e_s: float
    error: str = ""

    def within(self, slo: Slo) -> bool:
        """It finished and met every threshold of ``slo``; a request of one token has no ITL to miss."""
        if self.outcome is not Outcome.FINISHED or self.ttft_s is None:
            return False
        return (
            (slo.ttft_s is None or self.ttft_s <= slo.ttft_s)
            and (slo.itl_s is None or self.itl_s is None or self.itl_s <= slo.itl_s)
            and (slo.e2e_s is None or self.e2e_s <= slo.e2e_s)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadHead:
    """The first line of a records file: what was offered, to whom, and when the load began (seconds since
    the epoch).
    """

    url: str
    label: str
    started_s: float
    duration_s: float
    requests: int
    slo: Slo


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """All of a load, records in the order in which the requests ended."""

    head: LoadHead
    records: tuple[RequestRecord, ...]


class RecordsFile:
    """Writes records as they come, a line each, so that another process can follow."""

    def __init__(self, path: Path) -> None:
        """Open it, empty. Raises OSError."""
        self._file = path.open("wb", buffering=0)

    def begin(self, head: LoadHead) -> None:
        """The first line, when the load begins."""
        self._file.write(encode(head) + b"\n")

    def write(self, record: RequestRecord) -> None:
        """Append one record."""
        self._file.write(encode(record) + b"\n")

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_records(path: Path) -> LoadResult:
    """All complete lines of a records file. Raises ValueError where it is not one."""
    lines = path.read_bytes().split(b"\n")
    if len(lines) < 2:
        raise ValueError(f"{path}: not a records file, its first line is not complete")
    return LoadResult(
        head=decode(LoadHead, lines[0]), records=tuple(decode(RequestRecord, line) for line in lines[1:-1])
    )


class RecordsFollower:
    """Reads a records file while another process writes it."""

    def __init__(self, path: Path) -> None:
        self.head: LoadHead | None = None
        self.records: list[RequestRecord] = []
        self._path = path
        self._offset = 0

    def catch_up(self) -> None:
        """Take in the lines that have been completed since the last call."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        complete = data[: data.rfind(b"\n") + 1]
        self._offset += len(complete)
        for line in complete.splitlines():
            if self.head is None:
                self.head = decode(LoadHead, line)
            else:
                self.records.append(decode(RequestRecord, line))
