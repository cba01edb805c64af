"""Sums over the recent past, taken from the increments of single ticks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from autoscaler.domain.state import BatchLoad, Increment, VariantLoad

# Ticks brought forward can be milliseconds long; a rate needs at least this much time.
_SHORTEST_BURST_S = 0.5

# A window counts as full when this share of it is covered: ticks never fall exactly on its edge.
_FULL = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The latest increments that together span a window.

    ``span_s``: what they span. ``arrivals``: never negative. ``full``: they cover the window without a gap.
    ``coverage``: observed share of the replica-seconds, 1 where no replica existed.
    """

    span_s: float
    arrivals: float
    judged: float
    within_slo: float
    coverage: float
    full: bool


def recent(increments: Sequence[Increment], *, now_s: float, window_s: float) -> tuple[Increment, ...]:
    """The increments that end within the window before ``now_s``, oldest first."""
    cut_s = now_s - window_s + 1e-6
    first = len(increments)
    while first > 0 and increments[first - 1].end_s > cut_s:
        first -= 1
    return tuple(increments[first:])


def window(increments: Sequence[Increment], *, now_s: float, window_s: float) -> Window:
    """Sum of the latest increments up to ``window_s``, at least one."""
    within = recent(increments, now_s=now_s, window_s=window_s) or tuple(increments[-1:])
    span_s = arrivals = judged = within_slo = observed_s = live_s = 0.0
    for part in within:
        span_s += part.span_s
        arrivals += part.arrivals
        judged += part.judged
        within_slo += part.within_slo
        observed_s += part.observed_s
        live_s += part.live_s
    newest_s = within[-1].end_s if within else float("-inf")
    covered_s = span_s if newest_s >= now_s - 1e-6 else 0.0
    return Window(
        span_s=span_s,
        arrivals=max(0.0, arrivals),
        judged=judged,
        within_slo=within_slo,
        coverage=1.0 if live_s <= 0 else observed_s / live_s,
        full=covered_s >= _FULL * window_s,
    )


def burst_rps(increments: Sequence[Increment], *, now_s: float, window_s: float) -> float:
    """The highest rate that the latest ticks prove: over each of their last spans, arrivals less two deviations.

    n arrivals deviate by sqrt(D n), D being the index of dispersion of the ticks before the window (1 for a Poisson
    stream, 20 for batches of 20). So chance alone hardly gets there, and a load step shows in its first second or
    two, where the mean over the window needs many.
    """
    latest = recent(increments, now_s=now_s, window_s=window_s)
    if len(latest) < 2:
        return 0.0
    dispersion = _dispersion(increments[: len(increments) - len(latest)])
    highest = span_s = arrivals = 0.0
    for part in reversed(latest):
        span_s += part.span_s
        arrivals += part.arrivals
        if arrivals > 0 and span_s >= _SHORTEST_BURST_S:
            highest = max(highest, (arrivals - 2 * math.sqrt(dispersion * arrivals)) / span_s)
    return highest


def _dispersion(ticks: Sequence[Increment]) -> float:
    """Variance over mean of the ticks' arrivals, at least 1."""
    if len(ticks) < 2:
        return 1.0
    counts = [max(0.0, tick.arrivals) for tick in ticks]
    mean = sum(counts) / len(counts)
    if mean <= 0:
        return 1.0
    return max(1.0, sum((count - mean) ** 2 for count in counts) / (len(counts) - 1) / mean)


def variant_load(increments: Iterable[Increment], variant: str) -> tuple[VariantLoad, float] | None:
    """Sums of one variant's load over the increments, gauges as their time-weighted means, and the time they span.

    None where the variant was not observed in every one of them.
    """
    span_s = arrivals = completed = prompt_tokens = itl_sum_s = itl_count = e2e_sum_s = e2e_count = 0.0
    running_s = waiting_s = replicas_s = kv_tokens_s = kv_empty_s = 0.0
    saturated, executed = True, []
    for part in increments:
        load = next((each for each in part.loads if each.variant == variant), None)
        if load is None:
            return None
        span_s += part.span_s
        arrivals += load.arrivals
        completed += load.completed
        prompt_tokens += load.prompt_tokens
        itl_sum_s += load.itl_sum_s
        itl_count += load.itl_count
        e2e_sum_s += load.e2e_sum_s
        e2e_count += load.e2e_count
        running_s += load.running * part.span_s
        kv_tokens_s += load.kv_tokens * part.span_s
        kv_empty_s += load.kv_empty * part.span_s
        waiting_s += load.waiting * part.span_s
        replicas_s += load.replicas * part.span_s
        saturated = saturated and load.saturated
        executed.append(load.batches)
    if span_s <= 0 or replicas_s <= 0:
        return None
    total = VariantLoad(
        variant=variant,
        replicas=max(1, round(replicas_s / span_s)),
        arrivals=max(0.0, arrivals),
        completed=completed,
        prompt_tokens=prompt_tokens,
        itl_sum_s=itl_sum_s,
        itl_count=itl_count,
        e2e_sum_s=e2e_sum_s,
        e2e_count=e2e_count,
        running=running_s / span_s,
        waiting=waiting_s / span_s,
        saturated=saturated,
        batches=batches(executed),
        kv_tokens=kv_tokens_s / span_s,
        kv_empty=kv_empty_s / span_s,
    )
    return total, span_s


def replica_seconds(increments: Iterable[Increment], variant: str) -> float:
    """How long the observed replicas of one variant were there, together: exact while their number changes."""
    return sum(load.replicas * part.span_s for part in increments for load in part.loads if load.variant == variant)


def batches(parts: Sequence[BatchLoad | None]) -> BatchLoad | None:
    """All executions together; None where they were not told of every part."""
    known = [part for part in parts if part is not None]
    if not known or len(known) < len(parts):
        return None
    times_s = [part.exec_time_s for part in known if part.exec_time_s is not None]
    return BatchLoad(
        exec_time_s=sum(times_s) if len(times_s) == len(known) else None,
        executions=sum(part.executions for part in known),
        items=sum(part.items for part in known),
        requests=sum(part.requests for part in known),
        exec_sum_s=sum(part.exec_sum_s for part in known),
    )
