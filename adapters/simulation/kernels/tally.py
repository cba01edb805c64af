"""What pages count of a request's course, and its judgement against the SLO: noted as it happens, counted in turns."""

from __future__ import annotations

from adapters.simulation.kernels.compiled import compiled, inlined
from adapters.simulation.kernels.layout import (
    AT,
    CODE,
    COMPLETED,
    DECODING,
    DYNAMIC,
    E2E,
    FINISHED,
    FIRST,
    FIRST_TOKEN,
    FIRST_TOKENS,
    GATE_BUCKETS,
    GATE_E2E,
    GATE_ITL,
    GATE_SUMS,
    GATE_TTFT,
    IS_FINISHED,
    ITL,
    JUDGED,
    LAST,
    LATEST_FINISH,
    LOAD,
    LOGGED,
    MODEL,
    NANOSECOND,
    OUTPUT,
    OUTPUT_LENGTH,
    PROMPT,
    PROMPT_LENGTH,
    PROMPT_TOKENS,
    QUEUE,
    REPLICA_COLUMNS,
    REQUEST_ITL,
    REQUEST_MASK,
    ROUTED,
    SCHEDULED,
    SLO_E2E,
    SLO_ITL,
    SLO_TTFT,
    SLOT_SHIFT,
    SPAN,
    SUMS,
    TTFT,
    WITHIN_SLO,
    FleetArrays,
)


@inlined
def bucket(fleet: FleetArrays, kind: int, value: int) -> int:
    """The first bucket whose bound is at least ``value``."""
    index = 0
    for column in range(SPAN):
        index += 1 if fleet.bounds[kind, column] < value else 0
    return index


@inlined
def observe(fleet: FleetArrays, row: int, kind: int, value: int, unit: int) -> None:
    """One observation of a replica; ``unit``: what its sum is counted in."""
    first = REPLICA_COLUMNS + kind * SPAN
    fleet.state[row, first + bucket(fleet, kind, value)] += 1
    fleet.state[row, SUMS + kind] += value // unit


@inlined
def observe_at_gate(fleet: FleetArrays, kind: int, value: int) -> None:
    """One observation of the gateway, a time."""
    first = GATE_BUCKETS + kind * SPAN
    fleet.gate[first + bucket(fleet, kind, value)] += 1
    fleet.gate[GATE_SUMS + kind] += value // NANOSECOND


@inlined
def observe_steps(fleet: FleetArrays, row: int, steps: int, shortest: int, growth: int) -> None:
    """The gaps before the tokens of ``steps`` steps; step i lasts ``shortest + i * growth`` for every sequence."""
    sequences = fleet.state[row, DECODING]
    first = REPLICA_COLUMNS + ITL * SPAN
    whole = steps * shortest + growth * (steps * (steps - 1) // 2)
    fleet.state[row, SUMS + ITL] += whole // NANOSECOND * sequences
    counted, index = 0, bucket(fleet, ITL, shortest)
    last = bucket(fleet, ITL, shortest + growth * (steps - 1))
    while index < last:
        below = (fleet.bounds[ITL, index] - shortest) // growth + 1
        fleet.state[row, first + index] += (below - counted) * sequences
        counted = below
        index += 1
    fleet.state[row, first + last] += (steps - counted) * sequences


@inlined
def note_first_token(fleet: FleetArrays, row: int, request: int, now: int) -> None:
    """A request has its first token."""
    fleet.got[request, FIRST] = now
    fleet.log[fleet.gate[LOGGED]] = FIRST_TOKEN | row << SLOT_SHIFT | request
    fleet.gate[LOGGED] += 1


@inlined
def note_finish(fleet: FleetArrays, row: int, request: int, now: int) -> None:
    """A request has all its tokens."""
    fleet.got[request, LAST] = now
    fleet.got[request, CODE] = IS_FINISHED
    fleet.events[LOAD, row] -= 1
    fleet.log[fleet.gate[LOGGED]] = row << SLOT_SHIFT | request
    fleet.gate[LOGGED] += 1


@compiled
def count_logged(fleet: FleetArrays) -> None:
    """What is in the log, into the counts of replicas and gateway. Many at a time take less than each as it comes."""
    for place in range(fleet.gate[LOGGED]):
        entry = fleet.log[place]
        row, request = (entry & ~FIRST_TOKEN) >> SLOT_SHIFT, entry & REQUEST_MASK
        if entry & FIRST_TOKEN:
            _count_first_token(fleet, row, request)
        else:
            _count_finish(fleet, row, request)
    fleet.gate[LOGGED] = 0


@inlined
def _count_first_token(fleet: FleetArrays, row: int, request: int) -> None:
    first = fleet.got[request, FIRST]
    fleet.state[row, FIRST_TOKENS] += 1
    fleet.state[row, PROMPT_TOKENS] += fleet.asked[request, PROMPT]
    observe(fleet, row, TTFT, first - fleet.got[request, ROUTED], NANOSECOND)
    observe_at_gate(fleet, GATE_TTFT, first - fleet.asked[request, AT])


@inlined
def _count_finish(fleet: FleetArrays, row: int, request: int) -> None:
    now = fleet.got[request, LAST]
    fleet.state[row, COMPLETED] += 1
    fleet.state[row, LATEST_FINISH] = now
    observe(fleet, row, E2E, now - fleet.got[request, ROUTED], NANOSECOND)
    observe(fleet, row, QUEUE, fleet.got[request, SCHEDULED] - fleet.got[request, ROUTED], NANOSECOND)
    whole = now - fleet.asked[request, AT]
    fleet.gate[FINISHED] += 1
    fleet.gate[JUDGED] += 1
    observe_at_gate(fleet, GATE_E2E, whole)
    if fleet.engine[MODEL] == DYNAMIC:
        fleet.gate[WITHIN_SLO] += 1 if whole <= fleet.engine[SLO_E2E] else 0
        return
    output = fleet.asked[request, OUTPUT]
    observe(fleet, row, PROMPT_LENGTH, fleet.asked[request, PROMPT], 1)
    observe(fleet, row, OUTPUT_LENGTH, output, 1)
    first = fleet.got[request, FIRST]
    decoding = now - first
    gap = 0  # of one token, as vLLM counts it (vllm-project/vllm, vllm/v1/metrics/stats.py)
    if output > 1:
        gap = decoding // (output - 1)
        observe_at_gate(fleet, GATE_ITL, gap)
    observe(fleet, row, REQUEST_ITL, gap, NANOSECOND)
    # Mean gap <= threshold, without a division.
    is_fast = fleet.engine[SLO_ITL] >= decoding or decoding <= fleet.engine[SLO_ITL] * (output - 1)
    is_prompt = first - fleet.asked[request, AT] <= fleet.engine[SLO_TTFT]
    fleet.gate[WITHIN_SLO] += 1 if is_fast and is_prompt and whole <= fleet.engine[SLO_E2E] else 0
