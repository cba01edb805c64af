"""What a simulated run serves: single requests for a simulated engine, or counts per second for a fluid fleet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from adapters.simulation.requests import Requests

PEAK_WINDOW_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondCounts:
    """Requests that arrive in each second, and their mean lengths in tokens."""

    arrivals: NDArray[np.int64]
    prompt_tokens: float
    output_tokens: float

    def __post_init__(self) -> None:
        if self.arrivals.dtype != np.int64 or self.arrivals.ndim != 1 or not len(self.arrivals):
            raise ValueError(
                f"arrivals must be int64[seconds] and not empty, got {self.arrivals.dtype} of shape "
                f"{self.arrivals.shape}"
            )
        if self.arrivals.min() < 0:
            raise ValueError(f"arrivals must be at least 0, got {self.arrivals.min()}")

    @property
    def duration_s(self) -> int:
        """Length in seconds."""
        return len(self.arrivals)

    def peak_rps(self) -> float:
        """The largest mean rate of any 60 s (of all, where it is shorter)."""
        return peak_of_rates(self.arrivals.astype(np.float64))


class Workload(Protocol):
    """Traffic that can be drawn with a seed: the same seed gives the same requests.

    ``name``: short, for tables. ``about``: where it is from and what was done to it. ``fingerprint``: a text that
    differs wherever what is drawn would.
    """

    @property
    def name(self) -> str: ...
    @property
    def about(self) -> str: ...
    @property
    def fingerprint(self) -> str: ...
    @property
    def duration_s(self) -> float: ...

    def peak_rps(self) -> float:
        """The largest mean rate over a minute that is to be expected, whatever the seed."""
        ...

    def cut(self, from_s: float, until_s: float) -> Self:
        """The stretch between these times, beginning at 0. Raises ValueError where it lies outside."""
        ...

    def scaled(self, factor: float) -> Self:
        """``factor`` times as many requests at the same times of day. Raises ValueError."""
        ...

    def counts(self, seed: int) -> SecondCounts:
        """Arrivals of each second."""
        ...

    def requests(self, seed: int) -> Requests:
        """Single requests."""
        ...


Kind = TypeVar("Kind", bound=Workload)


def fitted_to_peak(workload: Kind, *, replicas: float, capacity_rps: float) -> Kind:
    """``workload`` scaled so that its busiest minute needs ``replicas`` that serve ``capacity_rps`` each."""
    peak_rps = workload.peak_rps()
    if peak_rps <= 0:
        raise ValueError(f"{workload.name} has no requests, so it can't be scaled to a peak")
    return workload.scaled(replicas * capacity_rps / peak_rps)


def check_cut(from_s: float, until_s: float, duration_s: float, *, name: str) -> None:
    """Raises ValueError unless 0 <= from < until <= duration."""
    if not 0 <= from_s < until_s <= duration_s:
        raise ValueError(
            f"{name}: a cut needs 0 <= from < until <= {duration_s:g} s, got from {from_s:g} s until {until_s:g} s"
        )


def check_factor(factor: float, *, name: str) -> None:
    """Raises ValueError unless the factor is positive and finite."""
    if not 0 < factor < float("inf"):
        raise ValueError(f"{name}: the factor of the rate must be positive and finite, got {factor}")


def peak_of_rates(per_second: NDArray[np.float64]) -> float:
    """The largest mean over 60 s of a rate given for each second; the mean, where there are fewer."""
    window = min(PEAK_WINDOW_S, len(per_second))
    reached = np.concatenate([[0.0], np.cumsum(per_second)])
    return float((reached[window:] - reached[:-window]).max() / window)
