"""Text Generation Inference, versions 2 and 3.

Names and moments: ``router/src/server.rs``, ``router/src/infer/mod.rs`` and ``backends/v3/src`` of
huggingface/text-generation-inference. No series has a model label, counters have no ``_total``, and each series appears
with its first use: the page of a fresh server holds next to nothing, and means that nothing has happened yet.

``tgi_request_count`` moves at the handler's entry, once for /generate, but twice for each chat completion (and 1 + N
times for a completion of N prompts), since those handlers count and then call one that counts again. It is therefore
not read; successes and failures come once for each generation. Times, lengths and tokens are counted when a request
has finished; between, only the executed batches show that the engine works.
"""

from __future__ import annotations

from collections.abc import Mapping

from adapters.engines.balance import balance
from adapters.engines.signals import (
    MAX_FRACTION,
    Across,
    Alias,
    Derived,
    EngineTable,
    counter,
    gauge,
    histogram,
)
from autoscaler.domain.reading import MaybeHistogram, Measured, Unknown, UnknownReason
from autoscaler.domain.service import Engine

_IN_BALANCE = ("completed", "failed", "waiting", "running")


def arrivals_stock(scalars: Mapping[str, Measured], _: Mapping[str, MaybeHistogram]) -> Measured:
    """completed + failed + waiting + running: a generation has succeeded, has failed, queues, or is in the batch.

    A refused one ("overloaded") has failed at once: it is an arrival too. A server of 100 chat requests of which 60
    are answered, 8 decode, 30 queue and 2 were refused: 60 + 2 + 30 + 8 = 100, while ``tgi_request_count`` says 200.
    """
    return balance(scalars, _IN_BALANCE)


def kv_fraction(scalars: Mapping[str, Measured]) -> Measured:
    """Share of the token budget that the batch has reserved (prompt and all tokens that it may yet generate)."""
    reserved, budget = scalars["reserved_tokens"], scalars["kv_capacity_tokens"]
    if isinstance(reserved, Unknown):
        return reserved
    if isinstance(budget, Unknown):
        return budget
    if budget == 0 or reserved / budget > MAX_FRACTION:
        return Unknown(UnknownReason.OUT_OF_RANGE, f"{reserved:g} of {budget:g} tokens are reserved")
    return reserved / budget


TGI = EngineTable(
    engine=Engine.TGI,
    title="Text Generation Inference",
    prefixes=("tgi_",),
    required=("waiting", "running"),
    signals=(
        # A request that was queued or finished leaves these gauges on the page for good.
        gauge("waiting", "queue_size", first_use=("completed", "running")),
        gauge("running", "batch_current_size", first_use=("completed",)),
        gauge("reserved_tokens", "batch_current_max_tokens", across=Across.MAX, first_use=("completed", "running")),
        gauge("kv_capacity_tokens", "batch_max_total_tokens", across=Across.MAX, lacking="TGI 3 has it"),
        counter("completed", "request_success", first_use=()),
        counter("failed", "request_failure", first_use=()),
        counter("refused", Alias(name="request_failure", only=(("err", ("overloaded",)),)), first_use=()),
        counter("prompt_tokens", "request_input_length_sum", first_use=("completed",)),
        counter("generation_tokens", "request_generated_tokens_sum", first_use=("completed",)),
        counter("steps", "batch_inference_success", first_use=("completed", "running")),
        histogram("itl", "request_mean_time_per_token_duration"),
        histogram("request_itl", "request_mean_time_per_token_duration"),
        histogram("e2e", "request_duration"),
        histogram("queue_time", "request_queue_duration"),
        histogram("prompt_length", "request_input_length"),
        histogram("output_length", "request_generated_tokens"),
    ),
    label_signals=(),
    model_labels=(),
    repeat_labels=(),
    arrivals=arrivals_stock,
    arrivals_formula="completed + failed + waiting + running",
    arrivals_of=_IN_BALANCE,
    derived=(
        Derived(
            name="kv_fraction",
            of=("reserved_tokens", "kv_capacity_tokens"),
            formula="reserved tokens / token budget",
            value=kv_fraction,
        ),
    ),
)
