"""What an estimator's own past errors say about its next one.

Conformal prediction made online: the tau quantile of a forecast is its base plus the tau quantile of the residuals
that the same base left before (Vovk, Gammerman & Shafer, Algorithmic Learning in a Random World, 2005). Residuals are
differences of log rates. Each weighs as many requests as the span it was made on, so that coverage is a share of
requests, and is forgotten with a half-life of one day of mean traffic.
"""

from __future__ import annotations

import math

import numpy as np

from predictors.timeline import BIN_S, TARGET_BINS, Floats, Floats32, Timeline

CELLS = 127
CLIP_SIGMA = 5.0

# An estimator that has not erred yet is taken to err by a Laplace distribution of this deviation (of log rates): the
# upper end of what busy services show over one to five minutes. It counts as 60 windows, 15 minutes, of own errors:
# spans overlap, so the first errors repeat one another.
FIRST_SIGMA = 0.25
FIRST_WINDOWS = 60.0

_REACH = 6.7  # asinh of the outermost edge, 406 units
_EDGES: Floats = np.sinh(np.linspace(-_REACH, _REACH, CELLS + 1))
_WIDTHS = np.diff(_EDGES)
_HALF_LIFE_S = 86400.0
_VOLATILITY_HALF_LIFE_S = 1800.0
_FIRST_VOLATILITY_WINDOWS = 4.0
_LEAST_SIGMA = 0.02
_LARGEST_WEIGHT = 10.0


def remaining(half_life_s: float, bins: float = 1.0) -> float:
    """The share of what was known that is left after ``bins`` more."""
    return float(0.5 ** (bins * BIN_S / half_life_s))


def first_histograms(sigma_units: Floats) -> Floats32:
    """Histograms (len(sigma_units), CELLS) of the spread that is assumed before there are residuals."""
    tail = 0.5 * np.exp(-math.sqrt(2.0) * np.abs(_EDGES) / sigma_units[:, None])
    cumulative = np.where(_EDGES < 0, tail, 1.0 - tail)
    cumulative[:, 0], cumulative[:, -1] = 0.0, 1.0
    return (FIRST_WINDOWS * np.diff(cumulative, axis=1)).astype(np.float32)


def add_residuals(histograms: Floats32, residual_units: Floats, weight: float) -> Floats32:
    """``histograms`` with one residual a row; rows of NaN are left alone. What is added and forgotten is in proportion.

    A histogram in units: a unit is a step of log rate, or a part of the present volatility. Its cells grow as sinh,
    a tenth of a unit around zero and a tenth of the value further out.
    """
    known = ~np.isnan(residual_units)
    rows = np.flatnonzero(known)
    places = (np.arcsinh(residual_units[rows]) / _REACH + 1.0) * (CELLS / 2)
    kept = np.where(known, remaining(_HALF_LIFE_S, weight), 1.0).astype(np.float32)
    told = histograms * kept[:, None]
    told[rows, np.minimum(np.maximum(places, 0.0), CELLS - 1.0).astype(int)] += np.float32(weight)
    return told


def residual_quantiles(histograms: Floats32, taus: Floats) -> Floats:
    """Quantiles (rows, len(taus)) in units, linear inside a cell."""
    mass = histograms.astype(np.float64).ravel()
    cumulative: Floats = mass.cumsum()  # over all rows in one, so that one search serves them
    ends = cumulative[CELLS - 1 :: CELLS]
    starts = np.concatenate(((0.0,), ends[:-1]))
    wanted = starts[:, None] + taus * (ends - starts)[:, None]
    found = cumulative.searchsorted(wanted)
    beyond = (cumulative.take(found) - wanted) / np.maximum(mass.take(found), 1e-300)
    cells = found % CELLS
    return np.asarray(_EDGES.take(cells + 1) - np.minimum(beyond, 1.0) * _WIDTHS.take(cells))


def first_volatility(rows: int) -> Floats:
    """(2, rows): decayed sum of squared residuals, and of their number."""
    return np.outer([FIRST_SIGMA**2 * _FIRST_VOLATILITY_WINDOWS, _FIRST_VOLATILITY_WINDOWS], np.ones(rows))


def sigma_of(volatility: Floats) -> Floats:
    """Running root mean square of residuals (of log rates), half-life 30 minutes, at least 0.02."""
    sigma: Floats = np.sqrt(volatility[0] / volatility[1])
    return np.maximum(sigma, _LEAST_SIGMA)


def add_volatility(volatility: Floats, residuals: Floats) -> Floats:
    """``volatility`` with one residual a row; rows of NaN are left alone."""
    told = volatility * remaining(_VOLATILITY_HALF_LIFE_S)
    told[0] += residuals * residuals
    told[1] += 1.0
    return np.where(np.isnan(residuals), volatility, told)


def clipped(residuals: Floats, sigma: Floats) -> Floats:
    """Residuals within five sigma: the first windows of a restart, or one outage, must not raise a day of forecasts."""
    return np.minimum(np.maximum(residuals, -CLIP_SIGMA * sigma), CLIP_SIGMA * sigma)


def add_traffic(traffic: Floats, rate_rps: float) -> tuple[Floats, float]:
    """Decayed (sum, number) of the rates of busy windows, and the weight of a window of ``rate_rps`` among them.

    The weight is 1 on average, 0 for an idle window (which teaches nothing: it has no request to cover), and at most
    10, so that the first minute after a quiet month doesn't count for all that was known.
    """
    if rate_rps <= 0:
        return traffic, 0.0
    told = traffic * remaining(_HALF_LIFE_S) + (rate_rps, 1.0)
    return told, float(min(rate_rps * told[1] / told[0], _LARGEST_WEIGHT))


def due(pending: Floats32, timeline: Timeline) -> tuple[Floats, float] | None:
    """What was foreseen for the span that just ended, and the rate it had; None where either is unknown.

    ``pending[i]`` is to be judged when the next but ``i`` bin ends; a row whose last value is NaN says nothing.
    """
    rate_rps = sum(timeline.bins[-TARGET_BINS:].tolist()) / TARGET_BINS
    if math.isnan(rate_rps) or len(pending) == 0 or math.isnan(pending[0, -1]):
        return None
    return pending[0].astype(np.float64), rate_rps


def foresee(pending: Floats32, values: Floats, horizon: int) -> Floats32:
    """``pending`` with what is foreseen now for the span that begins ``horizon`` bins from now."""
    row = horizon + TARGET_BINS - 1
    told = np.full((max(row + 1, len(pending)), len(values)), np.nan, dtype=np.float32)
    told[: len(pending)] = pending
    told[row] = values
    return told
