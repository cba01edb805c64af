"""A trace of single requests as a workload."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from adapters.simulation.requests import Requests
from loadtests.workloads.workload import SecondCounts, check_cut, check_factor, peak_of_rates

# Copies of a request, where there are to be more than were recorded, lie so far around it: the minutes keep their
# shape, and other users would not send in the same second.
_COPY_SPREAD_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordedRequests:
    """Requests as they came, or ``factor`` times as many: below 1 some are left out by chance, above 1 some are
    copied. ``recorded``: what the file holds.
    """

    name: str
    about: str
    recorded: Requests
    factor: float = 1.0

    @property
    def duration_s(self) -> float:
        """Length in seconds."""
        return self.recorded.duration_s

    @property
    def fingerprint(self) -> str:
        """Of the requests and the factor."""
        text = hashlib.sha256(repr((self.factor, self.recorded.duration_s)).encode())
        for part in (
            self.recorded.at_s,
            self.recorded.prompt_tokens,
            self.recorded.output_tokens,
            self.recorded.cached_tokens,
        ):
            text.update(np.ascontiguousarray(part).tobytes())
        return text.hexdigest()

    def peak_rps(self) -> float:
        """The busiest minute of the recording, times the factor."""
        seconds = max(1, math.ceil(self.duration_s))
        return self.factor * peak_of_rates(
            np.bincount(_seconds(self.recorded, seconds), minlength=seconds).astype(np.float64)
        )

    def cut(self, from_s: float, until_s: float) -> Self:
        """The requests from ``from_s`` to before ``until_s``."""
        check_cut(from_s, until_s, self.duration_s, name=self.name)
        first, last = np.searchsorted(self.recorded.at_s, [from_s, until_s], side="left")
        part = slice(int(first), int(last))
        return dataclasses.replace(
            self,
            about=f"{self.about}; {from_s:g} s to {until_s:g} s of it",
            recorded=Requests(
                at_s=self.recorded.at_s[part] - from_s,
                prompt_tokens=self.recorded.prompt_tokens[part],
                output_tokens=self.recorded.output_tokens[part],
                cached_tokens=self.recorded.cached_tokens[part],
                duration_s=until_s - from_s,
            ),
        )

    def scaled(self, factor: float) -> Self:
        """``factor`` times as many requests as now."""
        check_factor(factor, name=self.name)
        return dataclasses.replace(
            self, about=f"{self.about}; {factor:.4g} times its requests", factor=self.factor * factor
        )

    def requests(self, seed: int) -> Requests:
        """The recording itself at factor 1, whatever the seed; otherwise thinned or copied by chance."""
        if self.factor == 1.0:
            return self.recorded
        rng = np.random.default_rng(seed)
        whole = math.floor(self.factor)
        copies = whole + (rng.random(len(self.recorded)) < self.factor - whole)
        chosen = np.repeat(np.arange(len(self.recorded)), copies)
        is_copy = np.concatenate([[False], chosen[1:] == chosen[:-1]]) if len(chosen) else np.zeros(0, dtype=bool)
        moved = rng.uniform(-_COPY_SPREAD_S, _COPY_SPREAD_S, len(chosen)) * is_copy
        at_s = np.clip(self.recorded.at_s[chosen] + moved, 0.0, self.duration_s)
        order = np.argsort(at_s, kind="stable")
        chosen = chosen[order]
        return Requests(
            at_s=at_s[order],
            prompt_tokens=self.recorded.prompt_tokens[chosen],
            output_tokens=self.recorded.output_tokens[chosen],
            cached_tokens=self.recorded.cached_tokens[chosen],
            duration_s=self.duration_s,
        )

    def counts(self, seed: int) -> SecondCounts:
        """The requests of each second."""
        drawn = self.requests(seed)
        seconds = max(1, math.ceil(self.duration_s))
        return SecondCounts(
            arrivals=np.bincount(_seconds(drawn, seconds), minlength=seconds).astype(np.int64),
            prompt_tokens=float(drawn.prompt_tokens.mean()) if len(drawn) else 1.0,
            output_tokens=float(drawn.output_tokens.mean()) if len(drawn) else 1.0,
        )


def _seconds(requests: Requests, seconds: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.minimum(requests.at_s.astype(np.int64), seconds - 1)
