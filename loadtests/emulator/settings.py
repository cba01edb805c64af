"""What an emulated engine is: its command line and the defaults."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field

from loadtests.emulator.batching import EngineLimits, StepCost
from loadtests.emulator.faults import Faults, fault_of_words
from loadtests.emulator.metrics_page import PageOf


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatorSettings:
    """One emulated engine.

    ``listen_after_s``: connections are refused until then. ``startup_s``: every path but /faults answers 503
    until then; both count from the start of the process's server. ``stop_after_tokens``: where a request
    without ``ignore_eos`` ends by itself (its model's end-of-sequence token). ``page_of``: whose metrics page it has.
    """

    host: str
    port: int
    model: str
    cost: StepCost
    limits: EngineLimits
    startup_s: float = 0.0
    listen_after_s: float = 0.0
    stop_after_tokens: int = 256
    page_of: PageOf = PageOf.VLLM
    faults: Faults = field(default_factory=Faults)

    def __post_init__(self) -> None:
        if not 0 <= self.listen_after_s <= self.startup_s:
            raise ValueError(
                f"--listen-after-s must lie between 0 and --startup-s ({self.startup_s}), got {self.listen_after_s}"
            )
        if self.stop_after_tokens < 1:
            raise ValueError(f"--stop-after-tokens must be at least 1, got {self.stop_after_tokens}")


def parse(arguments: Sequence[str] | None = None) -> EmulatorSettings:
    """From the command line (the process's own when None); exits with a message on a bad argument."""
    parser = argparse.ArgumentParser(
        prog="python -m loadtests.engine_emulator",
        description="An OpenAI-compatible engine with vLLM's metrics page, timed by a step-time model.",
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--model", default="emulated", help="name under which it is served")
    parser.add_argument(
        "--page-of",
        type=PageOf,
        choices=list(PageOf),
        default=PageOf.VLLM,
        help="the engine whose metrics page it has (default: vllm)",
    )
    step = parser.add_argument_group("step time: base + per-seq*B + per-context-token*K + per-prefill-token*q")
    step.add_argument("--step-base-ms", type=float, default=20.0)
    step.add_argument("--step-per-seq-ms", type=float, default=0.05)
    step.add_argument("--step-per-context-token-us", type=float, default=0.2)
    step.add_argument("--step-per-prefill-token-us", type=float, default=80.0)
    limits = parser.add_argument_group("limits")
    limits.add_argument("--max-num-seqs", type=int, default=256)
    limits.add_argument("--max-num-batched-tokens", type=int, default=2048, help="prefill and decode tokens a step")
    limits.add_argument("--max-model-len", type=int, default=8192)
    limits.add_argument("--kv-tokens", type=int, default=100_000, help="room of the KV cache")
    life = parser.add_argument_group("life")
    life.add_argument("--startup-s", type=float, default=0.0, help="503 until then")
    life.add_argument("--listen-after-s", type=float, default=0.0, help="connections refused until then")
    life.add_argument("--stop-after-tokens", type=int, default=256, help="output length without ignore_eos")
    life.add_argument(
        "--fault",
        action="append",
        default=[],
        metavar="SIDE=KIND[:ARGUMENT]",
        help="page=slow:3, page=nan, engine=crash:10, engine=crash-at-start, ...; as POST /faults sets them",
    )
    given = parser.parse_args(arguments)
    try:
        return _settings(given)
    except ValueError as error:
        parser.error(str(error))


def _settings(given: argparse.Namespace) -> EmulatorSettings:
    faults = Faults()
    for text in given.fault:
        asked = fault_of_words(text)
        faults = dataclasses.replace(faults, page=asked.page or faults.page, engine=asked.engine or faults.engine)
    return EmulatorSettings(
        host=given.host,
        port=given.port,
        model=given.model,
        cost=StepCost(
            base_s=given.step_base_ms / 1e3,
            per_sequence_s=given.step_per_seq_ms / 1e3,
            per_context_token_s=given.step_per_context_token_us / 1e6,
            per_prefill_token_s=given.step_per_prefill_token_us / 1e6,
        ),
        limits=EngineLimits(
            max_num_seqs=given.max_num_seqs,
            max_num_batched_tokens=given.max_num_batched_tokens,
            kv_tokens=given.kv_tokens,
            max_model_len=given.max_model_len,
        ),
        startup_s=given.startup_s,
        listen_after_s=given.listen_after_s,
        stop_after_tokens=given.stop_after_tokens,
        page_of=given.page_of,
        faults=faults,
    )
