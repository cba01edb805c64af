"""Several gateways in front of one service, counted as one.

Each gateway counts from its own start, and they start, end and return when they like. What each has counted since the
last look is added up, so the sum never runs back and never takes in what was counted before it began to look.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from autoscaler.domain.reading import GatewayReading, Histogram

# A gateway that can't be found for a while, and returns, goes on from where it was; after that it is a stranger.
_REMEMBERED_S = 600.0


class JoinedGateways:
    """The gateways of one service."""

    def __init__(self) -> None:
        self._joined: GatewayReading | None = None
        self._last: dict[str, GatewayReading] = {}

    def join(self, readings: Mapping[str, GatewayReading], *, at_s: float) -> GatewayReading:
        """What all of them counted since the first look, and hold now, as of ``at_s``.

        ``readings``: at least one, by the gateway's name, one for each gateway that takes requests. Of a gateway that
        starts anew, all that it has counted since then is added; what it had counted and told nobody is lost with it.
        """
        joined = self._joined
        if joined is None:
            any_one = next(iter(readings.values()))
            joined = replace(_since(any_one, any_one), started_s=at_s, at_s=at_s)
            self._last = dict(readings)
        for name, reading in sorted(readings.items()):
            before = self._last.get(name)
            if before is None and reading.started_s <= joined.at_s:
                # It ran already and was none of ours: what it has counted was never asked of this service's count.
                before = reading
            joined = _plus(joined, _since(reading, before))
            self._last[name] = reading
        self._last = {name: last for name, last in self._last.items() if at_s - last.at_s <= _REMEMBERED_S}
        self._joined = replace(
            joined,
            at_s=at_s,
            waiting=sum(reading.waiting for reading in readings.values()),
            in_flight=sum(reading.in_flight for reading in readings.values()),
        )
        return self._joined


def _since(now: GatewayReading, before: GatewayReading | None) -> GatewayReading:
    """With what was counted after ``before``; with all of it where the gateway has started anew since."""
    if before is None or now.started_s != before.started_s or _runs_back(now, before):
        return now
    return replace(
        now,
        arrivals=now.arrivals - before.arrivals,
        finished=now.finished - before.finished,
        failed=now.failed - before.failed,
        refused=now.refused - before.refused,
        judged=now.judged - before.judged,
        within_slo=now.within_slo - before.within_slo,
        ttft=_observed_since(now.ttft, before.ttft),
        itl=_observed_since(now.itl, before.itl),
        e2e=_observed_since(now.e2e, before.e2e),
    )


def _runs_back(now: GatewayReading, before: GatewayReading) -> bool:
    return (
        now.arrivals < before.arrivals
        or now.finished < before.finished
        or now.failed < before.failed
        or now.refused < before.refused
        or now.judged < before.judged
        or now.within_slo < before.within_slo
    )


def _observed_since(now: Histogram, before: Histogram) -> Histogram:
    """A gateway whose thresholds are changed begins its histograms anew."""
    if now.bounds != before.bounds or now.count < before.count:
        return now
    counts = tuple([after - earlier for after, earlier in zip(now.counts, before.counts, strict=True)])
    rising = [0.0, *counts, now.count - before.count]
    if rising != sorted(rising):  # its parts contradict one another: nothing is learned of it
        return Histogram(now.bounds, (0.0,) * len(counts), 0.0, 0.0)
    return Histogram(now.bounds, counts, now.count - before.count, max(0.0, now.total - before.total))


def _plus(joined: GatewayReading, more: GatewayReading) -> GatewayReading:
    return replace(
        joined,
        arrivals=joined.arrivals + more.arrivals,
        finished=joined.finished + more.finished,
        failed=joined.failed + more.failed,
        refused=joined.refused + more.refused,
        judged=joined.judged + more.judged,
        within_slo=joined.within_slo + more.within_slo,
        ttft=_together(joined.ttft, more.ttft),
        itl=_together(joined.itl, more.itl),
        e2e=_together(joined.e2e, more.e2e),
    )


def _together(joined: Histogram, more: Histogram) -> Histogram:
    """Of other bounds, the newer ones are gone on with, from nothing: buckets can't be split."""
    both = joined.plus(more)
    return both if isinstance(both, Histogram) else more
