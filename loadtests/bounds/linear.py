"""The linear program: a strict lower bound on what any fleet costs that serves a fluid in time.

Over blocks j of ``block_s`` seconds: x_j replicas (fractions allowed), u_j starts, S_j requests served by the block's
end. It knows every fleet's constraints, and fewer: within a block only the total counts.

    minimise   sum block_s * x_j + boot_s * u_j
    u_j >= x_j - x_(j-1)                       each start costs a boot; the first fleet is free
    S_j - S_(j-1) <= capacity * block_s * x_j  what replicas can serve
    A(end_j - patience) <= S_j + dropped_j     in time, but for what is dropped so far
    S_j <= A(end_j)                            nothing is served before it comes
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import bmat, diags, identity

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class NoSolutionError(ValueError):
    """The program has none, or the solver gave up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearBound:
    """``replica_hours``: boot included. ``replicas``: float64[blocks], a fleet that attains it."""

    replica_hours: float
    replicas: Floats


def linear_bound(
    counts: Ints,
    *,
    capacity_rps: float,
    boot_s: float,
    patience_s: int = 2,
    dropped_share: float = 0.0,
    min_replicas: int = 1,
    max_replicas: int | None = None,
    block_s: int = 60,
) -> LinearBound:
    """The bound for ``counts`` (requests of each second) of which ``dropped_share`` need not be served in time.

    ``patience_s``: steps of a second after its own in which a request may be served and be in time. Raises
    NoSolutionError.
    """
    if not len(counts) or block_s < 1 or not 0 <= dropped_share < 1:
        raise ValueError(
            f"need traffic, block_s >= 1, 0 <= dropped_share < 1; got {len(counts)}, {block_s}, {dropped_share}"
        )
    ends = np.append(np.arange(block_s, len(counts), block_s), len(counts))
    spans = np.diff(np.concatenate([[0], ends])).astype(np.float64)
    arrived = np.concatenate([[0], np.cumsum(counts)]).astype(np.float64)
    due = arrived[np.maximum(0, ends - patience_s)]
    blocks = len(ends)
    one = identity(blocks, format="csr")
    step = diags([np.ones(blocks), -np.ones(blocks - 1)], [0, -1], format="csr")
    # The columns: x, u, S, and what was dropped so far, which never shrinks.
    starts = step.tolil()
    starts[0, 0] = 0.0
    rows = [
        [starts.tocsr(), -one, None, None],
        [diags([-capacity_rps * spans], [0]), None, step, None],
        [None, None, -one, -one],
        [None, None, None, -step],
    ]
    limits = [np.zeros(blocks), np.zeros(blocks), -due, np.zeros(blocks)]
    most_dropped = dropped_share * arrived[-1]
    solution = linprog(
        c=np.concatenate([spans, np.full(blocks, float(boot_s)), np.zeros(2 * blocks)]),
        A_ub=bmat(rows, format="csr"),
        b_ub=np.concatenate(limits),
        bounds=np.concatenate(
            [
                np.column_stack([np.full(blocks, min_replicas), np.full(blocks, max_replicas or np.inf)]),
                np.column_stack([np.zeros(blocks), np.full(blocks, np.inf)]),
                np.column_stack([np.zeros(blocks), arrived[ends]]),
                np.column_stack([np.zeros(blocks), np.full(blocks, most_dropped)]),
            ]
        ),
        # What is dropped ties all blocks together, which slows the simplex method on a week from seconds to minutes.
        method="highs-ipm" if dropped_share > 0 else "highs",
    )
    if solution.x is None or not solution.success:
        raise NoSolutionError(f"no fleet of {min_replicas} to {max_replicas} replicas: {solution.message}")
    return LinearBound(replica_hours=float(solution.fun) / 3600, replicas=solution.x[:blocks])
