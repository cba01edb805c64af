"""The arithmetic of the fluid model: second after second, one queue, served at the rate of the open replicas."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from adapters.simulation.kernels.compiled import compiled

Floats = NDArray[np.float64]

# What the steps add up, by place in ``Curves.totals``.
REFUSED, EXPIRED, SERVED_LATE, WAITED_S = range(4)
TOTALS = 4


class Curves(NamedTuple):
    """All steps of a run; ``accepted`` and ``served`` have one element more.

    ``arrivals[t]``: in step t. ``accepted[t]``, ``served[t]``: up to the begin of step t; ``served`` includes those
    that left the queue because they were held too long. ``missed[t]``: of those that arrived in step t.
    """

    arrivals: Floats
    accepted: Floats
    served: Floats
    missed: Floats
    totals: Floats


class Limits(NamedTuple):
    """``patience``: how many steps after its own a request may be served and be in time.

    While nothing serves, at most ``held`` requests wait, no longer than ``held_steps`` (more than ``patience``).
    """

    patience: int
    held: float
    held_steps: int


@compiled
def serve(curves: Curves, limits: Limits, begin: int, end: int, capacities: tuple[float, float]) -> None:
    """Take the steps from ``begin`` to before ``end``; ``capacities``: of the first of them, and of each other."""
    accepted, served, missed, totals = curves.accepted, curves.served, curves.missed, curves.totals
    patience = limits.patience
    for t in range(begin, end):
        room = capacities[0] if t == begin else capacities[1]
        queue = accepted[t] - served[t]
        coming = curves.arrivals[t]
        if room <= 0.0:
            taken = min(coming, max(0.0, limits.held - queue))
            totals[REFUSED] += coming - taken
            missed[t] += coming - taken
            coming = taken
        accepted[t + 1] = accepted[t] + coming
        out = served[t] + min(queue + coming, room)
        if t >= patience:
            # All that came before step t - patience is late.
            totals[SERVED_LATE] += max(0.0, min(out, accepted[t - patience]) - served[t])
        if room <= 0.0 and t >= limits.held_steps:
            too_long = max(0.0, accepted[t + 1 - limits.held_steps] - out)
            totals[EXPIRED] += too_long
            out += too_long
        served[t + 1] = out
        totals[WAITED_S] += accepted[t + 1] - out
        if t >= patience:
            came = t - patience
            missed[came] += max(0.0, accepted[came + 1] - max(out, accepted[came]))
