"""How long steps last that grow evenly, and how many of them fit into a time."""

from __future__ import annotations

import math

from adapters.simulation.kernels.compiled import inlined


@inlined
def span(steps: int, shortest: int, growth: int) -> int:
    """How long that many steps last, each by ``growth`` longer than the one before."""
    return steps * shortest + growth * (steps * (steps - 1) // 2)


@inlined
def steps_within(shortest: int, growth: int, elapsed: int) -> int:
    """The most steps that end within ``elapsed``: the root of ``span``, put right where rounding missed it."""
    middle = shortest - 0.5 * growth
    steps = int(2.0 * elapsed / (middle + math.sqrt(middle * middle + 2.0 * growth * elapsed)))
    while span(steps, shortest, growth) > elapsed:
        steps -= 1
    while span(steps + 1, shortest, growth) <= elapsed:
        steps += 1
    return steps
