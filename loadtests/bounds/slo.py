"""B_slo: the cheapest fleet that misses at most a given share, when what a loaded replica misses was measured.

For engine runs, where capacity is soft: above its nominal rate a replica misses more and more, not everything. With a
price on each miss, the best fleet over time is a dynamic program over the number of replicas (shrinking is free, each
start costs a boot). The price is bisected until the misses are as many as allowed. By weak duality, cost at a price
less what the allowed misses would have paid is below the cost of every fleet that keeps the promise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_BISECTIONS = 60


@dataclass(frozen=True, slots=True)
class MissCurve:
    """Share of requests missed at a steady load of one replica, as measured.

    ``loads_rps``: float64[points], ascending. ``shares``: float64[points], 0 to 1, never falling. Linear between them;
    below the first as there; beyond the last everything is missed.
    """

    loads_rps: Floats
    shares: Floats

    def __post_init__(self) -> None:
        if not len(self.loads_rps) or len(self.loads_rps) != len(self.shares):
            raise ValueError(f"need as many shares as loads, at least 1, got {len(self.loads_rps)}, {len(self.shares)}")
        if (np.diff(self.loads_rps) <= 0).any() or (np.diff(self.shares) < 0).any():
            raise ValueError("loads must ascend and shares must not fall")
        if self.shares[0] < 0 or self.shares[-1] > 1:
            raise ValueError(f"shares must lie in [0, 1], got {self.shares[0]} to {self.shares[-1]}")

    def missed(self, load_rps: Floats) -> Floats:
        """Share missed at each load."""
        within = np.interp(load_rps, self.loads_rps, self.shares)
        return np.where(load_rps > self.loads_rps[-1], 1.0, within)


@dataclass(frozen=True, slots=True, kw_only=True)
class SloBound:
    """``replica_hours``: no fleet that keeps the promise costs less. ``found_hours``: cost of one that does.

    ``missed_share``: what that one misses. ``replicas``: int64[blocks], that fleet.
    """

    replica_hours: float
    found_hours: float
    missed_share: float
    replicas: Ints


def b_slo(
    counts: Ints,
    curve: MissCurve,
    *,
    boot_s: float,
    max_replicas: int,
    min_replicas: int = 1,
    allowed: float = 0.01,
    block_s: int = 60,
) -> SloBound:
    """The bound for ``counts`` (requests of each second). Raises ValueError where even all replicas miss too much."""
    if not 1 <= min_replicas <= max_replicas:
        raise ValueError(f"need 1 <= min_replicas <= max_replicas, got {min_replicas} and {max_replicas}")
    starts = np.arange(0, len(counts), block_s)
    spans = np.diff(np.append(starts, len(counts))).astype(np.float64)
    requests = np.add.reduceat(counts, starts).astype(np.float64)
    sizes = np.arange(min_replicas, max_replicas + 1, dtype=np.float64)
    missed = curve.missed((requests / spans)[:, None] / sizes[None, :]) * requests[:, None]
    budget = allowed * float(requests.sum())
    if missed[:, -1].sum() > budget:
        share = missed[:, -1].sum() / max(1.0, requests.sum())
        raise ValueError(f"{max_replicas} replicas miss {share:.2%}, more than {allowed:.2%}")
    rented = sizes[None, :] * spans[:, None]
    blocks = np.arange(len(spans))

    def of_path(path: Ints) -> _Found:
        grown = np.maximum(0, np.diff(path, prepend=path[0]))
        return _Found(path, rented[blocks, path] + boot_s * grown, missed[blocks, path])

    def at_price(price: float) -> _Found:
        path = np.empty(len(spans), dtype=np.int64)
        _cheapest(rented + price * missed, float(boot_s), path)
        return of_path(path)

    few = over = at_price(0.0)
    bound, low, high = few.cost, 0.0, 1.0
    if few.misses > budget:
        while (few := at_price(high)).misses > budget:
            over, low, high = few, high, high * 4
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            found = at_price(middle)
            bound = max(bound, found.cost + middle * (found.misses - budget))
            if found.misses > budget:
                over, low = found, middle
            else:
                few, high = found, middle
            if high - low <= 1e-9 * high:
                break
    best = min([few, *map(of_path, _spliced(over, few, budget))], key=_cost_within(budget))
    return SloBound(
        replica_hours=bound / 3600,
        found_hours=best.cost / 3600,
        missed_share=best.misses / max(1.0, float(requests.sum())),
        replicas=best.path + min_replicas,
    )


@dataclass(frozen=True, slots=True)
class _Found:
    """A fleet: sizes by block, seconds paid and requests missed in each."""

    path: Ints
    paid: Floats
    missed: Floats

    @property
    def cost(self) -> float:
        return float(self.paid.sum())

    @property
    def misses(self) -> float:
        return float(self.missed.sum())


def _cost_within(budget: float) -> Callable[[_Found], float]:
    return lambda found: found.cost if found.misses <= budget else np.inf


def _spliced(over: _Found, few: _Found, budget: float) -> list[Ints]:
    """At the final price the fleets on both sides of the budget cost the same; between them lie fleets that begin as
    one and end as the other. Those of either order that use the budget best.
    """
    paths = []
    for head, tail in ((over, few), (few, over)):
        misses = np.cumsum(head.missed) + tail.misses - np.cumsum(tail.missed)
        paid = np.cumsum(head.paid) + tail.cost - np.cumsum(tail.paid)
        at = int(np.argmin(np.where(misses <= budget, paid, np.inf)))
        paths.append(np.concatenate([head.path[: at + 1], tail.path[at + 1 :]]))
    return paths


def _program(costs: Floats, boot_s: float, path: Ints) -> None:
    """Fill ``path`` with the cheapest sizes for float64[blocks, sizes] of ``costs``; the first fleet boots for free."""
    blocks, sizes = costs.shape
    came_from = np.empty((blocks, sizes), dtype=np.int32)
    value = costs[0].copy()
    following = np.empty(sizes)
    for j in range(1, blocks):
        # From the same or a larger fleet: free.
        cheapest = sizes - 1
        for n in range(sizes - 1, -1, -1):
            if value[n] <= value[cheapest]:
                cheapest = n
            following[n] = value[cheapest]
            came_from[j, n] = cheapest
        # From a smaller one: a boot for each replica more.
        cheapest = 0
        for n in range(sizes):
            if value[n] - boot_s * n < value[cheapest] - boot_s * cheapest:
                cheapest = n
            grown = value[cheapest] + boot_s * (n - cheapest)
            if grown < following[n]:
                following[n] = grown
                came_from[j, n] = cheapest
        for n in range(sizes):
            value[n] = following[n] + costs[j, n]
    at = int(np.argmin(value))
    for j in range(blocks - 1, -1, -1):
        path[j] = at
        if j:
            at = came_from[j, at]


_cheapest: Callable[[Floats, float, Ints], None] = numba.njit(cache=True)(_program)
