"""The emulator's batching against timelines worked by hand, and its promises over random workloads.

Steps cost 1 s + 0.1 s for each decoding sequence + 1 ms for each token of their contexts + 10 ms for each prompt token.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtests.arrivals import Arrivals
from loadtests.emulator.batching import ContinuousBatching, EngineLimits, Sequence, StepCost
from loadtests.emulator.virtual import EngineModel, capacity_rps, replay, share_within
from loadtests.lengths import constant_length

COST = StepCost(base_s=1.0, per_sequence_s=0.1, per_context_token_s=0.001, per_prefill_token_s=0.01)


def limits(**changes: int) -> EngineLimits:
    sizes = {"max_num_seqs": 8, "max_num_batched_tokens": 1000, "kv_tokens": 2000, "max_model_len": 2000}
    return EngineLimits(**{**sizes, **changes})


def plan(*requests: tuple[float, int, int]) -> Arrivals:
    """Requests as (arrival, prompt tokens, output tokens)."""
    at_s, prompts, outputs = zip(*requests, strict=True)
    return Arrivals(
        at_s=np.array(at_s, dtype=np.float64),
        prompt_tokens=np.array(prompts),
        output_tokens=np.array(outputs),
        duration_s=max(at_s),
        label="by hand",
    )


def course(*requests: tuple[float, int, int], replicas: int = 1, **changes: int) -> list[tuple[float, float]]:
    """Each request's (time of the first token, time of the last one)."""
    model = EngineModel(cost=COST, limits=limits(**changes))
    found = []
    for sequence in replay(plan(*requests), replicas=replicas, model=model):
        assert sequence.first_token_s is not None
        assert sequence.last_token_s is not None
        found.append((sequence.first_token_s, sequence.last_token_s))
    return found


@pytest.mark.parametrize(
    ("requests", "changes", "expected"),
    [
        pytest.param(
            [(0.0, 100, 3)],
            {},
            # Prefill 1 + 1.00; then two decodes of one sequence with 101 and 102 tokens of context.
            [(2.0, 2.0 + 1.201 + 1.202)],
            id="alone",
        ),
        pytest.param([(5.0, 100, 1)], {}, [(7.0, 7.0)], id="one token ends with its prefill"),
        pytest.param(
            [(0.0, 100, 1)], {"max_num_batched_tokens": 60}, [(3.0, 3.0)], id="prompt cut to 60 and 40 tokens"
        ),
        pytest.param(
            [(0.0, 10, 3), (0.5, 100, 1)],
            {"max_num_batched_tokens": 60},
            # [0, 1.1] first prompt; then its decode with 59 prompt tokens, then with the other 41.
            [(1.1, 1.1 + 1.701 + 1.522), (1.1 + 1.701 + 1.522, 1.1 + 1.701 + 1.522)],
            id="a decode comes before the chunk of another prompt",
        ),
        pytest.param(
            [(0.0, 10, 2), (0.0, 20, 1)],
            {"max_num_seqs": 1},
            [(1.1, 2.211), (3.411, 3.411)],
            id="one sequence at a time",
        ),
        pytest.param(
            [(0.0, 10, 2), (1.1, 10, 1)],
            {},
            # It arrives on a boundary and is in the step that begins there.
            [(1.1, 2.311), (2.311, 2.311)],
            id="arrival on a boundary",
        ),
        pytest.param(
            [(0.0, 10, 2), (0.0, 10, 2), (0.1, 10, 1)],
            {},
            # The first begins a step at once; the others join the next: 1 + 0.1 + 0.011 + 0.2.
            [(1.1, 2.411), (2.411, 2.411 + 1.111), (2.411, 2.411)],
            id="several finish in one step",
        ),
        pytest.param(
            [(0.0, 10, 1), (50.0, 10, 1)], {}, [(1.1, 1.1), (51.1, 51.1)], id="an idle engine starts at the arrival"
        ),
    ],
)
def test_timelines(
    requests: list[tuple[float, int, int]], changes: dict[str, int], expected: list[tuple[float, float]]
) -> None:
    first, *rest = requests
    assert course(first, *rest, **changes) == [pytest.approx(times) for times in expected]


def test_full_cache_preempts_the_last_admitted_and_recomputes_its_tokens() -> None:
    """Room for 30 tokens: both run for five tokens each (22, 24, 26, 28, 30 in use), then the second must go.

    The first goes on alone from 15 to 19 tokens of context. The second is prefilled again with its 10 prompt tokens and
    the 5 that it had generated, and its first token keeps its time.
    """
    together = sum(1.2 + 0.001 * context for context in (22, 24, 26, 28))
    alone = sum(1.1 + 0.001 * context for context in (15, 16, 17, 18, 19))
    again = 1.0 + 0.01 * 15 + sum(1.1 + 0.001 * context for context in (16, 17, 18, 19))
    first_token = 1.0 + 0.01 * 20
    engine = ContinuousBatching(cost=COST, limits=limits(kv_tokens=30, max_model_len=20))
    pair = [Sequence(prompt_tokens=10, output_tokens=10, arrived_s=0.0) for _ in range(2)]
    for sequence in pair:
        engine.submit(sequence)
    now_s = 0.0
    while (duration_s := engine.begin_step(now_s)) is not None:
        now_s += duration_s
        engine.end_step(now_s)
    assert [sequence.first_token_s for sequence in pair] == [pytest.approx(first_token)] * 2
    assert pair[0].last_token_s == pytest.approx(first_token + together + alone)
    assert pair[1].last_token_s == pytest.approx(first_token + together + alone + again)
    assert [sequence.preemptions for sequence in pair] == [0, 1]
    assert engine.preemptions == 1
    assert engine.kv_used_tokens == 0


def test_request_longer_than_the_engine_is_refused() -> None:
    engine = ContinuousBatching(cost=COST, limits=limits(kv_tokens=100, max_model_len=100))
    with pytest.raises(ValueError, match=r"100 tokens.*101 \(60 in the prompt, 41 in the output\)"):
        engine.submit(Sequence(prompt_tokens=60, output_tokens=41, arrived_s=0.0))


@pytest.mark.parametrize("when", ["waiting", "prefilling", "cut prompt", "decoding"])
def test_an_aborted_request_leaves_nothing_behind(when: str) -> None:
    engine = ContinuousBatching(cost=COST, limits=limits(max_num_batched_tokens=60))
    sequence = Sequence(prompt_tokens=100 if when == "cut prompt" else 50, output_tokens=5, arrived_s=0.0)
    engine.submit(sequence)
    if when != "waiting":
        engine.begin_step(0.0)
    if when in ("cut prompt", "decoding"):
        engine.end_step(2.0)
    engine.abort(sequence)
    assert (engine.running, engine.waiting, engine.kv_used_tokens) == (0, 0, 0)
    if when == "prefilling":
        assert engine.end_step(2.0).tokens == ()
    assert engine.begin_step(3.0) is None


def test_fleet_takes_the_replica_with_the_fewest_requests() -> None:
    alone, both = course((0.0, 100, 1), (0.5, 100, 1), replicas=2)
    assert [*alone, *both] == pytest.approx([2.0, 2.0, 2.5, 2.5])


def test_capacity_lies_between_an_idle_engine_and_a_saturated_one() -> None:
    """One request takes 0.5 + 9 * 0.05 s alone; eight at once bound the rate by 8 / (10 * 0.05)."""
    model = EngineModel(
        cost=StepCost(base_s=0.05, per_sequence_s=0, per_context_token_s=0, per_prefill_token_s=0),
        limits=limits(max_num_seqs=8),
    )

    def capacity(share: float) -> float:
        return capacity_rps(
            model,
            fleet=2,
            prompts=constant_length(10),
            outputs=constant_length(10),
            dispersion=1.0,
            ttft_s=0.2,
            itl_s=0.1,
            share=share,
        )

    strict, loose = capacity(0.999), capacity(0.9)
    assert 2.0 < strict <= loose < 16.0


workloads = st.lists(st.tuples(st.floats(0, 40), st.integers(1, 60), st.integers(1, 40)), min_size=1, max_size=25).map(
    sorted
)


@given(
    requests=workloads,
    max_num_seqs=st.integers(1, 6),
    budget=st.integers(1, 120),
    kv_tokens=st.integers(100, 260),
)
def test_promises_over_random_workloads(
    requests: list[tuple[float, int, int]], max_num_seqs: int, budget: int, kv_tokens: int
) -> None:
    """Batch and cache keep their limits, all that is asked for comes out, and first tokens keep the queue's order."""
    engine = ContinuousBatching(
        cost=COST,
        limits=limits(max_num_seqs=max_num_seqs, max_num_batched_tokens=budget, kv_tokens=kv_tokens, max_model_len=100),
    )
    sequences = [Sequence(prompt_tokens=p, output_tokens=o, arrived_s=at_s) for at_s, p, o in requests]
    pending = list(sequences)
    now_s, steps, tokens = 0.0, 0, 0
    while True:
        while pending and pending[0].arrived_s <= now_s:
            engine.submit(pending.pop(0))
        duration_s = engine.begin_step(now_s)
        assert engine.running <= max_num_seqs
        if duration_s is None:
            if not pending:
                break
            now_s = pending[0].arrived_s
            continue
        now_s += duration_s
        tokens += len(engine.end_step(now_s).tokens)
        assert engine.kv_used_tokens <= kv_tokens
        steps += 1
        assert steps < 20_000
    assert tokens == sum(sequence.output_tokens for sequence in sequences)
    assert all(sequence.generated == sequence.output_tokens for sequence in sequences)
    firsts = [sequence.first_token_s for sequence in sequences if sequence.first_token_s is not None]
    assert firsts == sorted(firsts)
    assert share_within(sequences, ttft_s=1e9, itl_s=1e9) == 1.0
