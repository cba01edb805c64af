"""Rates of arrival over time, from formulas: steps, ramps, days and bursts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Curved formulas are cut into steps of this length.
_STEP_S = 0.5


@dataclass(frozen=True, slots=True)
class RateProfile:
    """Requests per second, constant between edges: ``rps[i]`` from ``edges_s[i]`` to ``edges_s[i + 1]``,
    from 0 s on.
    """

    edges_s: tuple[float, ...]
    rps: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.edges_s) != len(self.rps) + 1 or not self.rps:
            raise ValueError(f"need one edge more than rates, got {len(self.edges_s)} and {len(self.rps)}")
        if self.edges_s[0] != 0 or any(b <= a for a, b in zip(self.edges_s, self.edges_s[1:], strict=False)):
            raise ValueError("edges must ascend from 0")
        if any(not math.isfinite(rate) or rate < 0 for rate in self.rps):
            raise ValueError("rates must be finite and at least 0")

    @property
    def duration_s(self) -> float:
        """Length in seconds."""
        return self.edges_s[-1]

    def expected(self) -> float:
        """Expected number of requests."""
        return float(np.diff(self.edges_s) @ np.array(self.rps))

    def times_of(self, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """When the expected number of requests so far reaches each of ``counts``; those beyond the end are
        left out.
        """
        reached = np.concatenate([[0.0], np.cumsum(np.diff(self.edges_s) * np.array(self.rps))])
        within = counts[counts < reached[-1]]
        at = np.searchsorted(reached, within, side="right") - 1
        times: NDArray[np.float64] = np.array(self.edges_s)[at] + (within - reached[at]) / np.array(self.rps)[at]
        return times


def steps(*parts: tuple[float, float]) -> RateProfile:
    """Constant rates one after the other, each (requests per second, seconds)."""
    edges = np.concatenate([[0.0], np.cumsum([seconds for _, seconds in parts])])
    return RateProfile(tuple(edges.tolist()), tuple(rate for rate, _ in parts))


def ramp(*, start_rps: float, end_rps: float, duration_s: float) -> RateProfile:
    """A straight line."""
    return _sampled(lambda t: start_rps + (end_rps - start_rps) * t / duration_s, duration_s)


def diurnal(*, low_rps: float, high_rps: float, period_s: float, duration_s: float) -> RateProfile:
    """A cosine between ``low_rps`` (at 0 s) and ``high_rps`` (half a period later)."""
    if not period_s > 0:
        raise ValueError(f"a period must be above 0 seconds, got {period_s:g}")
    middle, half = (low_rps + high_rps) / 2, (high_rps - low_rps) / 2
    return _sampled(lambda t: middle - half * math.cos(2 * math.pi * t / period_s), duration_s)


def bursts(*, base_rps: float, peak_rps: float, every_s: float, length_s: float, duration_s: float) -> RateProfile:
    """``base_rps``, and at the end of every ``every_s`` seconds ``peak_rps`` for ``length_s``."""
    if not 0 < length_s < every_s:
        raise ValueError(f"a burst must be shorter than its period: length {length_s}, every {every_s}")
    return _sampled(lambda t: peak_rps if t % every_s >= every_s - length_s else base_rps, duration_s)


def _sampled(rate: Callable[[float], float], duration_s: float) -> RateProfile:
    count = max(1, round(duration_s / _STEP_S))
    edges = np.linspace(0.0, duration_s, count + 1)
    middles = (edges[1:] + edges[:-1]) / 2
    return RateProfile(tuple(edges.tolist()), tuple(rate(float(t)) for t in middles))


_FORMULAS: dict[str, tuple[Callable[..., RateProfile], dict[str, str]]] = {
    "ramp": (ramp, {"from": "start_rps", "to": "end_rps", "for": "duration_s"}),
    "diurnal": (diurnal, {"low": "low_rps", "high": "high_rps", "period": "period_s", "for": "duration_s"}),
    "bursts": (
        bursts,
        {
            "base": "base_rps",
            "peak": "peak_rps",
            "every": "every_s",
            "length": "length_s",
            "for": "duration_s",
        },
    ),
}
_USAGE = (
    "steps:2x30,8x60 (requests/s x seconds), ramp:from=1,to=9,for=60, diurnal:low=2,high=9,period=60,for=180, "
    "bursts:base=2,peak=12,every=30,length=5,for=180"
)


def parse_formula(text: str) -> RateProfile:
    """A formula as typed, such as ``steps:2x30,8x60``. Raises ValueError that shows every form."""
    name, _, rest = text.partition(":")
    words = [word.strip() for word in rest.split(",") if word.strip()]
    try:
        if name == "steps":
            return steps(*(_step(word) for word in words))
        make, keys = _FORMULAS[name]
        given = dict(word.split("=", 1) for word in words)
        if set(given) != set(keys):
            raise ValueError(f"{name} takes {', '.join(keys)}")
        numbers = {keys[key]: float(value) for key, value in given.items()}
        if not all(map(math.isfinite, numbers.values())) or not numbers["duration_s"] > 0:
            raise ValueError("every number must be finite, and 'for' above 0 seconds")
        return make(**numbers)
    except KeyError:
        raise ValueError(f"no formula {name!r}; the formulas: {_USAGE}") from None
    except ValueError as error:
        raise ValueError(f"formula {text!r}: {error}; the formulas: {_USAGE}") from None


def _step(word: str) -> tuple[float, float]:
    rate, _, seconds = word.partition("x")
    return float(rate), float(seconds)
