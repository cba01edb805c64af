"""What a load came to, measured or simulated, in the same three figures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loadtests.records import Outcome, RequestRecord

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Of one turn. ``ttft_s`` and ``itl_s``: medians over the requests that finished (ITL: over those of more than one
    token). ``throughput_tps``: their output tokens, over the time from the turn's begin to the last one's end.
    """

    requests: int
    ttft_s: float
    itl_s: float
    throughput_tps: float

    @classmethod
    def of(cls, *, ttft_s: Floats, itl_s: Floats, end_s: Floats, output_tokens: NDArray[np.int64]) -> Figures:
        """From arrays over the finished requests; ``itl_s`` counts where there is more than one token, ``end_s`` is
        since the turn's begin. Raises ValueError where no request of more than one token finished.
        """
        several = output_tokens > 1
        if not several.any():
            raise ValueError("no request of more than one token finished, so there is nothing to compare")
        return cls(
            requests=len(output_tokens),
            ttft_s=float(np.median(ttft_s)),
            itl_s=float(np.median(itl_s[several])),
            throughput_tps=float(output_tokens.sum() / end_s.max()),
        )


def measured(records: Iterable[RequestRecord]) -> Figures:
    """Of an engine, as its client saw it. Raises ValueError where too little finished."""
    finished = [each for each in records if each.outcome is Outcome.FINISHED and each.ttft_s is not None]
    return Figures.of(
        ttft_s=np.array([each.ttft_s for each in finished], dtype=np.float64),
        itl_s=np.array([each.itl_s or 0.0 for each in finished], dtype=np.float64),
        end_s=np.array([each.due_s + each.e2e_s for each in finished], dtype=np.float64),
        output_tokens=np.array([each.output_tokens for each in finished], dtype=np.int64),
    )
