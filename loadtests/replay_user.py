"""A locust user that offers a whole plan open loop and reports each request through locust's events.

locust patches the standard library for gevent when it is imported, so only the entries of load processes
import this.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from locust import User, task
from locust.env import Environment
from locust.exception import StopUser

from loadtests.arrivals import Arrivals
from loadtests.client import Measuring
from loadtests.openloop import offer
from loadtests.records import Outcome, RequestRecord


class NotFinishedError(Exception):
    """What locust's statistics show for a request that was refused or not finished."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayLoad:
    """What a ``ReplayUser`` sends. ``on_begin``: called at its first moment, ``on_record`` as each request
    ends, ``on_end`` after the last one.
    """

    arrivals: Arrivals
    target: Measuring
    drain_s: float
    on_begin: Callable[[], None]
    on_record: Callable[[RequestRecord], None]
    on_end: Callable[[], None]


class ReplayUser(User):
    """Sends ``load`` once. A subclass sets it before locust starts its single user."""

    abstract = True
    fixed_count = 1
    load: ClassVar[ReplayLoad]

    @task
    def replay(self) -> None:
        """Offer the plan, then stop this user."""
        load = self.load

        def ended(record: RequestRecord) -> None:
            report(self.environment, load.target, record)
            load.on_record(record)

        load.on_begin()
        offer(load.arrivals, target=load.target, drain_s=load.drain_s, on_record=ended)
        load.on_end()
        raise StopUser


def report(environment: Environment, target: Measuring, record: RequestRecord) -> None:
    """Fire locust's ``request`` event: once for the whole request, once for TTFT, once for its mean ITL.

    The record travels in the event's context under "record", for listeners of users' own.
    """

    def fire(kind: str, seconds: float, error: Exception | None) -> None:
        environment.events.request.fire(  # type: ignore[no-untyped-call]
            request_type=kind,
            name=target.path,
            response_time=seconds * 1e3,
            response_length=record.output_tokens,
            response=None,
            context={"record": record},
            exception=error,
            start_time=time.time() - record.e2e_s,
            url=target.url + target.path,
        )

    finished = record.outcome is Outcome.FINISHED
    fire("POST", record.e2e_s, None if finished else NotFinishedError(record.error))
    if record.ttft_s is not None:
        fire("TTFT", record.ttft_s, None)
    if record.itl_s is not None:
        fire("ITL", record.itl_s, None)
