"""The figures of one run, as they are kept."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MOST_BUCKETS = 720


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Buckets:
    """A run over time, in equal buckets of ``bucket_s``: means of the rate and of the replicas, sums of the missed.

    All float64[buckets]. ``starting``: replicas that are paid for and not ready yet; None where the fast run of a
    rival doesn't tell.
    """

    bucket_s: float
    demand_rps: Floats
    ready: Floats
    starting: Floats | None
    missed: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Record:
    """``case``, ``policy``, ``knob``, ``seed``: which run. ``gpu_hours``: of replicas from order to end, boot and
    drain paid. ``bound_hours``: the clairvoyant bound on the same traffic. ``changes``: of the number asked for.
    ``ttft_p99_s``: of those that got so far; None where the model doesn't tell. ``took_s``: of the computer's time.
    """

    case: str
    policy: str
    knob: float | None
    seed: int
    requests: float
    missed: float
    gpu_hours: float
    bound_hours: float
    hours: float
    changes: int
    ttft_p99_s: float | None
    took_s: float
    buckets: Buckets

    @property
    def share_in_slo(self) -> float:
        """1 where nothing was asked."""
        return 1.0 - self.missed / self.requests if self.requests else 1.0

    @property
    def ratio(self) -> float:
        """Cost in parts of the bound."""
        return self.gpu_hours / self.bound_hours


def bucket_length_s(duration_s: float, *, step_s: float) -> float:
    """A whole number of steps, so that there are at most ``MOST_BUCKETS``."""
    return step_s * max(1, int(np.ceil(duration_s / step_s / MOST_BUCKETS)))


def means(values: Floats, per_bucket: int) -> Floats:
    """Of each ``per_bucket`` values in turn; the last bucket may have fewer."""
    return sums(values, per_bucket) / sums(np.ones(len(values)), per_bucket)


def sums(values: Floats, per_bucket: int) -> Floats:
    """Of each ``per_bucket`` values in turn."""
    return np.add.reduceat(values, np.arange(0, len(values), per_bucket)).astype(np.float64)
