"""Step time c + d*B + e*K + a*q learned from windows of measured load, and carried over to parts of a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from autoscaler.domain.capacity import StepTime

Array = NDArray[np.float64]

# Median d/c, e/c and a/c of the shipped profiles, which lie within 0.7-1.7, 0.6-4.3 and 0.6-1.4 of them.
TYPICAL = StepTime(c_s=1.0, d_s=0.0023, e_s=2.0e-6, a_s=0.0054)

LEAST_WINDOWS = 8
LEAST_RANGE = 2.0  # largest over smallest batch that a fit needs
LARGEST_ERROR = 0.35  # relative, root mean square; beyond it the step time isn't what explains the windows
_UNITS = np.array([TYPICAL.c_s, TYPICAL.d_s, TYPICAL.e_s, TYPICAL.a_s])
_AS_WELL = 0.02  # relative error that is granted for the sake of the profile's proportions
_LEAST_SCALED = 3
_LEAST_REST = 0.1  # share of time without prefill, at the least
_LEAST_NOISE = 1e-3  # relative error of a window, at the least
_OUTLIER = 3.0  # median residuals beyond which a window counts less
_RISE = 1.25  # rise of the step time over the range that can't be noise


def scaled(step: StepTime, factor: float) -> StepTime:
    """Every term times ``factor``."""
    return StepTime(c_s=step.c_s * factor, d_s=step.d_s * factor, e_s=step.e_s * factor, a_s=step.a_s * factor)


def scale_to_slice(
    step: StepTime,
    *,
    memory_slices: int,
    compute_slices: int,
    total_memory_slices: int = 8,
    total_compute_slices: int = 7,
) -> StepTime:
    """The step time on a MIG slice, from that on the whole GPU, until it is measured.

    Reading weights (c) and KV cache (e) is bound by memory bandwidth and goes with memory slices; the work per
    sequence (d) and per prefill token (a) is bound by compute and goes with compute slices. Raises ValueError for a
    slice that is larger than the GPU.
    """
    for name, part, total in (
        ("memory_slices", memory_slices, total_memory_slices),
        ("compute_slices", compute_slices, total_compute_slices),
    ):
        if not 1 <= part <= total:
            raise ValueError(f"{name} must lie in [1, {total}], got {part}")
    memory = total_memory_slices / memory_slices
    compute = total_compute_slices / compute_slices
    return StepTime(c_s=step.c_s * memory, d_s=step.d_s * compute, e_s=step.e_s * memory, a_s=step.a_s * compute)


class Misfit(StrEnum):
    """Why no step time was fitted. The first means: not yet; the others: it would be physically impossible."""

    TOO_ALIKE = "the windows are too few or their batches too alike"
    NO_CONSTANT = "an empty step would take no time"
    FAR_OFF = "no step time explains the measured ITL"
    FLAT = "ITL rises with the batch, the fit does not"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A fitted step time and its relative error (weighted root mean square)."""

    step: StepTime
    error: float


def predicted_s(step: StepTime, loads: Array) -> Array:
    """Step times for rows of (1, B, K, q)."""
    times: Array = loads @ _terms(step)
    return times


def _terms(step: StepTime) -> Array:
    return np.array([step.c_s, step.d_s, step.e_s, step.a_s])


def measured_scale(step: StepTime, loads: Array) -> float | None:
    """Median ratio of the measured to the predicted ITL; None below three windows.

    ``loads``: rows that begin with (1, B, K, q), with the ITL in column 5.
    """
    if len(loads) < _LEAST_SCALED:
        return None
    ratios = np.sort(loads[:, 5] / predicted_s(step, loads[:, :4]))
    return float(ratios[(len(ratios) - 1) // 2])


def in_proportion(fit: Fit, profile: StepTime, loads: Array) -> StepTime:
    """The fit with d, e and a in the profile's proportions, where that explains the windows as well; else the fit.

    Windows of one request shape don't tell d, e and a apart, the profile does.
    """
    fitted, ours = fit.step, _terms(profile)
    slope = float((loads[:, 1:4] @ _terms(fitted)[1:]).sum() / max((loads[:, 1:4] @ ours[1:]).sum(), 1e-12))
    split = StepTime(c_s=fitted.c_s, d_s=slope * profile.d_s, e_s=slope * profile.e_s, a_s=slope * profile.a_s)
    errors = predicted_s(split, loads[:, :4]) / loads[:, 5] - 1.0
    return split if float(errors @ errors) / len(errors) <= (fit.error + _AS_WELL) ** 2 else fitted


def fit_step_time(loads: Array, itl_s: Array, weights: Array) -> Fit | Misfit:
    """Non-negative least squares of relative errors over windows.

    ``loads``: rows of (1, B, K, q), ``itl_s``: measured mean ITL of each, ``weights``: their weights.
    Under one request shape B, K and q rise together and only their sum can be told; how it is split is then taken
    from TYPICAL. One round of reweighting tames outliers (a window of compilation).
    """
    batch = loads[:, 1]
    low, high = float(batch.min(initial=np.inf)), float(batch.max(initial=0.0))
    if len(loads) < LEAST_WINDOWS or high < LEAST_RANGE * low:
        return Misfit.TOO_ALIKE
    weights = weights / weights.sum()
    root = np.sqrt(weights)[:, None]
    rows = loads / itl_s[:, None]
    terms = _UNITS * _least_squares(rows * _UNITS * root, root[:, 0])
    # q is prefill per second times the measured ITL: with that one's noise in it, it would explain the noise. So it is
    # taken times the ITL that the first fit expects, which solves ITL = c + d*B + e*K + a*prefill*ITL.
    expected_s = loads[:, :3] @ terms[:3] / np.maximum(1.0 - terms[3] * rows[:, 3], _LEAST_REST)
    rows[:, 3] *= expected_s / itl_s
    terms = _UNITS * _least_squares(rows * _UNITS * root, root[:, 0])
    residuals = np.abs(rows @ terms - 1.0)
    middle = float(np.sort(residuals)[len(residuals) // 2])
    weights = weights * np.minimum(1.0, _OUTLIER * middle / (residuals + 1e-12) + 1e-9)
    weights = weights / weights.sum()
    terms = _split(rows, terms, weights, noise=middle)
    error = float(np.sqrt(weights @ (rows @ terms - 1.0) ** 2))

    if not np.isfinite(terms).all() or terms[0] <= 1e-3 * float(itl_s.min()):
        return Misfit.NO_CONSTANT
    if error > LARGEST_ERROR:
        return Misfit.FAR_OFF
    by_batch = itl_s[np.argsort(batch, kind="stable")]
    quarter = max(len(by_batch) // 4, 2)
    rise = float(by_batch[-quarter:].mean() / by_batch[:quarter].mean())
    grows = float((loads[:, 1:] @ terms[1:]).max()) > 1e-3 * terms[0]
    if rise > _RISE and not grows:
        return Misfit.FLAT
    c_s, d_s, e_s, a_s = (float(term) for term in terms)
    return Fit(step=StepTime(c_s=c_s, d_s=d_s, e_s=e_s, a_s=a_s), error=error)


def _split(rows: Array, terms: Array, weights: Array, *, noise: float) -> Array:
    """Least squares again, with d, e and a drawn to TYPICAL's proportions of the slope that ``terms`` found.

    The draw weighs as much as the noise of one window, so it moves only what the windows leave open.
    """
    loaded = rows[:, 1:] @ terms[1:]
    slope = float(loaded.sum() / max((rows[:, 1:] @ _UNITS[1:]).sum(), 1e-12))
    if slope <= 0.0:
        return terms
    units = slope * _UNITS
    root = np.sqrt(weights)[:, None]
    draw = max(noise, _LEAST_NOISE) / np.sqrt(len(rows))
    left = np.vstack([rows * units * root, draw * np.eye(4)[1:]])
    right = np.concatenate([root[:, 0], np.full(3, draw)])
    return units * _least_squares(left, right)


def _least_squares(left: Array, right: Array) -> Array:
    """Non-negative; all zero where it doesn't converge (numbers too far apart), which no fit is made of."""
    try:
        solution: Array = nnls(left, right)[0]
    except RuntimeError:
        return np.zeros(left.shape[1])
    return solution
