"""NVIDIA Dynamo's front end: what a whole deployment is asked, seen where the requests come in.

Names: ``lib/runtime/src/metrics/prometheus_names.rs`` and ``lib/llm/src/http/service/metrics.rs`` of
ai-dynamo/dynamo. ``inflight_requests`` holds a request from its receipt to its end, ``queued_requests`` from its
receipt to its first token; ``requests_total`` counts it at its end. Series of a model come with its first request.
Workers speak of themselves on another port, in their engine's names.
"""

from __future__ import annotations

from collections.abc import Mapping

from adapters.engines.balance import balance
from adapters.engines.signals import Derived, EngineTable, counter, gauge, histogram
from autoscaler.domain.reading import MaybeHistogram, Measured, Unknown
from autoscaler.domain.service import Engine

_IN_BALANCE = ("completed", "in_flight")


def arrivals_stock(scalars: Mapping[str, Measured], _: Mapping[str, MaybeHistogram]) -> Measured:
    """completed + in flight: a request is counted at its end, and held by the gauge from its receipt until then.

    10000 ended and 12 in flight: 10012 have come, failed and cancelled ones included.
    """
    return balance(scalars, _IN_BALANCE)


def running(scalars: Mapping[str, Measured]) -> Measured:
    """Requests past their first token: in flight without the queued. The two gauges are not read at one instant."""
    in_flight, waiting = scalars["in_flight"], scalars["waiting"]
    if isinstance(in_flight, Unknown):
        return in_flight
    return waiting if isinstance(waiting, Unknown) else max(0.0, in_flight - waiting)


DYNAMO = EngineTable(
    engine=Engine.DYNAMO,
    title="Dynamo's front end",
    prefixes=("dynamo_frontend_",),
    required=("in_flight",),
    signals=(
        gauge("in_flight", "inflight_requests", first_use=("completed", "waiting")),
        gauge("waiting", "queued_requests", first_use=("completed", "in_flight")),
        counter("completed", "requests_total", first_use=()),
        # A canary that looks every 10 ms how late the event loop is, load or none.
        counter("heartbeat", "event_loop_delay_seconds_count", lacking="newer versions have it"),
        counter("generation_tokens", "output_tokens_total"),
        counter("prompt_tokens", "input_sequence_tokens_sum"),
        histogram("ttft", "time_to_first_token_seconds"),
        histogram("itl", "inter_token_latency_seconds"),
        histogram("e2e", "request_duration_seconds"),
        histogram("prompt_length", "input_sequence_tokens"),
        histogram("output_length", "output_sequence_tokens"),
    ),
    label_signals=(),
    model_labels=("model",),
    repeat_labels=(),
    arrivals=arrivals_stock,
    arrivals_formula="completed + in flight",
    arrivals_of=_IN_BALANCE,
    derived=(Derived(name="running", of=("in_flight", "waiting"), formula="in flight - queued", value=running),),
)
