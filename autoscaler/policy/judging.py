"""Each request of a replica compared with the SLO, once, out of histograms that tell of it at two moments.

The time to its first token is known then; its mean gap between tokens, its whole time and its time in the queue only
when it has ended. So a request is judged when its fate is known: missed at its first token where that came late, else
at its end. Those judged before (``late``) are taken out of the ended again, in proportion, since a page doesn't tell
who has ended; and of the ended ones that missed, as many as can be are taken to be those: misses are never counted
twice, and rather too few than too many.

Where a page tells nothing of a request's end, requests are judged at their first token (or at their end, where that
isn't told either), by the shares of what was observed meanwhile. Gaps between single tokens stand for the mean gaps of
requests where the engine has nothing better. They are the stricter measure: a request of a hundred tokens may have a
long gap among them and a short mean.
"""

from __future__ import annotations

from typing import NamedTuple

from autoscaler.domain.reading import Histogram, MaybeHistogram, Unknown
from autoscaler.domain.service import Slo
from autoscaler.policy.progress import Progress, Sums, share_since, sums_since


class Verdicts(NamedTuple):
    """``judged`` requests of a replica, of which ``within`` met every threshold; ``late``: those of ReplicaTrack."""

    judged: float = 0.0
    within: float = 0.0
    late: float = 0.0


class _Told(NamedTuple):
    """A histogram of two pages, what is new in it, and the threshold that it is held against."""

    now: MaybeHistogram
    then: MaybeHistogram | None
    new: Sums | None
    threshold_s: float | None

    @property
    def is_told(self) -> bool:
        """There is a threshold, and the page has what it takes to compare with it."""
        return self.threshold_s is not None and isinstance(self.now, Histogram) and bool(self.now.bounds)

    def in_time(self) -> float | None:
        """Share of the new observations within the threshold; None where there are none."""
        if self.threshold_s is None:
            return None
        return share_since(self.now, self.then, self.new, self.threshold_s)

    def missed(self) -> float:
        """New observations beyond the threshold."""
        if self.threshold_s is None:
            return 0.0
        share = share_since(self.now, self.then, self.new, self.threshold_s)
        return 0.0 if self.new is None or share is None else self.new.number * (1 - share)


def _compared(now: MaybeHistogram, then: MaybeHistogram | None, threshold_s: float | None) -> _Told:
    return _Told(now, then, None if threshold_s is None else sums_since(now, then), threshold_s)


def judge(slo: Slo, done: Progress, *, late: float) -> Verdicts:
    """What the replica's new page tells; ``late``: as of the page before."""
    now, then = done.reading, done.earlier
    first = _Told(now.ttft, then.ttft if then else None, done.ttft, slo.ttft_s)
    gaps = _Told(now.itl, then.itl if then else None, done.itl, slo.itl_s)
    means = _compared(now.request_itl, then.request_itl if then else None, slo.itl_s)
    whole = _Told(now.e2e, then.e2e if then else None, done.e2e, slo.e2e_s)
    queued = _compared(now.queue_time, then.queue_time if then else None, slo.queue_s)
    at_end = [each for each in (means, whole, queued) if each.is_told]
    if not at_end or done.completed is None:
        return _by_shares([first, gaps, means, whole, queued], done)
    missed = max([each.missed() for each in at_end])
    tokens = None if means.is_told else gaps.in_time()
    if tokens is not None:
        missed = max(missed, (1 - tokens) * done.completed)
    return _in_turn(done, ended=done.completed, late_now=first.missed(), missed=missed, late=late)


def _by_shares(told: list[_Told], done: Progress) -> Verdicts:
    """Requests that got their first token (or finished, where an engine doesn't tell that), and how many of them were
    in time. Those of which no threshold can be seen are not judged.
    """
    requests = done.completed if done.first_tokens is None else done.first_tokens
    known = [share for each in told if (share := each.in_time()) is not None]
    return Verdicts(requests, requests * min(known)) if requests and known else Verdicts()


def _in_turn(done: Progress, *, ended: float, late_now: float, missed: float, late: float) -> Verdicts:
    """``missed``: of the ``ended``, by what is known at the end alone."""
    late += late_now
    under_way = _under_way(done)
    leaving = min(late, ended, late * ended / (ended + under_way)) if ended > 0 else 0.0
    judged = late_now + ended - leaving
    missed = late_now + max(0.0, min(missed, ended) - leaving)
    return Verdicts(judged, judged - missed, min(late - leaving, under_way))


def _under_way(done: Progress) -> float:
    """Requests past their first token that have not ended. Aborted ones leave uncounted, so never more than run."""
    ttft, completed, running = done.reading.ttft, done.reading.completed, done.reading.running
    known = [] if isinstance(running, Unknown) else [running]
    if not isinstance(ttft, Unknown) and not isinstance(completed, Unknown):
        known.append(max(0.0, ttft.count - completed))
    return min(known, default=0.0)
