"""An engine's speed and limits, in the whole numbers that its simulation counts in."""

from __future__ import annotations

import math
from dataclasses import dataclass

PICOSECONDS = 10**12
_LONGEST_S = 1e6  # seven digits of seconds and twelve of picoseconds stay within 64 bits


def picoseconds(seconds: float) -> int:
    """``seconds`` rounded to whole picoseconds."""
    return round(seconds * PICOSECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimes:
    """A step of B decoding sequences that hold K tokens of context and of q prefilled prompt tokens takes
    ``c + d*B + e*K + a*q``; all four in picoseconds, ``c`` at least 1.
    """

    c: int
    d: int
    e: int
    a: int

    def __post_init__(self) -> None:
        if self.c < 1 or min(self.d, self.e, self.a) < 0:
            raise ValueError(f"step times must be at least 0 ps and c at least 1 ps, got {self}")

    @classmethod
    def of_seconds(cls, *, c_s: float, d_s: float, e_s: float, a_s: float) -> StepTimes:
        """From seconds, each rounded to whole picoseconds. Raises ValueError."""
        terms = (c_s, d_s, e_s, a_s)
        if any(not math.isfinite(term) or not 0 <= term <= _LONGEST_S for term in terms):
            raise ValueError(f"step times must lie in [0, {_LONGEST_S:g}] s, got {terms}")
        c, d, e, a = (picoseconds(term) for term in terms)
        return cls(c=c, d=d, e=e, a=a)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineShape:
    """What an engine holds: ``kv_tokens`` in its KV cache, ``chunk_tokens`` in a step (decoded and prefilled ones),
    ``max_num_seqs`` sequences at once. A step has room for every sequence's token.
    """

    kv_tokens: int
    chunk_tokens: int = 8192
    max_num_seqs: int = 256

    def __post_init__(self) -> None:
        if min(self.kv_tokens, self.chunk_tokens, self.max_num_seqs) < 1:
            raise ValueError(f"an engine's limits must be at least 1, got {self}")
        if self.chunk_tokens < self.max_num_seqs:
            raise ValueError(
                f"chunk_tokens must be at least max_num_seqs ({self.max_num_seqs}), got {self.chunk_tokens}"
            )
