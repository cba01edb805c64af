"""Continuous batching as a pure model: what one engine step holds, how long it takes, and who gets a token.

One step advances every decoding sequence by one token and prefills up to a budget of prompt tokens; it takes
``c + d*B + e*K + a*q`` (B decoding sequences, K tokens of context they hold, q prompt tokens prefilled). The
scheduling order follows vLLM's V1 scheduler (vllm-project/vllm, vllm/v1/core/sched/scheduler.py): decodes
first, then the prompt that is under way, then the waiting queue in order of arrival.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCost:
    """Seconds that a step takes: per step, per decoding sequence, per context token, per prefilled token."""

    base_s: float
    per_sequence_s: float
    per_context_token_s: float
    per_prefill_token_s: float

    def __post_init__(self) -> None:
        terms = (self.base_s, self.per_sequence_s, self.per_context_token_s, self.per_prefill_token_s)
        if any(not math.isfinite(term) or term < 0 for term in terms) or self.base_s == 0:
            raise ValueError(f"step costs must be finite and >= 0, the base cost > 0, got {terms}")

    def duration_s(self, *, decoding: int, context_tokens: int, prefill_tokens: int) -> float:
        """Length of a step of that composition, in seconds."""
        return (
            self.base_s
            + self.per_sequence_s * decoding
            + self.per_context_token_s * context_tokens
            + self.per_prefill_token_s * prefill_tokens
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLimits:
    """vLLM's limits: sequences in a batch, tokens in a step, tokens in the KV cache, tokens of one
    request.
    """

    max_num_seqs: int
    max_num_batched_tokens: int
    kv_tokens: int
    max_model_len: int

    def __post_init__(self) -> None:
        if min(self.max_num_seqs, self.max_num_batched_tokens, self.max_model_len) < 1:
            raise ValueError(f"engine limits must be at least 1, got {self}")
        if self.kv_tokens < self.max_model_len:
            raise ValueError(f"a KV cache of {self.kv_tokens} tokens can't hold one request of {self.max_model_len}")


class Sequence:
    """One request in the engine: what it asks for, how far it is, and when it got there (seconds).

    ``generated``: tokens handed out. ``prefilled``: tokens of the present prompt already computed. A
    preempted sequence loses its cache: what it had generated becomes part of the prompt to prefill again.
    """

    __slots__ = (
        "arrived_s",
        "first_token_s",
        "generated",
        "last_token_s",
        "output_tokens",
        "preemptions",
        "prefilled",
        "prompt_tokens",
        "scheduled_s",
    )

    def __init__(self, *, prompt_tokens: int, output_tokens: int, arrived_s: float) -> None:
        if prompt_tokens < 1 or output_tokens < 1:
            raise ValueError(f"a request needs a prompt and an output, got {prompt_tokens} and {output_tokens} tokens")
        self.prompt_tokens = prompt_tokens
        self.output_tokens = output_tokens
        self.arrived_s = arrived_s
        self.scheduled_s: float | None = None
        self.first_token_s: float | None = None
        self.last_token_s: float | None = None
        self.generated = 0
        self.prefilled = 0
        self.preemptions = 0

    @property
    def context_tokens(self) -> int:
        """Prompt and generated tokens: what a full prefill computes, what a decoding sequence keeps in the
        cache.
        """
        return self.prompt_tokens + self.generated

    @property
    def finished(self) -> bool:
        """All output tokens are out."""
        return self.generated >= self.output_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """What a step brought. ``tokens``: (sequence, seconds since its previous token or None at its first one).

    ``admitted_tokens``: prompt tokens whose prefill was completed in this step, for requests that had not
    been prefilled before. ``step_tokens``: prefilled and generated tokens of the step together.
    """

    tokens: tuple[tuple[Sequence, float | None], ...]
    finished: tuple[Sequence, ...]
    admitted_tokens: int
    step_tokens: int


class ContinuousBatching:
    """The engine's queue and batch. Every call that stamps a time is told it; ``begin_step`` and ``end_step``
    alternate.

    A request longer than the KV cache is refused by ``submit``: it would be preempted for ever.
    """

    def __init__(self, *, cost: StepCost, limits: EngineLimits) -> None:
        self.cost = cost
        self.limits = limits
        self.preemptions = 0
        self._waiting: deque[Sequence] = deque()
        self._decoding: list[Sequence] = []
        self._partial: Sequence | None = None
        self._completing: list[Sequence] = []
        self._decoding_context = 0
        self._prefill_tokens = 0

    @property
    def waiting(self) -> int:
        """Requests not in the batch."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """Requests in the batch, decoding or being prefilled."""
        return len(self._decoding) + len(self._completing) + (self._partial is not None)

    @property
    def kv_used_tokens(self) -> int:
        """Tokens of KV cache taken; a prompt takes all its room when it is admitted."""
        used = self._decoding_context + sum(sequence.context_tokens for sequence in self._completing)
        return used + (self._partial.context_tokens if self._partial else 0)

    def submit(self, sequence: Sequence) -> None:
        """Put it at the end of the queue. Raises ValueError where it is longer than the engine can hold."""
        asked = sequence.prompt_tokens + sequence.output_tokens
        if asked > self.limits.max_model_len:
            raise ValueError(
                f"maximum context length is {self.limits.max_model_len} tokens, the request asks for {asked} "
                f"({sequence.prompt_tokens} in the prompt, {sequence.output_tokens} in the output)"
            )
        self._waiting.append(sequence)

    def abort(self, sequence: Sequence) -> None:
        """Forget it, wherever it is; nothing happens if it has finished."""
        if sequence in self._waiting:
            self._waiting.remove(sequence)
        elif sequence is self._partial:
            self._partial = None
        elif sequence in self._completing:
            self._completing.remove(sequence)
        elif sequence in self._decoding:
            self._decoding.remove(sequence)
            self._decoding_context -= sequence.context_tokens

    def begin_step(self, now_s: float) -> float | None:
        """Compose the next step; its length in seconds, or None when there is nothing to do."""
        preempted = self._make_room()
        decoding = len(self._decoding)
        budget = self.limits.max_num_batched_tokens - decoding
        self._prefill_tokens = 0
        if self._partial is not None and budget > 0:
            budget -= self._prefill(self._partial, budget)
        if not preempted:
            self._admit(budget, now_s)
        if not decoding and not self._prefill_tokens:
            return None
        return self.cost.duration_s(
            decoding=decoding, context_tokens=self._decoding_context, prefill_tokens=self._prefill_tokens
        )

    def end_step(self, now_s: float) -> StepResult:
        """Hand out the step's tokens at its end ``now_s``."""
        tokens: list[tuple[Sequence, float | None]] = []
        finished: list[Sequence] = []
        still: list[Sequence] = []
        admitted_tokens = 0
        for sequence in self._decoding + self._completing:
            previous_s = sequence.last_token_s
            if sequence.first_token_s is None:
                sequence.first_token_s = now_s
                admitted_tokens += sequence.prompt_tokens
            sequence.generated += 1
            sequence.last_token_s = now_s
            tokens.append((sequence, None if previous_s is None else now_s - previous_s))
            (finished if sequence.finished else still).append(sequence)
        step_tokens = self._prefill_tokens + len(self._decoding)
        self._decoding = still
        self._completing = []
        self._decoding_context = sum(sequence.context_tokens for sequence in still)
        return StepResult(
            tokens=tuple(tokens),
            finished=tuple(finished),
            admitted_tokens=admitted_tokens,
            step_tokens=step_tokens,
        )

    def _make_room(self) -> bool:
        """Preempt the last admitted until every sequence has room for its next token. True if any was
        taken out.
        """
        preempted = False
        while self.kv_used_tokens + self.running > self.limits.kv_tokens:
            if self._partial is not None:
                victim, self._partial = self._partial, None
            else:
                victim = self._decoding.pop()
                self._decoding_context -= victim.context_tokens
            victim.prefilled = 0
            victim.preemptions += 1
            self.preemptions += 1
            self._waiting.appendleft(victim)
            preempted = True
        return preempted

    def _prefill(self, sequence: Sequence, budget: int) -> int:
        chunk = min(budget, sequence.context_tokens - sequence.prefilled)
        sequence.prefilled += chunk
        self._prefill_tokens += chunk
        if sequence.prefilled == sequence.context_tokens:
            self._partial = None
            self._completing.append(sequence)
        else:
            self._partial = sequence
        return chunk

    def _admit(self, budget: int, now_s: float) -> None:
        # Every sequence of the batch keeps room for the token that this step gives it.
        reserved = self.kv_used_tokens + self.running
        while self._waiting and budget > 0 and self.running < self.limits.max_num_seqs:
            head = self._waiting[0]
            reserved += head.context_tokens + 1
            if reserved > self.limits.kv_tokens:
                return
            self._waiting.popleft()
            if head.scheduled_s is None:
                head.scheduled_s = now_s
            budget -= self._prefill(head, budget)
