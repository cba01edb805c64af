"""A page looked at again and again, with what happened in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from adapters.engines.reading_report import PageReport, SignalReport
from adapters.engines.report_rates import rates_between

if TYPE_CHECKING:
    from autoscaler.ports import Clock


def watched(
    look: Callable[[], PageReport], *, every_s: float, clock: Clock
) -> Iterator[tuple[PageReport, tuple[SignalReport, ...]]]:
    """For ever, each ``every_s`` seconds: what the page says, and the rates since the last look (none at the first)."""
    before, before_s = look(), clock.now_s()
    yield before, ()
    while True:
        clock.wait_until(before_s + every_s)
        after, after_s = look(), clock.now_s()
        yield after, rates_between(before, after, span_s=max(after_s - before_s, 1e-3))
        before, before_s = after, after_s
