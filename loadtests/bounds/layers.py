"""B60: the cheapest fleet that has, in every minute, the replicas its mean rate needs.

The k-th replica is needed in the minutes whose need is at least k. Between two such spells it is either kept, which
costs the gap, or let go and started again, which costs the boot: the cheaper of both. Each layer decides alone, which
is the optimum, since the fleet's cost is the sum over its layers.

It is no strict bound where requests may queue for a moment: a fleet may lag a minute's need and still serve in time.
Against the optimum of a fluid fleet it is 0.94 to 1.04 (see ``linear`` for the strict one). Needs of single seconds
would be 1.1 to 1.75 times the optimum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

BLOCK_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerBound:
    """``replica_hours``: boot included. ``needs``: int64[blocks], replicas for the mean rate of each block."""

    replica_hours: float
    needs: Ints


def b60(
    counts: Ints, *, capacity_rps: float, boot_s: float, min_replicas: int = 1, block_s: int = BLOCK_S
) -> LayerBound:
    """The bound for ``counts`` (requests of each second) on replicas of ``capacity_rps`` that boot for ``boot_s``.

    Those needed in the first block are there already and cost no boot.
    """
    needs, spans = block_needs(counts, capacity_rps=capacity_rps, min_replicas=min_replicas, block_s=block_s)
    return LayerBound(replica_hours=layered_cost(needs, spans, boot_s=boot_s) / 3600, needs=needs)


def block_needs(
    counts: Ints, *, capacity_rps: float, min_replicas: int = 1, block_s: int = BLOCK_S
) -> tuple[Ints, NDArray[np.float64]]:
    """Replicas for the mean rate of each block, and the blocks' lengths in seconds; the last may be shorter."""
    if not len(counts) or block_s < 1 or not capacity_rps > 0:
        raise ValueError(
            f"need traffic, block_s >= 1 and capacity_rps > 0, got {len(counts)}, {block_s}, {capacity_rps}"
        )
    starts = np.arange(0, len(counts), block_s)
    spans = np.diff(np.append(starts, len(counts))).astype(np.float64)
    rates = np.add.reduceat(counts, starts) / spans
    # The allowance for binary fractions keeps a rate of exactly n replicas at n.
    needs = np.maximum(min_replicas, np.ceil(rates / capacity_rps - 1e-9)).astype(np.int64)
    return needs, spans


def layered_cost(needs: Ints, spans: NDArray[np.float64], *, boot_s: float) -> float:
    """Replica-seconds of the cheapest fleet that has ``needs[j]`` replicas for ``spans[j]`` seconds, in order."""
    at = np.concatenate([[0.0], np.cumsum(spans)])
    return float(needs @ spans) + _bridges(needs, at, float(boot_s))


def _between(needs: Ints, at: NDArray[np.float64], boot_s: float) -> float:
    """What keeping and starting cost, beyond the needs. ``at``: begins of the blocks."""
    left_s = np.full(needs.max() + 1, -np.inf)
    cost = 0.0
    for j in range(1, len(needs)):
        for layer in range(needs[j - 1], needs[j]):
            cost += min(at[j] - left_s[layer], boot_s)
        for layer in range(needs[j], needs[j - 1]):
            left_s[layer] = at[j]
    return cost


_bridges: Callable[[Ints, NDArray[np.float64], float], float] = numba.njit(cache=True)(_between)
