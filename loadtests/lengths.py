"""Prompt and output lengths of requests, as quantiles to draw from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

# Where a lognormal is tabulated; the ends stand for its tails.
_LOGNORMAL_PROBABILITIES = (0.001, *(percent / 100 for percent in range(1, 100)), 0.999)


@dataclass(frozen=True, slots=True)
class LengthQuantiles:
    """A distribution of token counts: ``tokens[i]`` is its ``probabilities[i]`` quantile, linear in between.

    Probabilities ascend from 0 to 1, token counts never descend and are at least 1.
    """

    probabilities: tuple[float, ...]
    tokens: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.probabilities) != len(self.tokens) or len(self.tokens) < 2:
            raise ValueError(
                f"need as many probabilities as token counts, at least 2; got {len(self.probabilities)} and "
                f"{len(self.tokens)}"
            )
        if self.probabilities[0] != 0 or self.probabilities[-1] != 1:
            raise ValueError(
                f"probabilities must run from 0 to 1, got {self.probabilities[0]} to {self.probabilities[-1]}"
            )
        if any(b <= a for a, b in zip(self.probabilities, self.probabilities[1:], strict=False)):
            raise ValueError("probabilities must ascend")
        if any(b < a for a, b in zip(self.tokens, self.tokens[1:], strict=False)) or self.tokens[0] < 1:
            raise ValueError("token counts must be at least 1 and never descend")

    @classmethod
    def of_sample(cls, tokens: NDArray[np.int64]) -> LengthQuantiles:
        """The distribution of a sample of lengths."""
        probabilities = np.linspace(0, 1, 101)
        return cls(tuple(probabilities.tolist()), tuple(np.quantile(tokens, probabilities).tolist()))

    def mean(self) -> float:
        """Mean token count."""
        widths = np.diff(self.probabilities)
        middles = (np.array(self.tokens[1:]) + np.array(self.tokens[:-1])) / 2
        return float(widths @ middles)

    def scaled(self, factor: float) -> LengthQuantiles:
        """Every length times ``factor``, at least 1 token."""
        if not (math.isfinite(factor) and factor > 0):
            raise ValueError(f"a length factor must be positive and finite, got {factor}")
        return LengthQuantiles(self.probabilities, tuple(max(1.0, count * factor) for count in self.tokens))

    def capped(self, largest: float) -> LengthQuantiles:
        """No length above ``largest``."""
        return LengthQuantiles(self.probabilities, tuple(min(largest, count) for count in self.tokens))

    def draw(self, rng: np.random.Generator, size: int) -> NDArray[np.int64]:
        """``size`` independent lengths."""
        drawn = np.interp(rng.random(size), self.probabilities, self.tokens)
        return np.maximum(1, np.rint(drawn)).astype(np.int64)


def constant_length(tokens: float) -> LengthQuantiles:
    """Every request alike."""
    return LengthQuantiles((0.0, 1.0), (float(tokens), float(tokens)))


def lognormal_lengths(*, mean: float, cv: float) -> LengthQuantiles:
    """Lognormal lengths of that mean and coefficient of variation, cut at their 0.1 % and 99.9 %
    quantiles.
    """
    if mean < 1 or cv < 0:
        raise ValueError(f"lengths need a mean of at least 1 and a variation of at least 0, got {mean} and {cv}")
    if cv == 0:
        return constant_length(mean)
    sigma = math.sqrt(math.log1p(cv * cv))
    mu = math.log(mean) - sigma * sigma / 2
    values = [max(1.0, math.exp(mu + sigma * NormalDist().inv_cdf(p))) for p in _LOGNORMAL_PROBABILITIES]
    return LengthQuantiles((0.0, *_LOGNORMAL_PROBABILITIES, 1.0), (values[0], *values, values[-1]))


def parse_lengths(text: str) -> LengthQuantiles:
    """``MEAN`` or ``MEAN~CV``: constant, or lognormal with that coefficient of variation. Raises
    ValueError.
    """
    mean, _, cv = text.partition("~")
    try:
        return lognormal_lengths(mean=float(mean), cv=float(cv or 0))
    except ValueError as error:
        raise ValueError(f"a length is MEAN or MEAN~CV, such as 256~0.8; got {text!r} ({error})") from None
