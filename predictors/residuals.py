"""What an estimator's own past errors say about its next one.

Conformal prediction made online: the tau quantile of a forecast is its base plus the tau quantile of the residuals
that the same base left before (Vovk, Gammerman & Shafer, Algorithmic Learning in a Random World, 2005). Residuals are
differences of log rates. Each weighs as many requests as the span it was made on, so that coverage is a share of
requests, and is forgotten with a half-life of one day of mean traffic.
"""

from __future__ import annotations

import math

import numpy as np

from predictors.stacking import stacked
from predictors.timeline import BIN_S, TARGET_BINS, Floats, Floats32, Timeline

CELLS = 127
CLIP_SIGMA = 5.0

# An estimator that has not erred yet is taken to err by a Laplace distribution of this deviation (of log rates): the
# upper end of what busy services show over one to five minutes.
FIRST_SIGMA = 0.25

_REACH = 6.7  # asinh of the outermost edge, 406 units
_EDGES: Floats = np.sinh(np.linspace(-_REACH, _REACH, CELLS + 1))
_WIDTHS = np.diff(_EDGES)
_HALF_LIFE_S = 86400.0
_VOLATILITY_HALF_LIFE_S = 1800.0
_FIRST_VOLATILITY_WINDOWS = 4.0
_LEAST_SIGMA = 0.02
_LARGEST_WEIGHT = 10.0


def remaining(half_life_s: float) -> float:
    """The share of what was known that is left after one bin more."""
    return float(0.5 ** (BIN_S / half_life_s))


def first_histograms(sigma_units: Floats, *, windows: float) -> Floats32:
    """Histograms (len(sigma_units), CELLS) of the spread that is assumed before there are residuals; it counts as so
    many ``windows`` of own errors.
    """
    tail = 0.5 * np.exp(-math.sqrt(2.0) * np.abs(_EDGES) / sigma_units[:, None])
    cumulative = np.where(_EDGES < 0, tail, 1.0 - tail)
    cumulative[:, 0], cumulative[:, -1] = 0.0, 1.0
    return (windows * np.diff(cumulative, axis=1)).astype(np.float32)


def add_residuals(histograms: Floats32, residual_units: Floats, weights: Floats) -> Floats32:
    """``histograms`` (services, rows, CELLS) with one residual a row, each service's of its own weight.

    Rows of NaN are left alone. What is added and forgotten is in proportion. A histogram is in units: a unit is a step
    of log rate, or a part of the present volatility. Its cells grow as sinh, a tenth of a unit around zero and a tenth
    of the value further out.
    """
    known = ~np.isnan(residual_units)
    left = 0.5 ** (weights * (BIN_S / _HALF_LIFE_S))
    told = histograms * np.where(known, left[:, None], 1.0).astype(np.float32)[..., None]
    services, rows = known.nonzero()
    places = (np.arcsinh(residual_units[services, rows]) / _REACH + 1.0) * (CELLS / 2)
    cells = np.minimum(np.maximum(places, 0.0), CELLS - 1.0).astype(int)
    told[services, rows, cells] += weights.astype(np.float32)[services]
    return told


def residual_quantiles(histograms: Floats32, taus: Floats) -> Floats:
    """Quantiles (services, rows, len(taus)) in units of histograms (services, rows, CELLS), linear inside a cell."""
    count, rows, _ = histograms.shape
    mass = histograms.astype(np.float64).reshape(count, -1)
    cumulative = mass.cumsum(axis=1)  # over all rows of a service in one, so that one search serves them
    bounds = np.zeros((count, rows + 1, 1))
    bounds[:, 1:, 0] = cumulative[:, CELLS - 1 :: CELLS]
    starts = bounds[:, :-1]
    wanted = starts + taus * (bounds[:, 1:] - starts)
    found = stacked([own.searchsorted(asked) for own, asked in zip(cumulative, wanted, strict=True)])
    places = found + np.arange(0, mass.size, rows * CELLS)[:, None, None]
    beyond = (cumulative.take(places) - wanted) / np.maximum(mass.take(places), 1e-300)
    cells = found % CELLS
    return np.asarray(_EDGES.take(cells + 1) - np.minimum(beyond, 1.0) * _WIDTHS.take(cells))


def first_volatility(rows: int) -> Floats:
    """(2, rows): decayed sum of squared residuals, and of their number."""
    return np.outer([FIRST_SIGMA**2 * _FIRST_VOLATILITY_WINDOWS, _FIRST_VOLATILITY_WINDOWS], np.ones(rows))


def sigma_of(volatility: Floats) -> Floats:
    """(services, rows): running root mean square of residuals (of log rates), half-life 30 minutes, at least 0.02."""
    sigma: Floats = np.sqrt(volatility[:, 0] / volatility[:, 1])
    return np.maximum(sigma, _LEAST_SIGMA)


def add_volatility(volatility: Floats, residuals: Floats) -> Floats:
    """``volatility`` (services, 2, rows) with one residual a row; rows of NaN are left alone."""
    told = volatility * remaining(_VOLATILITY_HALF_LIFE_S)
    told[:, 0] += residuals * residuals
    told[:, 1] += 1.0
    return np.where(np.isnan(residuals)[:, None], volatility, told)


def clipped(residuals: Floats, sigma: Floats) -> Floats:
    """Residuals within five sigma: the first windows of a restart, or one outage, must not raise a day of forecasts."""
    return np.minimum(np.maximum(residuals, -CLIP_SIGMA * sigma), CLIP_SIGMA * sigma)


def add_traffic(traffic: Floats, rates_rps: Floats) -> tuple[Floats, Floats]:
    """Decayed (services, [sum, number]) of the rates of busy windows, and the weight of each service's latest.

    The weight of a window is 1 on average, 0 for an idle one (which teaches nothing: it has no request to cover), and
    at most 10, so that the first minute after a quiet month doesn't count for all that was known. There is none, and
    no weight, where no window ever was busy.
    """
    busy = rates_rps > 0
    told = traffic * np.where(busy, remaining(_HALF_LIFE_S), 1.0)[:, None]
    told[:, 0] += rates_rps
    told[:, 1] += busy
    return told, np.minimum(rates_rps * told[:, 1] / np.maximum(told[:, 0], 1e-300), _LARGEST_WEIGHT)


def due(pending: Floats32, timeline: Timeline) -> float:
    """The rate of the span that just ended, NaN where it is unknown or nothing was foreseen for it.

    ``pending[i]`` is to be judged when the next but ``i`` bin ends; a row whose last value is NaN says nothing.
    """
    if len(pending) == 0 or math.isnan(pending[0, -1]):
        return math.nan
    return float(sum(timeline.bins[-TARGET_BINS:].tolist()) / TARGET_BINS)


def foresee(pending: Floats32, values: Floats, horizon: int) -> Floats32:
    """``pending`` with what is foreseen now for the span that begins ``horizon`` bins from now."""
    row = horizon + TARGET_BINS - 1
    told = np.empty((max(row + 1, len(pending)), len(values)), dtype=np.float32)
    told[: len(pending)] = pending
    told[len(pending) :] = np.nan
    told[row] = values
    return told
