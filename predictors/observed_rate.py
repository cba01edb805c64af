"""Rates that need no step time: what a saturated replica served, and what durations alone say (Little's law)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autoscaler.domain.reading import Unknown
from autoscaler.domain.service import Slo, Variant
from predictors.lengths import Lengths
from predictors.load_memory import LoadMemory

Array = NDArray[np.float64]

_HEADROOM = 0.8  # utilisation aimed at where the number of servers isn't known
_LEAST_HEADROOM, _MOST_HEADROOM = 0.5, 0.95
_PATIENCE_S = 10.0  # wait that is tolerated where the SLO names none
_CERTAIN_WINDOWS = 3
_CERTAIN_FOR_S = 3600.0
_GROWTH = 2.0  # concurrency tried beyond the largest that went well
_UNLOADED_WINDOWS = 8
_SLOWED = 2.0  # a duration beyond this many unloaded ones has a queue in it


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedRate:
    """A rate within the SLO and how it is known.

    ``most_rps``: what no model may promise more than: nearly all that was served; infinite where there are too few
    recent windows to contradict one.
    """

    rps: float
    detail: str
    most_rps: float = math.inf


def saturated_rate(memory: LoadMemory, lengths: Lengths | Unknown, slo: Slo) -> ObservedRate | None:
    """From windows in which requests waited all the time: the median service rate times a headroom.

    A window's service rate is what it completed, or the tokens it made over the mean output length: right after a
    start nothing is completed yet, though tokens are made. Where its ITL is above the SLO, the rate is taken down in
    proportion. None where no window was saturated.
    """
    rows = memory.saturated
    if not len(rows):
        return None
    at_s, completed_rps, running, itl_s = rows.T
    rates = completed_rps.copy()
    if not isinstance(lengths, Unknown):
        known = itl_s > 0
        rates[known] = np.maximum(rates[known], running[known] / (itl_s[known] * lengths.moment(0, 1)))
    if slo.itl_s is not None:
        rates = rates * np.minimum(1.0, slo.itl_s / np.maximum(itl_s, 1e-9))
    rates = rates[rates > 0]
    if not len(rates):
        return None
    rate_rps = float(np.sort(rates)[(len(rates) - 1) // 2])
    servers = memory.most_running_saturated()
    spread = 1.0 if isinstance(lengths, Unknown) else lengths.output_cv_sq()
    part = _HEADROOM if servers is None else _headroom(servers, rate_rps, spread, slo)
    newest_s = max(float(at_s[-1]), float(memory.loads[:, 4].max(initial=0.0)))
    recent = int(np.count_nonzero(at_s >= newest_s - _CERTAIN_FOR_S))
    return ObservedRate(
        rps=part * rate_rps,
        detail=f"{part:.0%} of the {rate_rps:.3g} req/s served in {len(rates)} saturated windows",
        most_rps=_MOST_HEADROOM * rate_rps if recent >= _CERTAIN_WINDOWS else math.inf,
    )


def _headroom(servers: float, service_rps: float, cv_sq: float, slo: Slo) -> float:
    """The utilisation at which the wanted share waits no longer than it may: an M/G/c queue, by bisection.

    Sakasegawa (1977): P(wait > 0) is about u^(sqrt(2(c + 1)) - 1); the wait beyond is about exponential.
    """
    half = [t / 2 for t in (slo.ttft_s, slo.e2e_s) if t is not None]
    patience_s = min([_PATIENCE_S, *half, *([] if slo.queue_s is None else [slo.queue_s])])
    power = math.sqrt(2.0 * (servers + 1.0)) - 1.0
    drain = 2.0 * service_rps * patience_s / (1.0 + cv_sq)
    low, high = _LEAST_HEADROOM, _MOST_HEADROOM
    for _ in range(12):
        used = (low + high) / 2
        if used**power * math.exp(-drain * (1.0 - used)) <= 1.0 - slo.share:
            low = used
        else:
            high = used
    return low


def unloaded_rate(memory: LoadMemory, variant: Variant, slo: Slo) -> ObservedRate | None:
    """From durations alone: concurrency that went well, over the unloaded duration; None where none was measured.

    Unloaded: the median duration of the windows of least concurrency. A concurrency went well where the duration
    stayed within the SLO's (or twice the unloaded one); up to twice the largest such is allowed, and at least one.
    """
    rows = memory.durations
    if not len(rows):
        return None
    rows = rows[np.argsort(rows[:, 1], kind="stable")]
    least = np.sort(rows[:_UNLOADED_WINDOWS, 2])
    unloaded_s = float(least[(len(least) - 1) // 2])
    limit_s = _SLOWED * unloaded_s if slo.e2e_s is None else max(slo.e2e_s, unloaded_s)
    well = float(rows[rows[:, 2] <= limit_s, 1].max(initial=0.0))
    allowed = float(variant.max_num_seqs or 0) or memory.most_running_saturated() or max(1.0, _GROWTH * well)
    return ObservedRate(
        rps=_HEADROOM * allowed / unloaded_s,
        detail=f"{_HEADROOM:.0%} of {allowed:.3g} at once over {unloaded_s:.3g} s, the duration of an unloaded request",
    )
