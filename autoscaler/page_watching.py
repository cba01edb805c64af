"""A page looked at again and again, with what happened in between."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from adapters.engines.reading_report import PageReport, SignalReport
from adapters.engines.report_rates import rates_between


def watched(
    look: Callable[[], PageReport],
    *,
    every_s: float,
    now_s: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> Iterator[tuple[PageReport, tuple[SignalReport, ...]]]:
    """For ever, each ``every_s`` seconds: what the page says, and the rates since the last look (none at the first)."""
    before, before_s = look(), now_s()
    yield before, ()
    while True:
        pause(max(0.0, before_s + every_s - now_s()))
        after, after_s = look(), now_s()
        yield after, rates_between(before, after, span_s=max(after_s - before_s, 1e-3))
        before, before_s = after, after_s
