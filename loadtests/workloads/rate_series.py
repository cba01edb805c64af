"""Rates over time as a workload: a table that was recorded, a trace's digest, or a formula."""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from adapters.simulation.requests import Requests
from loadtests.arrivals import from_profile
from loadtests.digest import Digest
from loadtests.lengths import LengthQuantiles
from loadtests.rates import RateProfile
from loadtests.workloads.within_bins import drawn_counts, flat_per_second, rate_per_second
from loadtests.workloads.workload import SecondCounts, check_cut, check_factor, peak_of_rates

# Shorter bins than this are taken as they are: there is nothing left to draw inside them but the arrivals.
_FLAT_UP_TO_S = 60.0

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RateSeries:
    """Mean rates of bins, and how requests and their lengths are drawn.

    ``edges_s``: float64[bins + 1], ascending from 0. ``rps``, ``prompt_means``, ``output_means``, ``minute_noise``:
    float64[bins]; the means are relative to those of ``prompts`` and ``outputs``, the distributions over the whole
    series; ``minute_noise`` is the relative deviation of single minutes. ``cv``: coefficient of variation of the gaps
    between arrivals. ``exact``: the rates are meant literally (a formula), so nothing is drawn between them.
    """

    name: str
    about: str
    edges_s: Floats
    rps: Floats
    prompt_means: Floats
    output_means: Floats
    minute_noise: Floats
    cv: float
    prompts: LengthQuantiles
    outputs: LengthQuantiles
    exact: bool = False

    def __post_init__(self) -> None:
        bins = len(self.rps)
        if not bins or len(self.edges_s) != bins + 1:
            raise ValueError(f"{self.name}: need one edge more than rates, got {len(self.edges_s)} and {bins}")
        if self.edges_s[0] != 0 or (np.diff(self.edges_s) <= 0).any():
            raise ValueError(f"{self.name}: edges must ascend from 0")
        for values in (self.rps, self.prompt_means, self.output_means, self.minute_noise):
            if len(values) != bins or not np.isfinite(values).all() or values.min() < 0:
                raise ValueError(f"{self.name}: each bin needs values that are finite and at least 0")
        if not 0 < self.cv < 100:
            raise ValueError(f"{self.name}: the coefficient of variation must lie in (0, 100), got {self.cv:g}")

    @property
    def duration_s(self) -> float:
        """Length in seconds."""
        return float(self.edges_s[-1])

    @property
    def fingerprint(self) -> str:
        """Of everything that is drawn from."""
        text = hashlib.sha256()
        for part in (self.edges_s, self.rps, self.prompt_means, self.output_means, self.minute_noise):
            text.update(np.ascontiguousarray(part).tobytes())
        text.update(repr((self.cv, self.prompts, self.outputs, self.exact)).encode())
        return text.hexdigest()

    def peak_rps(self) -> float:
        """The largest rate of a minute, of the recorded bins."""
        return peak_of_rates(flat_per_second(self.edges_s, self.rps))

    def cut(self, from_s: float, until_s: float) -> Self:
        """The stretch between these times; an edge inside a bin cuts it."""
        check_cut(from_s, until_s, self.duration_s, name=self.name)
        first = int(np.searchsorted(self.edges_s, from_s, side="right")) - 1
        last = int(np.searchsorted(self.edges_s, until_s, side="left"))
        edges = np.concatenate([[from_s], self.edges_s[first + 1 : last], [until_s]]) - from_s
        return dataclasses.replace(
            self,
            about=f"{self.about}; {from_s:g} s to {until_s:g} s of it",
            edges_s=edges,
            rps=self.rps[first:last],
            prompt_means=self.prompt_means[first:last],
            output_means=self.output_means[first:last],
            minute_noise=self.minute_noise[first:last],
        )

    def scaled(self, factor: float) -> Self:
        """Every rate times ``factor``; the irregularity of the gaps stays."""
        check_factor(factor, name=self.name)
        return dataclasses.replace(self, about=f"{self.about}; rates times {factor:.4g}", rps=self.rps * factor)

    def per_second(self, rng: np.random.Generator) -> Floats:
        """The expected number of requests of each second."""
        if self.exact or float(np.diff(self.edges_s).max()) <= _FLAT_UP_TO_S:
            return flat_per_second(self.edges_s, self.rps)
        return rate_per_second(self.edges_s, self.rps, minute_noise=self.minute_noise, rng=rng)

    def counts(self, seed: int) -> SecondCounts:
        """Negative-binomial counts of the seconds, with the square of ``cv`` as their index of dispersion."""
        rng = np.random.default_rng(seed)
        arrivals = drawn_counts(self.per_second(rng), dispersion=self.cv**2, rng=rng)
        weights = self.rps * np.diff(self.edges_s)
        share = weights / weights.sum() if weights.sum() else np.full(len(weights), 1 / len(weights))
        return SecondCounts(
            arrivals=arrivals,
            prompt_tokens=self.prompts.mean() * float(share @ self.prompt_means),
            output_tokens=self.outputs.mean() * float(share @ self.output_means),
        )

    def requests(self, seed: int) -> Requests:
        """A Gamma renewal process of coefficient of variation ``cv``, run through the rates of the seconds."""
        rate = self.per_second(np.random.default_rng(seed))
        profile = RateProfile(tuple(np.arange(len(rate) + 1.0).tolist()), tuple(rate.tolist()))
        plan = from_profile(
            profile,
            prompts=self.prompts,
            outputs=self.outputs,
            dispersion=self.cv**2,
            seed=seed,
            label=self.name,
        )
        at = np.minimum(np.searchsorted(self.edges_s, plan.at_s, side="right") - 1, len(self.rps) - 1)
        return Requests(
            at_s=plan.at_s,
            prompt_tokens=_stretched(plan.prompt_tokens, self.prompt_means[at]),
            output_tokens=_stretched(plan.output_tokens, self.output_means[at]),
            cached_tokens=np.zeros(len(plan), dtype=np.int64),
            duration_s=profile.duration_s,
        )


def of_digest(digest: Digest) -> RateSeries:
    """The intervals of a trace's digest."""
    rates = np.array(digest.arrivals, dtype=np.float64) / digest.interval_s
    return RateSeries(
        name=digest.name,
        about=f"{digest.source} ({digest.licence}), from the digest in this project",
        edges_s=np.arange(len(rates) + 1, dtype=np.float64) * digest.interval_s,
        rps=rates,
        prompt_means=np.ones(len(rates)),
        output_means=np.ones(len(rates)),
        minute_noise=np.zeros(len(rates)),
        cv=float(np.sqrt(digest.dispersion)),
        prompts=digest.prompt_tokens,
        outputs=digest.output_tokens,
    )


def of_profile(
    profile: RateProfile, *, name: str, prompts: LengthQuantiles, outputs: LengthQuantiles, cv: float
) -> RateSeries:
    """A formula's rates, taken literally."""
    bins = len(profile.rps)
    return RateSeries(
        name=name,
        about="a formula",
        edges_s=np.array(profile.edges_s),
        rps=np.array(profile.rps),
        prompt_means=np.ones(bins),
        output_means=np.ones(bins),
        minute_noise=np.zeros(bins),
        cv=cv,
        prompts=prompts,
        outputs=outputs,
        exact=True,
    )


def _stretched(tokens: NDArray[np.int64], factors: Floats) -> NDArray[np.int64]:
    return np.maximum(1, np.rint(tokens * factors)).astype(np.int64)
