"""The forecast's quantile, tuned by the share of requests that met the SLO.

theta = -ln(1 - tau). Each tick theta += gain * (missed - eps * judged) / (eps * requests of a day), eps = 1 - share:
an integrator on the budget of allowed misses, so slow that one day's error moves it by about ``gain``
(online quantile tracking as in Gibbs and Candes, "Adaptive conformal inference under distribution shift", 2021).
"""

from __future__ import annotations

import math

from autoscaler.domain.params import Params
from autoscaler.domain.reading import Measured, Unknown

_DAY_S = 86400.0


def initial_theta(params: Params) -> float:
    """Headroom of a service that was never judged."""
    return -math.log(1 - params.initial_quantile)


def quantile(theta: float) -> float:
    """The quantile that this headroom stands for."""
    return 1 - math.exp(-theta)


def day_arrivals(known: float, *, rate_rps: Measured, span_s: float) -> float:
    """Decayed mean (time constant one day) of requests a day; the first rate seen starts it."""
    if isinstance(rate_rps, Unknown) or span_s <= 0:
        return known
    today = rate_rps * _DAY_S
    if known <= 0:
        return today
    weight = 1 - math.exp(-span_s / _DAY_S)
    return known + weight * (today - known)


def tune(theta: float, *, judged: Measured, missed: Measured, share: float, a_day: float, params: Params) -> float:
    """The headroom after this tick's judged requests; unchanged where none is known."""
    if isinstance(judged, Unknown) or isinstance(missed, Unknown) or judged <= 0 or a_day <= 0:
        return theta
    allowed = 1 - share
    step = params.tuning_gain * (missed - allowed * judged) / (allowed * max(a_day, judged))
    return min(params.max_theta, max(params.min_theta, theta + step))
