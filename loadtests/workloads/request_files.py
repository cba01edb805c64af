"""Files with a row for each request, recognised by their columns: Azure's, BurstGPT's, Mooncake's."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from adapters.simulation.requests import Requests
from loadtests.workloads.recorded import RecordedRequests
from loadtests.workloads.rows import Chunk, Floats, TraceFileError, at_least, chunks, whole_tokens

# Mooncake's hashes stand for blocks of that many tokens (FAST'25 paper, section 4).
MOONCAKE_BLOCK_TOKENS = 512


class TimeUnit(Enum):
    """What a column of times counts in."""

    CALENDAR = "a time of day"
    SECONDS = "seconds"
    MILLISECONDS = "milliseconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestColumns:
    """The columns of one kind of file. ``cached``: prompt tokens that a cache without limit would hold; ``blocks``:
    the identities of the prompt's blocks, from which the same follows.
    """

    kind: str
    at: str
    unit: TimeUnit
    prompt: str
    output: str
    cached: str | None = None
    blocks: str | None = None

    @property
    def needed(self) -> frozenset[str]:
        """By which the kind is recognised."""
        return frozenset((self.at, self.prompt, self.output))


KINDS = (
    RequestColumns(
        kind="Azure LLM inference",
        at="TIMESTAMP",
        unit=TimeUnit.CALENDAR,
        prompt="ContextTokens",
        output="GeneratedTokens",
    ),
    RequestColumns(
        kind="BurstGPT", at="Timestamp", unit=TimeUnit.SECONDS, prompt="Request tokens", output="Response tokens"
    ),
    RequestColumns(
        kind="Mooncake",
        at="timestamp",
        unit=TimeUnit.MILLISECONDS,
        prompt="input_length",
        output="output_length",
        blocks="hash_ids",
    ),
    RequestColumns(
        kind="requests in milliseconds",
        at="timestamp_ms",
        unit=TimeUnit.MILLISECONDS,
        prompt="input_tokens",
        output="output_tokens",
        cached="prefix_hit_tokens_inf_cache",
    ),
    RequestColumns(
        kind="requests in seconds",
        at="at_s",
        unit=TimeUnit.SECONDS,
        prompt="prompt_tokens",
        output="output_tokens",
        cached="cached_tokens",
    ),
)


def request_columns(header: Sequence[str]) -> RequestColumns | None:
    """The kind whose columns the header has; None: no kind."""
    names = frozenset(header)
    return next((kind for kind in KINDS if kind.needed <= names), None)


def read_requests(path: Path, columns: RequestColumns, *, name: str, about: str) -> RecordedRequests:
    """All requests of a file, in order of time, beginning with the first one's second.

    A length of 0 counts as 1: whoever sent it still arrived. Raises TraceFileError.
    """
    parts = list(_parts(path, columns))
    if not parts:
        raise TraceFileError(f"{path}: the file has no requests")
    at, prompts, outputs, cached = (np.concatenate(each) for each in zip(*parts, strict=True))
    at = at - math.floor(at.min())
    order = np.argsort(at, kind="stable")
    prompt_tokens = np.maximum(1, prompts[order]).astype(np.int64)
    return RecordedRequests(
        name=name,
        about=about,
        recorded=Requests(
            at_s=at[order],
            prompt_tokens=prompt_tokens,
            output_tokens=np.maximum(1, outputs[order]).astype(np.int64),
            cached_tokens=np.minimum(cached[order].astype(np.int64), prompt_tokens - 1),
            duration_s=float(max(1, math.ceil(at.max() + 1e-9))),
        ),
    )


def _parts(path: Path, columns: RequestColumns) -> Iterator[tuple[Floats, Floats, Floats, Floats]]:
    seen: set[int] = set()
    for chunk in chunks(path):
        prompts = _tokens(chunk, columns.prompt)
        if columns.blocks in chunk.header:
            cached = (_hits(chunk, columns.blocks or "", seen) * MOONCAKE_BLOCK_TOKENS).astype(np.float64)
        elif columns.cached in chunk.header:
            cached = _tokens(chunk, columns.cached or "")
        else:
            cached = np.zeros(len(prompts))
        yield _times(chunk, columns), prompts, _tokens(chunk, columns.output), cached


def _times(chunk: Chunk, columns: RequestColumns) -> Floats:
    if columns.unit is TimeUnit.CALENDAR:
        return chunk.moments(columns.at)
    numbers = chunk.numbers(columns.at, allowed=f"{columns.unit.value} of at least 0", check=at_least(0.0))
    return numbers / 1000 if columns.unit is TimeUnit.MILLISECONDS else numbers


def _tokens(chunk: Chunk, column: str) -> Floats:
    return chunk.numbers(column, allowed="a whole number of tokens of at least 0", check=whole_tokens)


def _hits(chunk: Chunk, column: str, seen: set[int]) -> NDArray[np.int64]:
    """How many blocks at the begin of each prompt came before, in any request; rows are taken in the file's order."""
    hits = np.zeros(len(chunk.cells), dtype=np.int64)
    for index, (line, text) in enumerate(zip(chunk.lines, chunk.texts(column), strict=True)):
        try:
            blocks = [int(block) for block in json.loads(text)]
        except (ValueError, TypeError):
            raise TraceFileError(
                f"{chunk.path}, line {line}: {column} must be a list of whole numbers such as [0, 1], got {text!r}"
            ) from None
        for block in blocks:
            if block not in seen:
                break
            hits[index] += 1
        seen.update(blocks)
    return hits
