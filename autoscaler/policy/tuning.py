"""The forecast's quantile, tuned by the share of requests that met the SLO.

theta = -ln(1 - tau). Each tick, with allowed = (1 - reserve) (1 - share) of the judged requests,

    debt  += (missed - allowed) / (requests that a day allows to miss)
    theta += gain * (this tick's part of the debt) + debt_gain * debt * (time in days)

The first part is an integrator on the budget of allowed misses, so slow that one day's error moves it by about ``gain``
(online quantile tracking as in Gibbs & Candes, Adaptive conformal inference under distribution shift, 2021). The second
pays back what was missed, or saved, while theta was on its way, so that the share attained in the long run is the
promised one and not only its trend (a proportional-integral controller on the debt).

A longer lead time needs a higher quantile for the same share: an overload lasts until new replicas are there, and a
queue makes everybody late meanwhile. So as the lead time grows, demand may exceed the forecast the more seldom: 1 - tau
is in inverse proportion to it, and theta is that of a lead of 75 s (a start of a minute). That is what public
traces asked for at starts of 5 to 900 s.

Replicas are kept up to a higher quantile than the one that new ones are asked for: a removed one that is missed soon
costs a start and the requests until then, a kept one that isn't only its time. In between the count stays as it is.
"""

from __future__ import annotations

import math

from autoscaler.domain.params import Params
from autoscaler.domain.reading import Measured, Unknown

_DAY_S = 86400.0
_USUAL_LEAD_S = 75.0
# The spans that are foreseen are as long: shorter leads make no difference.
_SHORTEST_LEAD_S = 30.0
# A debt of more than a day's allowance, or a saving, is forgiven: it would govern weeks.
_LARGEST_DEBT = 1.0


def initial_theta(params: Params) -> float:
    """Headroom of a service that was never judged."""
    return -math.log(1 - params.initial_quantile)


def quantiles(theta: float, *, lead_s: float, params: Params) -> tuple[float, float]:
    """The quantiles of the demand ``lead_s`` ahead that this headroom stands for: to grow to, and to keep."""
    least = theta + math.log(max(_SHORTEST_LEAD_S, lead_s) / _USUAL_LEAD_S)
    to_grow, to_keep = (
        1 - math.exp(-min(params.max_theta, max(params.min_theta, headroom)))
        for headroom in (least, least + params.kept_headroom)
    )
    return to_grow, to_keep


def day_arrivals(known: float, *, rate_rps: Measured, span_s: float) -> float:
    """Decayed mean (time constant one day) of requests a day; the first rate seen starts it."""
    if isinstance(rate_rps, Unknown) or span_s <= 0:
        return known
    today = rate_rps * _DAY_S
    if known <= 0:
        return today
    weight = 1 - math.exp(-span_s / _DAY_S)
    return known + weight * (today - known)


def tune(
    theta: float,
    debt: float,
    *,
    judged: Measured,
    missed: Measured,
    span_s: float,
    share: float,
    a_day: float,
    params: Params,
) -> tuple[float, float]:
    """The headroom and the debt after this tick's judged requests; unchanged where none is known, and
    below one request a day."""
    if isinstance(judged, Unknown) or isinstance(missed, Unknown) or judged <= 0 or a_day < 1:
        return theta, debt
    allowed = 1 - share
    step = (missed - (1 - params.tuning_reserve) * allowed * judged) / (allowed * max(a_day, judged))
    debt = min(_LARGEST_DEBT, max(-_LARGEST_DEBT, debt + step))
    theta += params.tuning_gain * step + params.debt_gain * debt * span_s / _DAY_S
    return min(params.max_theta, max(params.min_theta, theta)), debt
