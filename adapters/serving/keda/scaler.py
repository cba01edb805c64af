"""The five methods of KEDA's external scaler.

KEDA asks for GetMetricSpec, GetMetrics and IsActive at each poll and each time that the HPA reads the metric
(``pkg/scalers/external_scaler.go``), and takes an error of one for an error of the scaler, which holds the replicas.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from adapters.serving.keda.calls import Calls, RefusedCallError, Status
from adapters.serving.keda.changes import Changes
from adapters.serving.keda.trigger import MetadataError, Trigger, trigger_of
from adapters.serving.keda.wire import (
    SERVICE,
    MalformedError,
    MetricSpec,
    MetricValue,
    read_metrics_request,
    read_scaled_object,
    write_activity,
    write_spec,
    write_value,
)
from adapters.serving.published import NoNumber, Withheld, activity_of, number_of
from autoscaler.ports import Publications

Read = TypeVar("Read")
Answer = TypeVar("Answer")

# KEDA asks the same again and again, so what was asked is read once.
_MOST_REMEMBERED = 4096
_MOST_REMEMBERED_BYTES = 1024
_CODES = {
    Withheld.NOT_LOADED: Status.UNAVAILABLE,
    Withheld.UNKNOWN_SERVICE: Status.NOT_FOUND,
    Withheld.UNKNOWN_METRIC: Status.NOT_FOUND,
    Withheld.UNKNOWN_VARIANT: Status.NOT_FOUND,
    Withheld.STALE: Status.FAILED_PRECONDITION,
    Withheld.UNKNOWN_VALUE: Status.FAILED_PRECONDITION,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a GetMetrics asks: the trigger, and which metric of it."""

    trigger: Trigger
    metric: str


class ExternalScaler:
    """Answers from memory; all methods run in the loop of ``changes``.

    ``repeat_s``: an open stream repeats what it said after so long. ``max_streams``: so many may be open.
    """

    def __init__(
        self,
        publications: Publications,
        *,
        changes: Changes,
        now_s: Callable[[], float],
        repeat_s: float,
        max_streams: int,
    ) -> None:
        self._publications = publications
        self._changes = changes
        self._now_s = now_s
        self._repeat_s = repeat_s
        self._max_streams = max_streams
        self._streams = 0

    def is_active(self, trigger: Trigger) -> bool:
        """Whether a replica is wanted. Raises RefusedCallError."""
        active = self._activity(trigger)
        if isinstance(active, NoNumber):
            raise _refused(active)
        return active

    def get_metric_spec(self, trigger: Trigger) -> MetricSpec:
        """From the metadata alone."""
        return trigger.spec

    def get_metrics(self, asked: Asked) -> MetricValue:
        """The number that the metadata asks for. Raises RefusedCallError."""
        question = asked.trigger.question
        if asked.metric not in ("", question.metric):
            raise RefusedCallError(
                Status.INVALID_ARGUMENT,
                f"metricName: must be {question.metric}, as the trigger's metadata says, got {asked.metric!r}",
            )
        value = number_of(self._publications, question, now_s=self._now_s())
        if isinstance(value, NoNumber):
            raise _refused(value)
        return MetricValue(metric=question.metric, value=value)

    async def stream_is_active(self, trigger: Trigger) -> AsyncGenerator[bool, None]:
        """Activity at once, after each change of it, and every ``repeat_s``. Raises RefusedCallError at the start.

        While it is not known nothing is sent: KEDA waits ever longer before it opens a stream again that failed, and
        would miss the first request after that. Its polls tell it the error.
        """
        clock = asyncio.get_running_loop().time
        with self._stream():
            sent, repeat_at_s = None, 0.0
            while not self._changes.closed:
                changed = self._changes.next()
                active = self._activity(trigger)
                if not isinstance(active, NoNumber) and (active is not sent or clock() >= repeat_at_s):
                    yield active
                    sent, repeat_at_s = active, clock() + self._repeat_s
                await _within(changed, max(0.0, repeat_at_s - clock()) if sent is not None else self._repeat_s)

    async def stream_metric_spec(self, trigger: Trigger) -> AsyncGenerator[MetricSpec, None]:
        """The spec once, which can't change while the metadata don't. Raises RefusedCallError at the start."""
        with self._stream():
            yield trigger.spec
            while not self._changes.closed:
                await self._changes.next().wait()

    def _activity(self, trigger: Trigger) -> bool | NoNumber:
        return activity_of(self._publications, trigger.question, now_s=self._now_s())

    @contextmanager
    def _stream(self) -> Iterator[None]:
        if self._streams >= self._max_streams:
            raise RefusedCallError(
                Status.RESOURCE_EXHAUSTED,
                f"{self._max_streams} streams are open already; use triggers of type external, which poll",
            )
        self._streams += 1
        try:
            yield
        finally:
            self._streams -= 1


def calls_of(scaler: ExternalScaler) -> Calls:
    """The scaler's methods, from bytes to bytes."""
    trigger, asked = _remembering(_trigger), _remembering(_asked)
    value = lru_cache(_MOST_REMEMBERED)(write_value)
    return Calls(
        SERVICE,
        unary={
            "IsActive": lambda data: write_activity(scaler.is_active(trigger(data))),
            "GetMetricSpec": lambda data: write_spec(scaler.get_metric_spec(trigger(data))),
            "GetMetrics": lambda data: value(scaler.get_metrics(asked(data))),
        },
        streaming={
            "StreamIsActive": lambda data: _written(scaler.stream_is_active(trigger(data)), write_activity),
            "StreamMetricSpec": lambda data: _written(scaler.stream_metric_spec(trigger(data)), write_spec),
        },
    )


def _remembering(read: Callable[[bytes], Read]) -> Callable[[bytes], Read]:
    """Reads what is short once, while it is among the latest."""
    remembered = lru_cache(_MOST_REMEMBERED)(read)
    return lambda data: remembered(data) if len(data) <= _MOST_REMEMBERED_BYTES else read(data)


async def _written(
    answers: AsyncGenerator[Answer, None], write: Callable[[Answer], bytes]
) -> AsyncGenerator[bytes, None]:
    async with aclosing(answers):
        async for each in answers:
            yield write(each)


def _trigger(data: bytes) -> Trigger:
    """Raises RefusedCallError."""
    try:
        return trigger_of(read_scaled_object(data))
    except MalformedError as error:
        raise RefusedCallError(Status.INVALID_ARGUMENT, str(error)) from error
    except MetadataError as error:
        raise RefusedCallError(Status.INVALID_ARGUMENT, f"trigger metadata: {error}") from error


def _asked(data: bytes) -> Asked:
    """Raises RefusedCallError."""
    try:
        request = read_metrics_request(data)
        return Asked(trigger=trigger_of(request.scaled_object), metric=request.metric)
    except MalformedError as error:
        raise RefusedCallError(Status.INVALID_ARGUMENT, str(error)) from error
    except MetadataError as error:
        raise RefusedCallError(Status.INVALID_ARGUMENT, f"trigger metadata: {error}") from error


def _refused(answer: NoNumber) -> RefusedCallError:
    return RefusedCallError(_CODES[answer.reason], answer.message)


async def _within(event: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
