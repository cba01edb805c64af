"""What one replica did since it was last observed: reset-safe differences, and whether it makes progress."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from autoscaler.domain.cluster import Replica
from autoscaler.domain.params import Params
from autoscaler.domain.reading import (
    EngineReading,
    Histogram,
    MaybeHistogram,
    Measured,
    Unknown,
    UnknownReason,
    is_known,
)
from autoscaler.domain.state import BatchLoad, ReplicaTrack

# Requests a second: no replica takes so many, whatever its page says.
_MOST_RPS = 1e6


class Sums(NamedTuple):
    """Observations of a histogram by their number and their total."""

    number: float
    total: float


class Progress(NamedTuple):
    """Differences over ``span_s`` between two pages of one replica.

    None for a signal that the engine does not show. ``earlier`` None: the differences are from the engine's zero.
    """

    span_s: float
    arrivals: float
    completed: float | None
    prompt_tokens: float | None
    generation_tokens: float | None
    ttft: Sums | None
    itl: Sums | None
    e2e: Sums | None
    batches: BatchLoad | None
    reading: EngineReading
    earlier: EngineReading | None

    @property
    def first_tokens(self) -> float | None:
        """Requests that got their first token."""
        return None if self.ttft is None else self.ttft.number


def restarted(reading: EngineReading, earlier: EngineReading) -> bool:
    """The engine says that it started anew in between: its counters began at zero again."""
    return is_known(reading.started_s) and is_known(earlier.started_s) and reading.started_s > earlier.started_s + 1


def progress(reading: EngineReading, earlier: EngineReading | None, *, since_s: float) -> Progress | Unknown:
    """Differences between two pages of one replica.

    ``earlier`` None: from the engine's start (all counters zero), which was at ``since_s``. Where the engine
    restarted in between, what it counts now came after the restart. Unknown where arrivals can't be told, where they
    are beyond any replica's, and where a counter ran back without a restart: an engine's lifetime total must not pass
    for one tick's arrivals.
    """
    if isinstance(reading.arrivals_stock, Unknown):
        return reading.arrivals_stock
    if earlier is not None and restarted(reading, earlier):
        since_s, earlier = earlier.at_s, None
    before = earlier.arrivals_stock if earlier is not None else 0.0
    if isinstance(before, Unknown):
        return before
    completed = _change(reading.completed, earlier.completed if earlier else 0.0)
    prompt_tokens = _change(reading.prompt_tokens, earlier.prompt_tokens if earlier else 0.0)
    generation_tokens = _change(reading.generation_tokens, earlier.generation_tokens if earlier else 0.0)
    ran_back = (completed or 0.0) < 0 or (prompt_tokens or 0.0) < 0 or (generation_tokens or 0.0) < 0
    if ran_back or (earlier is not None and _counts_fewer(reading.ttft, earlier.ttft)):
        # a restart that the page does not tell, or a page that lacks a part
        return Unknown(UnknownReason.RESET, "a counter ran back; counting begins anew at this page")
    span_s = reading.at_s - since_s
    if span_s <= 0:
        return Unknown(UnknownReason.STALE, "no new page since the last tick")
    arrivals = reading.arrivals_stock - before
    if arrivals > _MOST_RPS * max(1.0, span_s):
        told = f"{arrivals:g} arrivals in {span_s:.3g} s are beyond any replica"
        return Unknown(UnknownReason.OUT_OF_RANGE, f"{told}; counting begins anew at this page")

    then = earlier
    return Progress(
        span_s=span_s,
        arrivals=arrivals,
        completed=completed,
        prompt_tokens=prompt_tokens,
        generation_tokens=generation_tokens,
        ttft=sums_since(reading.ttft, then.ttft if then else None),
        itl=sums_since(reading.itl, then.itl if then else None),
        e2e=sums_since(reading.e2e, then.e2e if then else None),
        batches=_batches(reading, then) if not isinstance(reading.exec_count, Unknown) else None,
        reading=reading,
        earlier=then,
    )


def _batches(now: EngineReading, then: EngineReading | None) -> BatchLoad | None:
    """None as well where one of its parts ran back: the others would mislead."""
    executions = _change(now.exec_count, then.exec_count if then else 0.0)
    items = _change(now.exec_items, then.exec_items if then else 0.0)
    requests = _change(now.completed, then.completed if then else 0.0)
    exec_sum_s = _change(now.exec_sum_s, then.exec_sum_s if then else 0.0)
    exec_time_s = _change(now.exec_time_s, then.exec_time_s if then else 0.0)
    if executions is None or items is None or requests is None or exec_sum_s is None:
        return None
    if min(executions, items, requests, exec_sum_s, exec_time_s or 0.0) < 0:
        return None
    return BatchLoad(
        executions=executions, items=items, requests=requests, exec_sum_s=exec_sum_s, exec_time_s=exec_time_s
    )


def sums_since(now: MaybeHistogram, then: MaybeHistogram | None) -> Sums | None:
    """Number and total of a histogram's new observations; None where it is not shown, or ran back."""
    if isinstance(now, Unknown) or isinstance(then, Unknown):
        return None
    count, total = now.count, now.total
    if then is None:
        return Sums(count, total)
    before = then.count
    return Sums(count - before, total - then.total) if count >= before else None


def share_since(now: MaybeHistogram, then: MaybeHistogram | None, new: Sums | None, threshold: float) -> float | None:
    """Share of a histogram's ``new`` observations at or below ``threshold``; None where there are none, or it ran back.

    What lies below a threshold is linear in the counts, so it is taken of each page and subtracted. None as well
    where the histogram has no buckets: a count and a sum have no shares.
    """
    if new is None or new.number <= 0 or isinstance(now, Unknown) or isinstance(then, Unknown) or not now.bounds:
        return None
    if then is None:
        within = now.within(threshold)
    elif then.bounds == now.bounds:
        within = now.within_since(then, threshold)
    else:
        return None
    return min(1.0, max(0.0, within / new.number))


def _change(now: Measured, then: Measured) -> float | None:
    return None if isinstance(now, Unknown) or isinstance(then, Unknown) else now - then


def _gained(now: Measured, then: Measured | None) -> float | None:
    if isinstance(now, Unknown) or isinstance(then, Unknown):
        return None
    return max(0.0, now - (then or 0.0))


def observe(
    replica: Replica,
    reading: EngineReading | Unknown | None,
    track: ReplicaTrack | None,
    *,
    now_s: float,
    params: Params,
) -> tuple[ReplicaTrack | None, Progress | Unknown]:
    """Take in one replica's page: its new track, and what it did since the last one.

    Without a usable page the old track stays, marked unobserved since now. A replica seen for the first time
    counts from its engine's zero if it became ready within the stable window, else only from the next page on.
    """
    if track is not None and track.reading.at_s > now_s:  # kept by a run whose clock was ahead
        track = None
    if reading is None:
        reading = Unknown(UnknownReason.UNREACHABLE, "no page")
    if isinstance(reading, Unknown):
        return _unobserved(track, now_s), reading
    alive_s = _alive_s(reading, track)
    useless = _useless(reading, alive_s, now_s=now_s, params=params)
    if useless is not None:
        return _unobserved(track, now_s), useless
    if track is None:
        young = replica.ready_s is not None and now_s - replica.ready_s <= params.stable_window_s
        done: Progress | Unknown
        if young and replica.ready_s is not None:
            done = progress(reading, None, since_s=min(replica.ready_s, reading.at_s - 1e-3))
        else:
            done = Unknown(UnknownReason.WARMING_UP, "first page of this replica")
        rate = max(0.0, done.arrivals / done.span_s) if isinstance(done, Progress) else 0.0
        return ReplicaTrack(reading=reading, rate_rps=rate, alive_s=alive_s), done
    done = progress(reading, track.reading, since_s=track.reading.at_s)
    stands_still = isinstance(done, Progress) and _stands_still(reading, done, alive_s)
    if stands_still:
        track = replace(track, flat_since_s=track.flat_since_s or track.reading.at_s)
        done = Unknown(UnknownReason.STALE, "requests are in it, and nothing on the page has moved since the last one")
    if isinstance(done, Unknown):
        if stands_still or reading.at_s <= track.reading.at_s:
            return _unobserved(track, now_s), done
        return ReplicaTrack(reading=reading, rate_rps=track.rate_rps, alive_s=alive_s), done
    flat_since_s = (track.flat_since_s or track.reading.at_s) if _flat(reading, done) else None
    return (
        ReplicaTrack(
            reading=reading,
            rate_rps=max(0.0, done.arrivals / done.span_s),
            flat_since_s=flat_since_s,
            alive_s=alive_s,
        ),
        done,
    )


def _useless(reading: EngineReading, alive_s: float | None, *, now_s: float, params: Params) -> Unknown | None:
    """Why the page says nothing: it is old, it tells no arrivals, or it never changes; None where it does."""
    if now_s - reading.at_s > params.stale_after_s:
        return Unknown(UnknownReason.STALE, f"the page is {now_s - reading.at_s:.0f} s old")
    if isinstance(reading.arrivals_stock, Unknown):
        return reading.arrivals_stock
    if alive_s is not None and reading.at_s - alive_s >= params.frozen_after_s:
        still_s = reading.at_s - alive_s
        return Unknown(UnknownReason.STALE, f"the page has been the same to the last digit for {still_s:.0f} s")
    return None


def _alive_s(reading: EngineReading, track: ReplicaTrack | None) -> float | None:
    """When the page was last seen to be made anew, None where nothing on it tells."""
    if isinstance(reading.heartbeat, Unknown):
        return None
    if track is None or track.alive_s is None or reading.heartbeat != track.reading.heartbeat:
        return reading.at_s
    return track.alive_s


def _stands_still(reading: EngineReading, done: Progress, alive_s: float | None) -> bool:
    """It has work, so its process can't have used no time at all: the page is an old one that bears a new time."""
    return alive_s is not None and alive_s < reading.at_s and done.arrivals == 0 and _flat(reading, done)


def is_stuck(track: ReplicaTrack | None, *, now_s: float, params: Params) -> bool:
    """Work but no progress for long: no capacity, and its queue is no measure of demand."""
    return (
        track is not None
        and track.flat_since_s is not None
        and now_s - track.flat_since_s >= max(params.stuck_after_s, 3 * params.interval_s)
    )


def _unobserved(track: ReplicaTrack | None, now_s: float) -> ReplicaTrack | None:
    if track is None or track.unobserved_since_s is not None:
        return track
    return replace(track, unobserved_since_s=now_s)


def _flat(reading: EngineReading, done: Progress) -> bool:
    """Requests are there, and neither a token nor a request came out since the last page, nor was a step made."""
    if done.generation_tokens or done.completed or done.first_tokens or (done.itl is not None and done.itl.number):
        return False
    steps = _gained(reading.steps, done.earlier.steps if done.earlier else None)
    signs = (done.generation_tokens, done.completed, done.ttft, done.itl, steps)
    if steps or all(sign is None for sign in signs):
        return False
    return sum(value for value in (reading.waiting, reading.running) if is_known(value)) > 0


def _counts_fewer(now: MaybeHistogram, then: MaybeHistogram) -> bool:
    return isinstance(now, Histogram) and isinstance(then, Histogram) and now.count < then.count
