"""What one replica can do: its step time, the shape of its requests, and the rate it serves within the SLO."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from autoscaler.domain.reading import Measured, Unknown, UnknownReason

_NO_BATCHES = Unknown(UnknownReason.NOT_EXPORTED, "no batch server")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """Duration of one step of a continuously batching engine, in seconds: ``c + d*B + e*K + a*q``.

    ``c_s`` constant, ``d_s`` per running sequence (B), ``e_s`` per context token in the batch (K),
    ``a_s`` per prefill token of the step (q). Error 1.3-3.3 % on 17 GPU and model combinations (docs/capacity.md).
    """

    c_s: float
    d_s: float
    e_s: float
    a_s: float

    def __post_init__(self) -> None:
        terms = (self.c_s, self.d_s, self.e_s, self.a_s)
        if any(not math.isfinite(term) or term < 0 for term in terms) or self.c_s <= 0:
            raise ValueError(f"step-time terms must be finite, >= 0 and c > 0, got {terms}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestShape:
    """Moments of prompt length p (tokens to prefill) and output length o (tokens) over requests."""

    prompt: float
    output: float
    prompt_sq: float
    output_sq: float
    prompt_x_output: float

    @property
    def context(self) -> float:
        """Mean tokens that a running sequence holds. A long answer is met in the batch for longer, so this is more than
        half the mean answer beyond the mean prompt: each token of an answer sees its prompt and the tokens before it.
        """
        return (self.prompt_x_output + self.output_sq / 2) / self.output if self.output > 0 else self.prompt

    @classmethod
    def of_means(cls, prompt: float, output: float) -> RequestShape:
        """From means alone, taking both lengths as exponential-like: E[x^2] = 2 E[x]^2, independent."""
        return cls(
            prompt=prompt,
            output=output,
            prompt_sq=2 * prompt * prompt,
            output_sq=2 * output * output,
            prompt_x_output=prompt * output,
        )


class CapacityLimit(StrEnum):
    """Which limit binds the rate of a replica."""

    ITL = "ITL"
    TTFT = "TTFT"
    KV_MEMORY = "KVMemory"
    MAX_NUM_SEQS = "MaxNumSeqs"
    SATURATION = "Saturation"
    UNLOADED_DURATION = "UnloadedDuration"
    LARGEST_SEEN = "LargestBatchSeen"
    BATCH = "Batch"


class CapacitySource(StrEnum):
    """Where the knowledge of a replica's capacity comes from, best first."""

    FITTED = "Fitted"
    PROFILE = "Profile"
    OBSERVED = "Observed"
    LITTLE = "LittlesLaw"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaCapacity:
    """Requests per second that one replica serves with the asked share of them within the SLO."""

    rps: float
    limit: CapacityLimit
    source: CapacitySource
    detail: str = ""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.rps) and self.rps > 0):
            raise ValueError(f"a capacity must be finite and positive, got {self.rps}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSample:
    """One window of one replica (or the mean over equal replicas), for learning its capacity.

    ``itl_s`` mean inter-token latency, ``running`` mean batch size, ``context_tokens`` mean tokens in the batch,
    ``prefill_tps`` prompt tokens per second, ``arrival_rps`` and ``completed_rps`` per replica, ``ttft_s`` mean,
    ``saturated``: requests waited for the whole window, so ``completed_rps`` is the service rate.
    Of a batch server: ``batch`` mean items of an execution, ``exec_s`` its mean duration, ``executing`` how many
    executions ran at a time.
    """

    at_s: float
    itl_s: Measured
    running: Measured
    context_tokens: Measured
    prefill_tps: Measured
    arrival_rps: Measured
    completed_rps: Measured
    e2e_s: Measured
    waiting: Measured
    saturated: bool
    batch: Measured = _NO_BATCHES
    exec_s: Measured = _NO_BATCHES
    executing: Measured = _NO_BATCHES
