"""An engine with continuous batching, a stretch of equal steps at a time.

Every running sequence gets a token in every step, so between changes of the batch the n-th step from now has a closed
form, and a request finishes when the step counter reaches a number known in advance. The rules of a step, after vLLM's
V1 scheduler (vllm-project/vllm, vllm/v1/core/sched/scheduler.py), at a boundary between steps:

1. Every sequence that gets a token in the step needs a place in the KV cache for it. While there are too few, the last
   admitted is taken out (a prompt under way first) and put at the front of the queue; what it has generated becomes
   part of its prompt. After that nothing is admitted at this boundary.
2. Decoding sequences take one token each of the step's budget, then the prompt under way takes what it can, then the
   queue in order of arrival, while budget and sequences are left and the whole prompt and a token fit into the cache.
3. At the step's end those with all tokens leave; prompts prefilled to their end have a token and decode from now on.

A boundary sees every arrival at or before it.
"""

from __future__ import annotations

from adapters.simulation.kernels.compiled import compiled, inlined
from adapters.simulation.kernels.layout import (
    ARRIVED,
    BEGIN,
    CACHED,
    CHUNK_TOKENS,
    COMPLETING,
    CONTEXT,
    DECODING,
    GENERATED,
    HEAD,
    ITL,
    KV_TOKENS,
    LAST,
    MAX_SEQS,
    NANOSECOND,
    NEVER,
    NEXT,
    NEXT_EVENT,
    NEXT_FINISH,
    NONE,
    OUTPUT,
    PARTIAL,
    PARTIAL_CHUNK,
    PARTIAL_LEFT,
    PREEMPTED,
    PREEMPTIONS,
    PREFILL,
    PROMPT,
    REQUEST_MASK,
    SCHEDULED,
    SLOT_SHIFT,
    STEP,
    STEPS_LEFT,
    TAIL,
    TOKENS,
    USED,
    WAITING,
    A,
    C,
    D,
    E,
    FleetArrays,
    Integers,
)
from adapters.simulation.kernels.spans import span, steps_within
from adapters.simulation.kernels.tally import note_finish, note_first_token, observe, observe_steps


@inlined
def step_time(fleet: FleetArrays, row: int) -> int:
    """How long the next step of the stretch lasts."""
    return int(
        fleet.engine[C]
        + fleet.engine[D] * fleet.state[row, DECODING]
        + fleet.engine[E] * fleet.state[row, CONTEXT]
        + fleet.engine[A] * fleet.state[row, PREFILL]
    )


@inlined
def take_steps(fleet: FleetArrays, row: int, steps: int) -> None:
    """Go that many steps into the stretch, at most to its end."""
    decoding = fleet.state[row, DECODING]
    shortest, growth = step_time(fleet, row), fleet.engine[E] * decoding
    if decoding and steps:
        observe_steps(fleet, row, steps, shortest, growth)
    fleet.state[row, BEGIN] += span(steps, shortest, growth)
    fleet.state[row, STEPS_LEFT] -= steps
    fleet.state[row, STEP] += steps
    fleet.state[row, CONTEXT] += steps * decoding
    fleet.state[row, USED] += steps * decoding
    fleet.state[row, TOKENS] += steps * decoding
    fleet.state[row, PARTIAL_LEFT] -= steps * fleet.state[row, PARTIAL_CHUNK]


@inlined
def enqueue(fleet: FleetArrays, row: int, request: int) -> None:
    """Last in the queue."""
    fleet.got[request, NEXT] = NONE
    if fleet.state[row, HEAD] == NONE:
        fleet.state[row, HEAD] = request
    else:
        fleet.got[fleet.state[row, TAIL], NEXT] = request
    fleet.state[row, TAIL] = request
    fleet.state[row, WAITING] += 1


@inlined
def arrive(fleet: FleetArrays, row: int, request: int, now: int) -> None:
    """A request comes to this replica, all of whose boundaries before ``now`` are done."""
    was_empty = fleet.state[row, HEAD] == NONE
    enqueue(fleet, row, request)
    fleet.state[row, ARRIVED] += 1
    if fleet.events[NEXT_EVENT, row] == NEVER:
        fleet.state[row, BEGIN] = now
        fleet.state[row, STEPS_LEFT] = 0
        fleet.events[NEXT_EVENT, row] = now
        return
    if not was_empty or fleet.state[row, PREFILL] or fleet.state[row, DECODING] >= fleet.engine[MAX_SEQS]:
        return
    shortest, growth = step_time(fleet, row), fleet.engine[E] * fleet.state[row, DECODING]
    steps = 1 + steps_within(shortest, growth, max(0, now - fleet.state[row, BEGIN] - 1))
    if steps < fleet.state[row, STEPS_LEFT]:
        fleet.state[row, STEPS_LEFT] = steps
        fleet.events[NEXT_EVENT, row] = fleet.state[row, BEGIN] + span(steps, shortest, growth)


@inlined
def end_stretch(fleet: FleetArrays, row: int) -> None:
    """The boundary at the end of the stretch: who leaves, who decodes from now on, and the next stretch."""
    take_steps(fleet, row, fleet.state[row, STEPS_LEFT])
    now, step = fleet.state[row, BEGIN], fleet.state[row, STEP]
    running, completing = fleet.state[row, DECODING], fleet.state[row, COMPLETING]
    kept, next_finish, context = running, fleet.state[row, NEXT_FINISH], fleet.state[row, CONTEXT]
    if next_finish <= step:
        slots, not_yet = fleet.slots[row], (step + 1) << SLOT_SHIFT
        kept = 0
        while slots[kept] >= not_yet:
            kept += 1
        for slot in range(kept, running):
            word = slots[slot]
            if word < not_yet:
                request = word & REQUEST_MASK
                context -= fleet.asked[request, PROMPT] + fleet.asked[request, OUTPUT]
                note_finish(fleet, row, request, now)
            else:
                slots[kept] = word
                kept += 1
        next_finish = _first_finish(slots, kept)
    for slot in range(running, running + completing):
        request = fleet.slots[row, slot]
        generated = fleet.got[request, GENERATED] + 1
        if generated == 1:
            note_first_token(fleet, row, request, now)
        else:
            observe(fleet, row, ITL, now - fleet.got[request, LAST], NANOSECOND)
        left = fleet.asked[request, OUTPUT] - generated
        if left == 0:
            note_finish(fleet, row, request, now)
        else:
            context += fleet.asked[request, PROMPT] + generated
            fleet.slots[row, kept] = (step + left) << SLOT_SHIFT | request
            kept += 1
            next_finish = min(next_finish, step + left)
    fleet.state[row, TOKENS] += completing
    fleet.state[row, DECODING] = kept
    fleet.state[row, COMPLETING] = 0
    fleet.state[row, NEXT_FINISH] = next_finish
    fleet.state[row, CONTEXT] = context
    _plan(fleet, row)


@inlined
def _first_finish(slots: Integers, decoding: int) -> int:
    """The step in which the first of these finishes."""
    least = NEVER
    for slot in range(decoding):
        least = min(least, slots[slot])
    return int(least >> SLOT_SHIFT) if decoding else NEVER


@inlined
def _plan(fleet: FleetArrays, row: int) -> None:
    """Rules 1 and 2."""
    is_short = _make_room(fleet, row)
    decoding, partial = fleet.state[row, DECODING], fleet.state[row, PARTIAL]
    used, completing = fleet.state[row, CONTEXT], 0
    room = fleet.engine[KV_TOKENS] - used - decoding
    budget = fleet.engine[CHUNK_TOKENS] - decoding
    if partial != NONE:
        context = fleet.asked[partial, PROMPT] + fleet.got[partial, GENERATED]
        used += context
        room -= context
        taken = min(fleet.state[row, PARTIAL_LEFT], budget)
        budget -= taken
        if taken == fleet.state[row, PARTIAL_LEFT]:
            fleet.slots[row, decoding] = partial
            completing = 1
            room -= 1
            fleet.state[row, PARTIAL] = NONE
            fleet.state[row, PARTIAL_LEFT] = 0
            fleet.state[row, PARTIAL_CHUNK] = 0
        else:
            fleet.state[row, PARTIAL_CHUNK] = taken
    fleet.state[row, USED] = used
    fleet.state[row, COMPLETING] = completing
    if not is_short and fleet.state[row, HEAD] != NONE:
        budget = _admit(fleet, row, room, budget)
    fleet.state[row, PREFILL] = fleet.engine[CHUNK_TOKENS] - decoding - budget
    _lay_out(fleet, row)


@inlined
def _admit(fleet: FleetArrays, row: int, room: int, budget: int) -> int:
    """From the queue into the batch, with ``room`` KV tokens and ``budget`` tokens of this step; the budget left."""
    head, seqs = fleet.state[row, HEAD], fleet.state[row, DECODING] + fleet.state[row, COMPLETING]
    while head != NONE and budget > 0 and seqs < fleet.engine[MAX_SEQS]:
        context = fleet.asked[head, PROMPT] + fleet.got[head, GENERATED]
        room -= context + 1
        if room < 0:
            break
        if fleet.got[head, SCHEDULED] == NONE:
            fleet.got[head, SCHEDULED] = fleet.state[row, BEGIN]
        uncached = context - fleet.asked[head, CACHED]
        taken = min(uncached, budget)
        budget -= taken
        if taken == uncached:
            fleet.slots[row, seqs] = head
            seqs += 1
        else:
            fleet.state[row, PARTIAL] = head
            fleet.state[row, PARTIAL_LEFT] = uncached
            fleet.state[row, PARTIAL_CHUNK] = taken
        fleet.state[row, USED] += context
        fleet.state[row, WAITING] -= 1
        head = fleet.got[head, NEXT]
    fleet.state[row, HEAD] = head
    fleet.state[row, COMPLETING] = seqs - fleet.state[row, DECODING]
    return budget


@inlined
def _lay_out(fleet: FleetArrays, row: int) -> None:
    """How many steps from here on are alike, and when they end."""
    decoding, chunk = fleet.state[row, DECODING], fleet.state[row, PARTIAL_CHUNK]
    if decoding == 0 and fleet.state[row, PREFILL] == 0:
        fleet.state[row, STEPS_LEFT] = 0
        fleet.events[NEXT_EVENT, row] = NEVER
        return
    steps = 1
    if fleet.state[row, COMPLETING] == 0:
        steps = fleet.state[row, NEXT_FINISH] - fleet.state[row, STEP]
        if decoding:
            steps = min(steps, (fleet.engine[KV_TOKENS] - fleet.state[row, USED]) // decoding)
        if chunk:
            steps = min(steps, (fleet.state[row, PARTIAL_LEFT] - 1) // chunk)
    fleet.state[row, STEPS_LEFT] = steps
    whole = span(steps, step_time(fleet, row), fleet.engine[E] * decoding)
    fleet.events[NEXT_EVENT, row] = fleet.state[row, BEGIN] + whole


@compiled
def _make_room(fleet: FleetArrays, row: int) -> bool:
    """Rule 1; True if a sequence was taken out."""
    is_short = False
    while True:
        decoding, partial = fleet.state[row, DECODING], fleet.state[row, PARTIAL]
        needed = fleet.state[row, CONTEXT] + decoding
        if partial != NONE:
            needed += fleet.asked[partial, PROMPT] + fleet.got[partial, GENERATED]
            needed += 1 if fleet.state[row, PARTIAL_LEFT] <= fleet.engine[CHUNK_TOKENS] - decoding else 0
        if needed <= fleet.engine[KV_TOKENS]:
            break
        is_short = True
        if partial != NONE:
            victim = partial
            fleet.state[row, PARTIAL], fleet.state[row, PARTIAL_LEFT], fleet.state[row, PARTIAL_CHUNK] = NONE, 0, 0
        else:
            word = fleet.slots[row, decoding - 1]
            victim = word & REQUEST_MASK
            generated = fleet.asked[victim, OUTPUT] - ((word >> SLOT_SHIFT) - fleet.state[row, STEP])
            fleet.got[victim, GENERATED], fleet.got[victim, LAST] = generated, fleet.state[row, BEGIN]
            fleet.state[row, CONTEXT] -= fleet.asked[victim, PROMPT] + generated
            fleet.state[row, DECODING] = decoding - 1
        fleet.got[victim, PREEMPTIONS] += 1
        fleet.state[row, PREEMPTED] += 1
        if fleet.state[row, HEAD] == NONE:
            fleet.state[row, TAIL] = victim
        fleet.got[victim, NEXT] = fleet.state[row, HEAD]
        fleet.state[row, HEAD] = victim
        fleet.state[row, WAITING] += 1
    if is_short:
        fleet.state[row, NEXT_FINISH] = _first_finish(fleet.slots[row], fleet.state[row, DECODING])
    return is_short
