"""Triton Inference Server's own series: a batch server of any model.

Names: ``docs/user_guide/metrics.md`` of triton-inference-server/server; moments: ``src/infer_stats.cc`` and
``src/metric_model_reporter.cc`` of triton-inference-server/core. All series of a model move when a request has its
response, though the documentation says "received" (server#5927); only the pending gauge (from 23.09) moves before.
Times are sums over requests, in microseconds: each request of a batch adds that batch's whole execution. Counters have
no ``_total``; a model's series come with its loading and go with its unloading.

An ensemble counts a request once for itself and once in each step, and its pending gauge is not to be relied on
(server#6494): name the model that clients call, and its series alone are read.
"""

from __future__ import annotations

from collections.abc import Mapping

from adapters.engines.balance import balance
from adapters.engines.signals import Alias, CountAndSum, Derived, EngineTable, counter, gauge, histogram
from autoscaler.domain.reading import MaybeHistogram, Measured, Unknown, UnknownReason
from autoscaler.domain.service import Engine

MICROSECONDS = 1e6
_IN_BALANCE = ("completed", "failed", "pending")
_OF_THE_MACHINE = ("cpu_share", "memory_bytes")
_EXECUTION = ("input_us", "infer_us", "output_us")
_SWITCHED_OFF = "--allow-cpu-metrics=false?"
MACHINE = (
    gauge("cpu_share", Alias(name="nv_cpu_utilization", prefixed=False), any_model=True, lacking=_SWITCHED_OFF),
    gauge("memory_bytes", Alias(name="nv_cpu_memory_used_bytes", prefixed=False), any_model=True),
)


def arrivals_stock(scalars: Mapping[str, Measured], _: Mapping[str, MaybeHistogram]) -> Measured:
    """completed + failed + pending: a request has its response, or no execution has taken it yet.

    Those in execution are on no gauge. They left ``pending`` when the execution began and come back as completed at
    its end, so an arrival may show one execution late, and the stock dips by a batch meanwhile. Over a window the
    error is the change of the number in execution, at most instances x batch size, and adds up to nothing.
    ``exec_sum_s`` tells their mean number: its growth per second.

    Without the gauge (before 23.09, server#6341) completions alone are left, which are no arrivals: unknown. Nor is
    anything known while requests wait and not one was ever counted, as with ``counter_latencies=false`` in
    ``--metrics-config`` (server#8125).

    A server under 40 callers: 211 + 0 + 32 = 243, and 8 in execution.
    """
    stock = balance(scalars, _IN_BALANCE)
    pending = scalars["pending"]
    if isinstance(stock, Unknown) or isinstance(pending, Unknown):
        return stock
    if pending > 0 and stock == pending:
        detail = "requests wait, none was ever counted: the first ones, or counter_latencies=false?"
        return Unknown(UnknownReason.CONTRADICTION, detail)
    return stock


def exec_sum_s(scalars: Mapping[str, Measured]) -> Measured:
    """Over the finished requests, seconds of the execution that each was part of."""
    total_us = balance(scalars, _EXECUTION)
    return total_us if isinstance(total_us, Unknown) else total_us / MICROSECONDS


def heartbeat(scalars: Mapping[str, Measured]) -> Measured:
    """A number that moves each 2 s (``--metrics-interval-ms``) with the machine's CPU and memory use, load or none.

    Triton counts nothing else without a request: the GPU's energy stands still too where DCGM has failed for a while.
    """
    return balance(scalars, _OF_THE_MACHINE)


HEARTBEAT = Derived(name="heartbeat", of=_OF_THE_MACHINE, formula="CPU share + memory in use", value=heartbeat)

TRITON = EngineTable(
    engine=Engine.TRITON,
    title="Triton Inference Server",
    prefixes=("nv_",),
    required=("completed",),
    signals=(
        gauge("pending", "inference_pending_request_count", lacking="Triton has it from 23.09"),
        counter("completed", "inference_request_success", lacking="no model is loaded?"),
        counter("failed", "inference_request_failure"),
        counter(
            "refused",
            Alias(name="inference_request_failure", only=(("reason", ("REJECTED",)),)),
            lacking="Triton tells reasons from 24.07",
        ),
        counter("exec_count", "inference_exec_count"),
        counter("exec_items", "inference_count"),
        counter("request_us", "inference_request_duration_us"),
        counter("queue_us", "inference_queue_duration_us"),
        counter("input_us", "inference_compute_input_duration_us"),
        counter("infer_us", "inference_compute_infer_duration_us"),
        counter("output_us", "inference_compute_output_duration_us"),
        *MACHINE,
        histogram(
            "ttft",
            "inference_first_response_histogram_ms",
            per_s=1e3,
            lacking="only of decoupled models, with --metrics-config histogram_latencies=true",
        ),
    ),
    label_signals=(),
    model_labels=("model",),
    repeat_labels=(),
    arrivals=arrivals_stock,
    arrivals_formula="completed + failed + pending",
    arrivals_of=_IN_BALANCE,
    derived=(
        Derived(name="waiting", of=("pending",), formula="pending", value=lambda scalars: scalars["pending"]),
        HEARTBEAT,
        Derived(name="exec_sum_s", of=_EXECUTION, formula="input + inference + output times", value=exec_sum_s),
    ),
    sums=(
        CountAndSum(name="queue_time", count="completed", total="queue_us", per_s=MICROSECONDS),
        CountAndSum(name="e2e", count="completed", total="request_us", per_s=MICROSECONDS),
    ),
    several_models="where one calls another, as an ensemble does, name the one that clients call",
    hosts=True,
)
