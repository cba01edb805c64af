"""Open-loop arrivals: when requests are sent and how long they are, whatever becomes of the earlier ones.

Arrivals are more irregular than a Poisson stream in every public trace of LLM requests (ServeGen, arXiv
2505.09999, finds Gamma and Weibull gaps). Gaps here are Gamma with a squared coefficient of variation equal
to the index of dispersion asked for, which a renewal process' counts approach over long windows; 1 is
Poisson.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loadtests.digest import Digest
from loadtests.lengths import LengthQuantiles
from loadtests.rates import RateProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """A plan of requests. ``at_s`` ascends from the plan's begin; the three arrays are of equal length."""

    at_s: NDArray[np.float64]
    prompt_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    duration_s: float
    label: str

    def __len__(self) -> int:
        return len(self.at_s)

    def peak_rps(self, window_s: float) -> float:
        """The largest mean rate over any window of that length that begins with an arrival."""
        if not len(self.at_s):
            return 0.0
        ends = np.searchsorted(self.at_s, self.at_s + window_s, side="left")
        return float((ends - np.arange(len(self.at_s))).max() / window_s)


def from_profile(
    profile: RateProfile,
    *,
    prompts: LengthQuantiles,
    outputs: LengthQuantiles,
    dispersion: float,
    seed: int,
    label: str,
) -> Arrivals:
    """Arrivals at the rates of ``profile``: a stationary Gamma renewal process run through the expected
    count.
    """
    rng = np.random.default_rng(seed)
    at_s = profile.times_of(_renewals(profile.expected(), dispersion, rng))
    return _with_lengths(at_s, rng, prompts=prompts, outputs=outputs, duration_s=profile.duration_s, label=label)


def from_digest(
    digest: Digest,
    *,
    from_s: float,
    until_s: float,
    duration_s: float,
    requests: int,
    prompt_scale: float,
    output_scale: float,
    seed: int,
) -> Arrivals:
    """The digest's stretch from ``from_s`` to ``until_s``, squeezed into ``duration_s`` and thinned to
    ``requests``.

    Each interval gets its share of the requests (rounded so that the sum is right), spread by Gamma gaps.
    Raises ValueError where the stretch lies outside of the digest.
    """
    if not (math.isfinite(duration_s) and duration_s > 0):
        raise ValueError(f"the duration must be above 0 s and finite, got {duration_s:g}")
    if requests < 0:
        raise ValueError(f"the number of requests must be at least 0, got {requests}")
    counts = digest.arrivals_between(from_s, until_s)
    total = sum(counts)
    if total <= 0:
        raise ValueError(f"digest {digest.name} has no arrivals between {from_s:g} s and {until_s:g} s")
    rng = np.random.default_rng(seed)
    at_s = _counted(_share_out(counts, requests), duration_s / len(counts), digest.dispersion, rng)
    at_s = np.minimum(at_s, duration_s)  # a sum of gaps over their sum may exceed 1 in its last digit
    speed = (until_s - from_s) / duration_s
    return _with_lengths(
        at_s,
        rng,
        prompts=digest.prompt_tokens.scaled(prompt_scale),
        outputs=digest.output_tokens.scaled(output_scale),
        duration_s=duration_s,
        label=f"{digest.name}, {speed:.0f} times as fast, {requests / total:.3%} of its requests",
    )


def _with_lengths(
    at_s: NDArray[np.float64],
    rng: np.random.Generator,
    *,
    prompts: LengthQuantiles,
    outputs: LengthQuantiles,
    duration_s: float,
    label: str,
) -> Arrivals:
    return Arrivals(
        at_s=at_s,
        prompt_tokens=prompts.draw(rng, len(at_s)),
        output_tokens=outputs.draw(rng, len(at_s)),
        duration_s=duration_s,
        label=label,
    )


def _renewals(until: float, dispersion: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Event times in [0, until) of a stationary renewal process of rate 1 with Gamma gaps."""
    if not dispersion > 0:
        raise ValueError(f"the dispersion must be above 0, got {dispersion}")
    shape = 1 / dispersion
    # The gap that covers time 0 is drawn by its length, and 0 lies anywhere in it.
    first = rng.gamma(shape + 1, dispersion) * rng.random()
    pieces = [np.array([first])]
    while pieces[-1][-1] < until:
        missing = until - pieces[-1][-1]
        gaps = rng.gamma(shape, dispersion, size=int(missing + 4 * np.sqrt(dispersion * missing)) + 16)
        pieces.append(pieces[-1][-1] + np.cumsum(gaps))
    times = np.concatenate(pieces)
    return times[times < until]


def _share_out(counts: Sequence[float], total: int) -> list[int]:
    """``total`` in proportion to ``counts``, by rounding the running sum."""
    running = np.cumsum(np.array(counts, dtype=np.float64)) * (total / sum(counts))
    rounded = np.rint(np.concatenate([[0.0], running])).astype(int)
    return [int(count) for count in np.diff(rounded)]


def _counted(
    counts: Sequence[int], interval_s: float, dispersion: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Exactly ``counts[i]`` arrivals in interval i, Gamma gaps scaled to fill it."""
    pieces = [np.zeros(0)]
    for index, count in enumerate(counts):
        running = np.cumsum(rng.gamma(1 / dispersion, dispersion, size=count + 1))
        inside = running[:-1] / max(float(running[-1]), np.finfo(float).tiny)
        pieces.append((index + inside) * interval_s)
    return np.concatenate(pieces)
