"""Rows of a CSV or JSON-lines file with their line numbers, and columns of them as numbers."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_CHUNK = 65536

Floats = NDArray[np.float64]


class TraceFileError(ValueError):
    """The file can't be read as a trace: which column of which line, and what stood there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Some rows of a file: ``lines[i]`` is the line that row i ends in, ``cells[i]`` its cells."""

    path: Path
    header: Sequence[str]
    lines: Sequence[int]
    cells: Sequence[Sequence[str]]

    def texts(self, column: str) -> list[str]:
        """The cells of a column. Raises TraceFileError where a row is too short."""
        index = self.header.index(column)
        try:
            return [row[index] for row in self.cells]
        except IndexError:
            for line, row in zip(self.lines, self.cells, strict=True):
                if len(row) <= index:
                    raise TraceFileError(
                        f"{self.path}, line {line}: no {column}; the line has {len(row)} of {len(self.header)} columns"
                    ) from None
            raise

    def numbers(self, column: str, *, allowed: str, check: Callable[[Floats], NDArray[np.bool_]]) -> Floats:
        """A column as numbers that all pass ``check``; ``allowed`` says in words what that is. Raises
        TraceFileError.
        """
        texts = self.texts(column)
        try:
            values = np.array(texts, dtype=np.float64)
        except ValueError:
            values = np.array([_number(text) for text in texts])
        wrong = ~(np.isfinite(values) & check(values))
        if wrong.any():
            self._refuse(column, int(np.argmax(wrong)), allowed)
        return values

    def moments(self, column: str) -> Floats:
        """A column of calendar times as seconds since the epoch; without an offset they are taken as UTC. Raises
        TraceFileError.
        """
        texts = self.texts(column)
        try:
            # Nanoseconds, since Azure's traces have seven digits; numpy knows no offsets but warns of them.
            plain = np.array([text.removesuffix("+00:00").removesuffix("Z") for text in texts])
            if any("+" in text for text in plain.tolist()):
                raise ValueError("an offset")
            return plain.astype("datetime64[ns]").astype(np.int64) / 1e9
        except ValueError:
            return np.array([self._moment(column, index, text) for index, text in enumerate(texts)])

    def _moment(self, column: str, index: int, text: str) -> float:
        try:
            moment = datetime.fromisoformat(text.strip())
        except ValueError:
            self._refuse(column, index, "a time such as 2023-11-16 18:15:46.68")
            raise
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()

    def _refuse(self, column: str, index: int, allowed: str) -> None:
        given = self.texts(column)[index]
        raise TraceFileError(f"{self.path}, line {self.lines[index]}: {column} must be {allowed}, got {given!r}")


def header_of(path: Path) -> tuple[str, ...]:
    """The names of the file's columns: a CSV's first line, or the keys of the first JSON object. Raises
    TraceFileError.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            if _is_json(path):
                return tuple(_json_row(path, 1, file.readline()))
            names = next(csv.reader(file), [])
    except (OSError, UnicodeDecodeError) as error:
        raise TraceFileError(f"{path}: {error}") from error
    if not names:
        raise TraceFileError(f"{path}: the file is empty")
    return tuple(name.strip() for name in names)


def chunks(path: Path) -> Iterator[Chunk]:
    """The rows after the header, in the order of the file; empty lines are left out. Raises TraceFileError."""
    header = header_of(path)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = _json_rows(path, file, header) if _is_json(path) else _csv_rows(file)
            while part := list(islice(rows, _CHUNK)):
                lines, cells = zip(*part, strict=True)
                yield Chunk(path=path, header=header, lines=lines, cells=cells)
    except (UnicodeDecodeError, csv.Error) as error:
        raise TraceFileError(f"{path}: {error}") from error


def at_least(least: float) -> Callable[[Floats], NDArray[np.bool_]]:
    """The check for numbers from ``least`` up."""
    return lambda values: values >= least


def whole_tokens(values: Floats) -> NDArray[np.bool_]:
    """The check for whole numbers of at least 0."""
    whole: NDArray[np.bool_] = (values >= 0) & (values == np.floor(values))
    return whole


def _csv_rows(file: Iterator[str]) -> Iterator[tuple[int, Sequence[str]]]:
    reader = csv.reader(file)
    next(reader)
    for row in reader:
        if row:
            yield reader.line_num, row


def _json_rows(path: Path, file: Iterator[str], header: Sequence[str]) -> Iterator[tuple[int, Sequence[str]]]:
    for line, text in enumerate(file, start=1):
        if text.strip():
            row = _json_row(path, line, text)
            yield line, [_cell(row[name]) if name in row else "" for name in header]


def _json_row(path: Path, line: int, text: str) -> dict[str, object]:
    try:
        row = json.loads(text)
    except ValueError as error:
        raise TraceFileError(f"{path}, line {line}: not a JSON object: {error}") from None
    if not isinstance(row, dict):
        raise TraceFileError(f"{path}, line {line}: must be a JSON object, got {text.strip()[:40]!r}")
    return row


def _cell(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _is_json(path: Path) -> bool:
    return path.suffix in (".jsonl", ".ndjson")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
