"""What arrives at a service: when, and how long each request is."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """Requests in order of arrival; four arrays of equal length.

    ``at_s``: seconds from the begin, ascending. ``prompt_tokens`` and ``output_tokens``: at least 1 each.
    ``cached_tokens``: how much of the prompt the prefix cache holds; it needs no prefill but takes its room in the KV
    cache all the same. Less than the prompt: its last token is always computed. ``duration_s``: when the run ends, at
    or after the last arrival. Raises ValueError.
    """

    at_s: NDArray[np.float64]
    prompt_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    cached_tokens: NDArray[np.int64]
    duration_s: float

    def __post_init__(self) -> None:
        for name, dtype in (
            ("at_s", np.float64),
            ("prompt_tokens", np.int64),
            ("output_tokens", np.int64),
            ("cached_tokens", np.int64),
        ):
            column = getattr(self, name)
            if column.dtype != dtype or column.shape != (len(self.at_s),):
                raise ValueError(
                    f"{name} must be one-dimensional {dtype.__name__} of {len(self.at_s)} requests, "
                    f"got {column.dtype} of shape {column.shape}"
                )
        if not (math.isfinite(self.duration_s) and self.duration_s > 0):
            raise ValueError(f"duration_s must be positive and finite, got {self.duration_s}")
        if not len(self.at_s):
            return
        if not (np.isfinite(self.at_s).all() and self.at_s[0] >= 0 and (np.diff(self.at_s) >= 0).all()):
            raise ValueError("at_s must be finite, at least 0 and ascending")
        if self.at_s[-1] > self.duration_s:
            raise ValueError(f"the last request at {self.at_s[-1]:g} s comes after the end at {self.duration_s:g} s")
        for name in ("prompt_tokens", "output_tokens"):
            if getattr(self, name).min() < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name).min()}")
        if self.cached_tokens.min() < 0 or (self.cached_tokens >= self.prompt_tokens).any():
            raise ValueError("cached_tokens must be at least 0 and less than prompt_tokens")

    def __len__(self) -> int:
        return len(self.at_s)
