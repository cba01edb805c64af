"""Triton with the TensorRT-LLM backend (from 23.11): the batch manager's gauges beside Triton's own counters.

Names: "Triton Metrics" in the README of triton-inference-server/tensorrtllm_backend. ``waiting``, ``scheduled`` and
the KV cache's ``fraction`` are what the Gateway API's endpoint picker reads as queue, running and KV use. Before 23.12
Triton's counters stay zero for the model itself while the ensemble around it counts (tensorrtllm_backend#49, #582).
"""

from __future__ import annotations

from collections.abc import Mapping

from adapters.engines.balance import balance
from adapters.engines.signals import MAX_FRACTION, Across, Alias, CountAndSum, EngineTable, counter, gauge
from adapters.engines.triton import HEARTBEAT, MACHINE, MICROSECONDS
from autoscaler.domain.reading import MaybeHistogram, Measured, Unknown, UnknownReason
from autoscaler.domain.service import Engine

_OF_REQUESTS = "request_metrics"
_OF_THE_CACHE = "kv_cache_block_metrics"
_FAILURE = "nv_inference_request_failure"


def arrivals_stock(scalars: Mapping[str, Measured], _: Mapping[str, MaybeHistogram]) -> Measured:
    """completed + failed + waiting + max(scheduled, active): a balance over the request's whole way.

    A request is counted by each step of its ensemble as it leaves it and by the ensemble at its end, so of the models'
    counters the least that isn't zero has completed, not the sum; a failure is one for the step and for the ensemble.
    ``active`` (taken from the queue) holds the scheduled ones, and lags behind them in places. Unknown while requests
    are there and not one was ever counted: counters that stay zero would show no arrivals.

    An ensemble of 140, whose first step counts 153: 140 + 3 failed + 5 waiting + max(8, 9) = 157.
    """
    ended = balance(scalars, ("completed", "failed"))
    inside = balance(scalars, ("waiting", "running"))
    active = scalars["active"]
    if isinstance(ended, Unknown):
        return ended
    if isinstance(inside, Unknown):
        return inside
    running = scalars["running"]
    if not isinstance(active, Unknown) and not isinstance(running, Unknown):
        inside += max(0.0, active - running)
    if inside > 0 and ended == 0:
        return Unknown(
            UnknownReason.CONTRADICTION,
            "requests run, none was ever counted: the first ones, or Triton before 23.12 without an ensemble",
        )
    return ended + inside


def _requests(kind: str) -> Alias:
    return Alias(name=_OF_REQUESTS, only=(("request_type", (kind,)),))


TRITON_TRTLLM = EngineTable(
    engine=Engine.TRITON,
    title="Triton Inference Server with TensorRT-LLM",
    prefixes=("nv_trt_llm_",),
    required=("waiting", "running"),
    signals=(
        gauge("waiting", _requests("waiting"), any_model=True),
        gauge("running", _requests("scheduled"), any_model=True),
        gauge("active", _requests("active"), any_model=True),
        gauge(
            "kv_fraction",
            Alias(name=_OF_THE_CACHE, only=(("kv_cache_block_type", ("fraction",)),)),
            across=Across.MAX,
            upper=MAX_FRACTION,
            any_model=True,
        ),
        counter("completed", Alias(name="nv_inference_request_success", prefixed=False), across=Across.LEAST),
        counter("failed", Alias(name=_FAILURE, prefixed=False), across=Across.MAX),
        counter(
            "refused",
            Alias(name=_FAILURE, prefixed=False, only=(("reason", ("REJECTED",)),)),
            lacking="Triton tells reasons from 24.07",
        ),
        counter("request_us", Alias(name="nv_inference_request_duration_us", prefixed=False), across=Across.MAX),
        counter(
            "steps",
            Alias(name="general_metrics", only=(("general_type", ("iteration_counter",)),)),
            any_model=True,
        ),
        *MACHINE,
    ),
    label_signals=(),
    model_labels=("model",),
    repeat_labels=(),
    arrivals=arrivals_stock,
    arrivals_formula="completed + failed + waiting + max(scheduled, active)",
    arrivals_of=("completed", "failed", "waiting", "running", "active"),
    derived=(HEARTBEAT,),
    sums=(CountAndSum(name="e2e", count="completed", total="request_us", per_s=MICROSECONDS),),
    several_models="completed is what the last of them let go",
    hosts=True,
)
