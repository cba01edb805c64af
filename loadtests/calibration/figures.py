"""What a load came to, measured or simulated, in the same three figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loadtests.records import Outcome, RequestRecord

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """``ttft_s`` and ``itl_s``: medians over the requests that finished (ITL: over those of more than one token).
    ``throughput_tps``: the output tokens of all of them, over the time from each turn's begin to its last one's end.
    """

    requests: int
    ttft_s: float
    itl_s: float
    throughput_tps: float

    @classmethod
    def of(cls, turns: Sequence[Turn]) -> Figures:
        """Of all turns together. Raises ValueError where no request of more than one token finished."""
        output_tokens = np.concatenate([turn.output_tokens for turn in turns])
        several = output_tokens > 1
        if not several.any():
            raise ValueError("no request of more than one token finished, so there is nothing to compare")
        return cls(
            requests=len(output_tokens),
            ttft_s=float(np.median(np.concatenate([turn.ttft_s for turn in turns]))),
            itl_s=float(np.median(np.concatenate([turn.itl_s for turn in turns])[several])),
            throughput_tps=float(output_tokens.sum() / sum(turn.end_s.max(initial=0.0) for turn in turns)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One turn's finished requests: four arrays of equal length. ``end_s``: since the turn's begin. ``itl_s`` counts
    where there is more than one token.
    """

    ttft_s: Floats
    itl_s: Floats
    end_s: Floats
    output_tokens: NDArray[np.int64]


def measured(turns: Iterable[Sequence[RequestRecord]]) -> Figures:
    """Of an engine, as its client saw it. Raises ValueError where too little finished."""
    return Figures.of([_seen(records) for records in turns])


def _seen(records: Sequence[RequestRecord]) -> Turn:
    finished = [each for each in records if each.outcome is Outcome.FINISHED and each.ttft_s is not None]
    return Turn(
        ttft_s=np.array([each.ttft_s for each in finished], dtype=np.float64),
        itl_s=np.array([each.itl_s or 0.0 for each in finished], dtype=np.float64),
        end_s=np.array([each.due_s + each.e2e_s for each in finished], dtype=np.float64),
        output_tokens=np.array([each.output_tokens for each in finished], dtype=np.int64),
    )
