"""What happens inside the bins of a recorded rate, which only gives their means.

The logarithm of the rate is a straight line between the middles of the bins, plus a Brownian bridge at 0.7 of the
series' own diffusion: public traces move inside a bin nearly as much as from bin to bin, and a straight line alone
would flatter whoever forecasts. The counts of single seconds are negative binomial, since clients don't send
independently (ServeGen, arXiv 2505.09999, section 3: gaps of a client vary by more than an exponential's).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BRIDGE_SHARE = 0.7
# The mean range of seven normal values, in standard deviations: a band drawn over seven minutes spans that.
_RANGE_OF_SEVEN = 2.704
_LOG_FLOOR = 1e-3

Floats = NDArray[np.float64]


def rate_per_second(edges_s: Floats, rates: Floats, *, minute_noise: Floats, rng: np.random.Generator) -> Floats:
    """A rate for each second from the first edge on, drawn with ``rng``.

    ``rates[i]`` is the mean from ``edges_s[i]`` to ``edges_s[i + 1]``; ``minute_noise[i]`` the relative deviation of
    single minutes there. A bin of rate 0 stays at 0. The total is that of the bins.
    """
    seconds: Floats = np.arange(round(float(edges_s[-1] - edges_s[0])), dtype=np.float64) + 0.5
    middles: Floats = (edges_s[1:] + edges_s[:-1]) / 2 - edges_s[0]
    at = np.minimum(np.searchsorted(edges_s - edges_s[0], seconds, side="right") - 1, len(rates) - 1)
    positive = rates > 0
    if not positive.any():
        return np.zeros(len(seconds))
    logs = np.log(np.maximum(rates, _LOG_FLOOR * rates[positive].mean()))
    path = np.interp(seconds, middles, logs)
    path += _bridge(seconds, middles, BRIDGE_SHARE * diffusion(middles, logs, positive), rng)
    minutes = np.arange(len(seconds) // 60 + 2) * 60.0
    path += np.interp(seconds, minutes, rng.standard_normal(len(minutes))) * minute_noise[at]
    per_second = np.where(positive[at], np.exp(path), 0.0)
    total = float(rates @ np.diff(edges_s))
    spread: Floats = per_second * (total / per_second.sum())
    return spread


def flat_per_second(edges_s: Floats, rates: Floats) -> Floats:
    """The bins' own rates for each second, spread over the seconds that an edge divides."""
    reached = np.concatenate([[0.0], np.cumsum(rates * np.diff(edges_s))])
    whole = np.arange(int(np.ceil(edges_s[-1] - edges_s[0])) + 1) + edges_s[0]
    return np.diff(np.interp(whole, edges_s, reached))


def diffusion(middles: Floats, logs: Floats, positive: NDArray[np.bool_]) -> float:
    """Standard deviation of the logarithm's change in one second, as if it were Brownian; bins of rate 0 left out."""
    both = positive[1:] & positive[:-1]
    if not both.any():
        return 0.0
    steps = np.diff(logs)[both] / np.sqrt(np.diff(middles)[both])
    return float(np.sqrt(np.mean(steps**2)))


def noise_of_band(low: Floats, middle: Floats, high: Floats) -> Floats:
    """Relative deviation of single minutes from the band that they span, less what counting alone gives.

    ``low``, ``middle``, ``high``: requests a minute at the band's edges and middle, over about seven minutes each.
    """
    middle = np.maximum(middle, 1e-9)
    spread = (high - low) / middle / _RANGE_OF_SEVEN
    return np.sqrt(np.maximum(0.0, spread**2 - 1 / np.maximum(middle, 1.0)))


def drawn_counts(per_second: Floats, *, dispersion: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """A count for each second with the given means and ``dispersion`` times the variance of a Poisson count."""
    if dispersion <= 1.0:
        return rng.poisson(per_second).astype(np.int64)
    counts = np.zeros(len(per_second), dtype=np.int64)
    some = per_second > 0
    counts[some] = rng.negative_binomial(per_second[some] / (dispersion - 1), 1 / dispersion)
    return counts


def _bridge(seconds: Floats, middles: Floats, sigma: float, rng: np.random.Generator) -> Floats:
    walk = np.cumsum(rng.standard_normal(len(seconds))) * sigma
    if len(middles) < 2:
        return np.zeros(len(seconds))
    # Held at the bins' middles; before the first and after the last it is free to walk away from them.
    return walk - np.interp(seconds, middles, np.interp(middles, seconds, walk))
