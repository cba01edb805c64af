"""An open loop: each request leaves at its time, however slow the answers to the earlier ones are.

A closed loop (so many users, each waiting for its answer) offers less load when the service slows down, and
so hides the very overload that an autoscaler must meet.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import gevent
from gevent.pool import Group

from loadtests.arrivals import Arrivals
from loadtests.client import Measuring, PlannedRequest
from loadtests.records import RequestRecord


def offer(arrivals: Arrivals, *, target: Measuring, drain_s: float, on_record: Callable[[RequestRecord], None]) -> None:
    """Send every request of the plan at its time; call ``on_record`` as each one ends, in the order of the
    ends.

    Returns when all have ended, or ``drain_s`` seconds after the plan's end; those then still under way are
    given up and recorded as unfinished.
    """
    begin_s = time.monotonic()
    under_way = Group()

    def send(request: PlannedRequest) -> None:
        on_record(target.measure(request, begin_s=begin_s))

    for number, (due_s, prompt, output) in enumerate(
        zip(arrivals.at_s.tolist(), arrivals.prompt_tokens.tolist(), arrivals.output_tokens.tolist(), strict=True)
    ):
        gevent.sleep(max(0.0, begin_s + due_s - time.monotonic()))
        under_way.spawn(send, PlannedRequest(number=number, due_s=due_s, prompt_tokens=prompt, output_tokens=output))
    gevent.sleep(max(0.0, begin_s + arrivals.duration_s - time.monotonic()))
    under_way.join(timeout=drain_s)
    under_way.kill(block=True)
