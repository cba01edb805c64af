"""The truth of a page -> what a reader of that engine's text page would have made of it.

Rules as in the engines' own tables: vLLM's arrivals are waiting + max(first tokens, completed + running), Triton's are
completed + pending. A test parses text pages with the same numbers and compares.
"""

from __future__ import annotations

from adapters.simulation.serving import BucketCounts, GatewayPage, ReplicaPage
from autoscaler.domain.reading import (
    EngineReading,
    GatewayReading,
    Histogram,
    MaybeHistogram,
    Measured,
    Unknown,
    UnknownReason,
)
from autoscaler.domain.service import Engine

NEVER = Unknown(UnknownReason.NOT_EXPORTED, "this engine exports no such signal")
_NOTHING = Histogram((), (), 0.0, 0.0)


def token_reading(page: ReplicaPage, *, replica: str, at_s: float, started_s: float, alive_s: float) -> EngineReading:
    """Of an engine that makes tokens, as vLLM's page tells it. ``alive_s``: what moves while the process lives.

    Made for every replica at every tick, which is most of what a simulated world costs: nothing is called for twice.
    """
    waiting, running, completed = float(page.waiting), float(page.running), float(page.completed)
    known = completed + running
    used, capacity = page.kv_used_tokens, page.kv_capacity_tokens
    return EngineReading(
        replica=replica,
        at_s=at_s,
        engine=Engine.VLLM,
        started_s=started_s,
        asleep=False,
        waiting=waiting,
        running=running,
        kv_fraction=used / capacity if used is not None and capacity else NEVER,
        kv_capacity_tokens=NEVER if capacity is None else float(capacity),
        completed=completed,
        refused=0.0,
        preemptions=NEVER if page.preemptions is None else float(page.preemptions),
        prompt_tokens=NEVER if page.prompt_tokens is None else float(page.prompt_tokens),
        generation_tokens=NEVER if page.generation_tokens is None else float(page.generation_tokens),
        arrivals_stock=waiting + (known if page.first_tokens is None else max(page.first_tokens, known)),
        ttft=NEVER if page.ttft is None else page.ttft.histogram(),
        itl=NEVER if page.itl is None else page.itl.histogram(),
        e2e=NEVER if page.e2e is None else page.e2e.histogram(),
        queue_time=NEVER if page.queue_time is None else page.queue_time.histogram(),
        prompt_length=NEVER if page.prompt_length is None else page.prompt_length.histogram(),
        output_length=NEVER if page.output_length is None else page.output_length.histogram(),
        heartbeat=alive_s,
        kv_block_tokens=NEVER if capacity is None else 1.0,
        request_itl=NEVER if page.request_itl is None else page.request_itl.histogram(),
    )


def batch_reading(page: ReplicaPage, *, replica: str, at_s: float, alive_s: float) -> EngineReading:
    """Of a batch server, as Triton's page tells it: sums without buckets, and no gauge of what runs."""
    completed, pending = float(page.completed), float(page.waiting)
    return EngineReading(
        replica=replica,
        at_s=at_s,
        engine=Engine.TRITON,
        started_s=NEVER,
        asleep=False,
        waiting=pending,
        running=NEVER,
        kv_fraction=NEVER,
        kv_capacity_tokens=NEVER,
        completed=completed,
        refused=0.0,
        preemptions=NEVER,
        prompt_tokens=NEVER,
        generation_tokens=NEVER,
        arrivals_stock=completed + pending,
        ttft=NEVER,
        itl=NEVER,
        e2e=_sums(page.e2e),
        queue_time=_sums(page.queue_time),
        prompt_length=NEVER,
        output_length=NEVER,
        pending=pending,
        heartbeat=alive_s,
        exec_count=_number(page.exec_count),
        exec_items=_number(page.exec_items),
        exec_sum_s=_number(page.exec_sum_s),
    )


def gateway_reading(page: GatewayPage, *, service: str, at_s: float, started_s: float) -> GatewayReading:
    """As the gateway in front of a service tells it."""
    return GatewayReading(
        service=service,
        at_s=at_s,
        started_s=started_s,
        arrivals=float(page.arrivals),
        finished=float(page.finished),
        failed=float(page.failed),
        refused=float(page.refused),
        waiting=float(page.waiting),
        in_flight=float(page.in_flight),
        judged=float(page.judged),
        within_slo=float(page.within_slo),
        ttft=_NOTHING if page.ttft is None else page.ttft.histogram(),
        itl=_NOTHING if page.itl is None else page.itl.histogram(),
        e2e=page.e2e.histogram(),
    )


def _number(value: float | None) -> Measured:
    return NEVER if value is None else float(value)


def _sums(counts: BucketCounts | None) -> MaybeHistogram:
    return NEVER if counts is None else Histogram((), (), float(counts.count), counts.total)
