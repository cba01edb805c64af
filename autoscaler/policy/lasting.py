"""The rate that replicas feel: arrivals averaged over as long as a request lasts.

What slows a batch down is how many requests run at a time, and that is arrivals summed over the time that each stays.
Where requests last for a minute, a busy quarter of one changes next to nothing: its excess is mostly chance, evens out
before it is felt, and the rate of a replica at the SLO leaves room for it already. So with T, the time that a request
takes at the promised pace (mean answer x ITL threshold), the rate is averaged with weights exp(-age / T): the shares
that still run of requests of that age, where lengths are about exponential. Without a promise on ITL nothing is
averaged, and with answers that are short against a tick hardly anything.

Lengths are told when requests have ended. Where answers grow longer than they were, more requests run at a time than
the felt rate explains, and that shows first: by Little's law (Operations Research 9, 1961) as many requests a second
are to be served as run, over the time that each would stay at the pace of a replica that is loaded as it may be.
"""

from __future__ import annotations

import math

from autoscaler.domain.capacity import RequestShape
from autoscaler.domain.reading import Measured, Unknown
from autoscaler.domain.service import Slo
from autoscaler.policy.windows import Window

# Deviations that a count has to be beyond the mean to be more than chance; that of a Poisson stream, as the least.
_PROOF = 2.0
# Mean time between tokens, over the promised one, where a replica is loaded as it may be: most are well within.
_PACE = 0.8


def lasts_s(slo: Slo, shape: RequestShape | Unknown) -> float:
    """How long a request runs at the promised pace; 0 where that is not known."""
    return 0.0 if slo.itl_s is None or isinstance(shape, Unknown) else shape.output * slo.itl_s


def felt_rps(before: Measured, *, tick_rps: Measured, span_s: float, in_flight: Measured, lasting_s: float) -> Measured:
    """The average after a tick of ``tick_rps``; unknown as that is. With nothing in flight nothing is felt."""
    if isinstance(tick_rps, Unknown) or isinstance(before, Unknown) or lasting_s <= 0:
        return tick_rps
    if tick_rps == 0 and in_flight == 0:
        return 0.0
    return before + (tick_rps - before) * -math.expm1(-max(0.0, span_s) / lasting_s)


def load_rps(
    short: Window, felt: Measured, *, short_rps: Measured, running: float, lasting_s: float, window_s: float
) -> Measured:
    """The measured rate to size for: that of the short window of ``window_s``; where requests outlast it the felt one,
    or more where the window or the number of ``running`` requests proves that.
    """
    if isinstance(short_rps, Unknown) or isinstance(felt, Unknown) or lasting_s <= window_s:
        return short_rps
    chance_rps = _PROOF * math.sqrt(short.arrivals) / short.span_s
    return max(felt, short_rps - chance_rps * (1 - window_s / lasting_s), running / (_PACE * lasting_s))
