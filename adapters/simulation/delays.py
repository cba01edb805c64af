"""How long something takes: a fixed time, a lognormal one, or one drawn from measured quantiles."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Protocol

import numpy as np

# The 95 % quantile of the standard normal distribution.
_Z95 = 1.6448536269514722


class Delay(Protocol):
    """A distribution of times in seconds."""

    def draw_s(self, random: np.random.Generator) -> float:
        """One of them, at least 0."""
        ...


@dataclass(frozen=True, slots=True)
class Fixed:
    """Always the same."""

    span_s: float

    def __post_init__(self) -> None:
        _check("a fixed delay", self.span_s)

    def draw_s(self, random: np.random.Generator) -> float:
        """The time itself."""
        return self.span_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Lognormal:
    """Logs are normal; given by its median and the time that one in twenty exceeds."""

    median_s: float
    p95_s: float

    def __post_init__(self) -> None:
        _check("median_s", self.median_s)
        _check("p95_s", self.p95_s)
        if not 0 < self.median_s <= self.p95_s:
            raise ValueError(f"need 0 < median_s <= p95_s, got {self.median_s} and {self.p95_s}")

    def draw_s(self, random: np.random.Generator) -> float:
        """One draw."""
        sigma = math.log(self.p95_s / self.median_s) / _Z95
        return self.median_s * math.exp(sigma * random.standard_normal())


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantiles:
    """Measured times, by their quantiles; log-linear between two of them.

    ``shares``: ascending from 0 to 1. ``times_s``: not descending, positive, as many.
    """

    shares: tuple[float, ...]
    times_s: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.shares) != len(self.times_s) or len(self.shares) < 2:
            raise ValueError(f"need as many shares as times, at least 2; got {len(self.shares)}, {len(self.times_s)}")
        if self.shares[0] != 0 or self.shares[-1] != 1 or not _ascending(self.shares, strictly=True):
            raise ValueError(f"shares must ascend from 0 to 1, got {self.shares}")
        if not _ascending(self.times_s, strictly=False) or self.times_s[0] <= 0 or not math.isfinite(self.times_s[-1]):
            raise ValueError(f"times must be positive, finite and not descend, got {self.times_s}")

    def quantile_s(self, share: float) -> float:
        """The time that ``share`` of all do not exceed."""
        return float(np.exp(np.interp(share, self.shares, np.log(self.times_s))))

    def draw_s(self, random: np.random.Generator) -> float:
        """One draw."""
        return self.quantile_s(random.random())


@cache
def model_loading() -> Quantiles:
    """Times to load a base model into a replica of a production image service, as they were measured.

    Quantiles of our own (model_loading_quantiles.csv) of the 7,531 loads in the GenTD26 trace (alibaba/clusterdata,
    v2026-GenAI): 3 s where the weights are near, else 20 to 50 s; hardly any takes more than a minute.
    """
    text = files("adapters.simulation").joinpath("model_loading_quantiles.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    return Quantiles(
        shares=tuple(float(row["share"]) for row in rows), times_s=tuple(float(row["time_s"]) for row in rows)
    )


def _check(what: str, span_s: float) -> None:
    if not (math.isfinite(span_s) and span_s >= 0):
        raise ValueError(f"{what} must be finite and at least 0, got {span_s}")


def _ascending(values: Sequence[float], *, strictly: bool) -> bool:
    steps = np.diff(values)
    return bool((steps > 0).all() if strictly else (steps >= 0).all())
