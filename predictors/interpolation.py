"""Monotone interpolation on few points (Fritsch and Carlson 1980; slopes after Fritsch and Butland 1984)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def interpolate(xs: NDArray[np.float64], ys: NDArray[np.float64], *, below: int, at: float) -> float:
    """y at ``at``, between the points ``below`` and ``below + 1``, by a cubic that is monotone where the points are."""
    x0, x1, y0, y1 = float(xs[below]), float(xs[below + 1]), float(ys[below]), float(ys[below + 1])
    width = x1 - x0
    if width <= 0.0:
        return y0
    secant = (y1 - y0) / width
    left = _slope(xs, ys, below, secant) if below > 0 else secant
    right = _slope(xs, ys, below + 1, secant) if below + 2 < len(xs) else secant
    part = min(max((at - x0) / width, 0.0), 1.0)
    rest = 1.0 - part
    bend = part * rest * width * (rest * (left - secant) + part * (secant - right))
    return y0 + part * (y1 - y0) + bend


def _slope(xs: NDArray[np.float64], ys: NDArray[np.float64], i: int, secant: float) -> float:
    """Harmonic mean of the slopes on both sides of an inner point; 0 where one side is flat or they disagree."""
    widths = float(xs[i] - xs[i - 1]), float(xs[i + 1] - xs[i])
    if min(widths) <= 0.0:
        return secant
    before, after = float(ys[i] - ys[i - 1]) / widths[0], float(ys[i + 1] - ys[i]) / widths[1]
    return 2.0 * before * after / (before + after) if before * after > 0.0 else 0.0
