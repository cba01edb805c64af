"""The five methods of KEDA's external scaler.

KEDA asks for GetMetricSpec, GetMetrics and IsActive at each poll and each time that the HPA reads the metric
(``pkg/scalers/external_scaler.go``), and takes an error of one for an error of the scaler, which holds the replicas.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, contextmanager, suppress
from typing import TypeAlias, TypeVar

import grpc
import grpc.aio

from adapters.serving.keda.changes import Changes
from adapters.serving.keda.trigger import MetadataError, Trigger, trigger_of
from adapters.serving.keda.wire import (
    SERVICE,
    MalformedError,
    MetricSpec,
    MetricsRequest,
    MetricValue,
    ScaledObjectRef,
    read_metrics_request,
    read_scaled_object,
    write_activity,
    write_spec,
    write_value,
)
from adapters.serving.published import NoNumber, Withheld, activity_of, number_of
from autoscaler.ports import Publications

Request = TypeVar("Request")
Answer = TypeVar("Answer")
Context: TypeAlias = "grpc.aio.ServicerContext[bytes, bytes]"
Handler: TypeAlias = "grpc.RpcMethodHandler[bytes, bytes]"

_CODES = {
    Withheld.NOT_LOADED: grpc.StatusCode.UNAVAILABLE,
    Withheld.UNKNOWN_SERVICE: grpc.StatusCode.NOT_FOUND,
    Withheld.UNKNOWN_METRIC: grpc.StatusCode.NOT_FOUND,
    Withheld.UNKNOWN_VARIANT: grpc.StatusCode.NOT_FOUND,
    Withheld.STALE: grpc.StatusCode.FAILED_PRECONDITION,
    Withheld.UNKNOWN_VALUE: grpc.StatusCode.FAILED_PRECONDITION,
}


class RefusedCallError(Exception):
    """A call that ends with this status."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(details)
        self.code = code
        self.details = details


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

    def is_active(self, scaled_object: ScaledObjectRef) -> bool:
        """Whether a replica is wanted. Raises RefusedCallError."""
        active = self._activity(_trigger(scaled_object))
        if isinstance(active, NoNumber):
            raise _refused(active)
        return active

    def get_metric_spec(self, scaled_object: ScaledObjectRef) -> MetricSpec:
        """From the metadata alone. Raises RefusedCallError."""
        return _trigger(scaled_object).spec

    def get_metrics(self, request: MetricsRequest) -> MetricValue:
        """The number that the metadata asks for. Raises RefusedCallError."""
        question = _trigger(request.scaled_object).question
        if request.metric not in ("", question.metric):
            raise RefusedCallError(
                grpc.StatusCode.INVALID_ARGUMENT,
                f"metricName: must be {question.metric}, as the trigger's metadata says, got {request.metric!r}",
            )
        value = number_of(self._publications, question, now_s=self._now_s())
        if isinstance(value, NoNumber):
            raise _refused(value)
        return MetricValue(metric=question.metric, value=value)

    async def stream_is_active(self, scaled_object: ScaledObjectRef) -> AsyncGenerator[bool, None]:
        """Activity at once, after each change of it, and every ``repeat_s``. Raises RefusedCallError at the start.

        While it is not known nothing is sent: KEDA waits ever longer before it opens a stream again that failed, and
        would miss the first request after that. Its polls tell it the error.
        """
        trigger = _trigger(scaled_object)
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

    async def stream_metric_spec(self, scaled_object: ScaledObjectRef) -> AsyncGenerator[MetricSpec, None]:
        """The spec once, which can't change while the metadata don't. Raises RefusedCallError at the start."""
        trigger = _trigger(scaled_object)
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
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"{self._max_streams} streams are open already; use triggers of type external, which poll",
            )
        self._streams += 1
        try:
            yield
        finally:
            self._streams -= 1


def handlers_of(scaler: ExternalScaler) -> grpc.GenericRpcHandler:
    """The scaler as gRPC calls it, from bytes to bytes."""
    return grpc.method_handlers_generic_handler(
        SERVICE,
        {
            "IsActive": _answering(read_scaled_object, scaler.is_active, write_activity),
            "StreamIsActive": _streaming(read_scaled_object, scaler.stream_is_active, write_activity),
            "GetMetricSpec": _answering(read_scaled_object, scaler.get_metric_spec, write_spec),
            "StreamMetricSpec": _streaming(read_scaled_object, scaler.stream_metric_spec, write_spec),
            "GetMetrics": _answering(read_metrics_request, scaler.get_metrics, write_value),
        },
    )


def _answering(
    read: Callable[[bytes], Request], method: Callable[[Request], Answer], write: Callable[[Answer], bytes]
) -> Handler:
    async def call(data: bytes, context: Context) -> bytes:
        try:
            return write(method(read(data)))
        except MalformedError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except RefusedCallError as error:
            await context.abort(error.code, error.details)

    return grpc.unary_unary_rpc_method_handler(call)


def _streaming(
    read: Callable[[bytes], Request],
    method: Callable[[Request], AsyncGenerator[Answer, None]],
    write: Callable[[Answer], bytes],
) -> Handler:
    async def call(data: bytes, context: Context) -> AsyncIterator[bytes]:
        try:
            async with aclosing(method(read(data))) as answers:
                async for each in answers:
                    yield write(each)
        except MalformedError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except RefusedCallError as error:
            await context.abort(error.code, error.details)

    return grpc.unary_stream_rpc_method_handler(call)


def _trigger(scaled_object: ScaledObjectRef) -> Trigger:
    try:
        return trigger_of(scaled_object)
    except MetadataError as error:
        raise RefusedCallError(grpc.StatusCode.INVALID_ARGUMENT, f"trigger metadata: {error}") from error


def _refused(answer: NoNumber) -> RefusedCallError:
    return RefusedCallError(_CODES[answer.reason], answer.message)


async def _within(event: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
