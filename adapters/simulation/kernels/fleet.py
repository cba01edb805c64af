"""Arrivals to replicas: the router, the gateway's hold, and whose event is next.

Replicas don't know of one another between arrivals. So before an arrival is routed, every replica whose next event is
earlier is run up to it; events at the same moment as the arrival come after it.
"""

from __future__ import annotations

from adapters.simulation.kernels.batches import arrive_at_batcher, end_batch
from adapters.simulation.kernels.compiled import compiled, inlined
from adapters.simulation.kernels.layout import (
    ARRIVALS,
    AT,
    BEGIN,
    BLOCK,
    CODE,
    COMPLETING,
    CONTINUOUS,
    DECODING,
    DYNAMIC,
    FAILED,
    GATE_HEAD,
    GATE_TAIL,
    HEAD,
    HELD,
    HELD_LIMIT,
    HELD_PS,
    IS_LOST,
    IS_REFUSED,
    JUDGED,
    KV_TOKENS,
    LOAD,
    LOG,
    LOGGED,
    MODEL,
    NEVER,
    NEXT,
    NEXT_EVENT,
    NONE,
    NOW,
    OUTPUT,
    PARTIAL,
    PROMPT,
    REFUSED,
    REQUEST_MASK,
    ROUND_ROBIN_LAST,
    ROUTED,
    ROUTER,
    SHUT,
    E,
    FleetArrays,
)
from adapters.simulation.kernels.spans import steps_within
from adapters.simulation.kernels.stretches import arrive, end_stretch, step_time, take_steps
from adapters.simulation.kernels.tally import count_logged


@compiled
def refresh(fleet: FleetArrays, block: int) -> None:
    """The minima of a block, anew."""
    events = fleet.events[NEXT_EVENT, block * BLOCK : (block + 1) * BLOCK]
    loads = fleet.events[LOAD, block * BLOCK : (block + 1) * BLOCK]
    event, load = NEVER, NEVER
    for place in range(BLOCK):
        event = min(event, events[place])
        load = min(load, loads[place])
    fleet.blocks[NEXT_EVENT, block] = event
    fleet.blocks[LOAD, block] = load


@inlined
def _run_before(fleet: FleetArrays, before: int) -> None:
    """Every event earlier than ``before``."""
    is_dynamic = fleet.engine[MODEL] == DYNAMIC
    for block in range(fleet.blocks.shape[1]):
        if fleet.blocks[NEXT_EVENT, block] >= before:
            continue
        for row in range(block * BLOCK, (block + 1) * BLOCK):
            while fleet.events[NEXT_EVENT, row] < before:
                if is_dynamic:
                    end_batch(fleet, row)
                else:
                    end_stretch(fleet, row)
                if fleet.gate[LOGGED] >= LOG:
                    count_logged(fleet)
        refresh(fleet, block)


@inlined
def _choose(fleet: FleetArrays) -> int:
    """The replica for the next request; NONE if none is open."""
    if fleet.engine[ROUTER] == 0:
        minima, least, best = fleet.blocks[LOAD], SHUT, 0
        for block in range(minima.shape[0]):
            least = min(least, minima[block])
        if least == SHUT:
            return NONE
        while minima[best] != least:
            best += 1
        loads = fleet.events[LOAD, best * BLOCK : (best + 1) * BLOCK]
        place = 0
        while loads[place] != least:
            place += 1
        return best * BLOCK + place
    rows = fleet.events.shape[1]
    row = fleet.gate[ROUND_ROBIN_LAST]
    for _ in range(rows):
        row = row + 1 if row + 1 < rows else 0
        if fleet.events[LOAD, row] < SHUT:
            return row
    return NONE


@inlined
def _give(fleet: FleetArrays, row: int, request: int, now: int) -> None:
    """Route a request to a replica."""
    fleet.gate[ROUND_ROBIN_LAST] = row
    fleet.got[request, ROUTED] = now
    if fleet.engine[MODEL] == DYNAMIC:
        arrive_at_batcher(fleet, row, request, now)
    else:
        arrive(fleet, row, request, now)
    fleet.events[LOAD, row] += 1
    refresh(fleet, row // BLOCK)


@inlined
def _refuse_overdue(fleet: FleetArrays, now: int) -> None:
    """Held requests whose time was over before ``now``."""
    while fleet.gate[HELD] and now - fleet.asked[fleet.gate[GATE_HEAD], AT] > fleet.engine[HELD_PS]:
        _turn_away(fleet, fleet.gate[GATE_HEAD])
        fleet.gate[GATE_HEAD] = fleet.got[fleet.gate[GATE_HEAD], NEXT]
        fleet.gate[HELD] -= 1


@inlined
def _turn_away(fleet: FleetArrays, request: int) -> None:
    fleet.got[request, CODE] = IS_REFUSED
    fleet.gate[REFUSED] += 1
    fleet.gate[JUDGED] += 1


@compiled
def _hold(fleet: FleetArrays, request: int) -> None:
    """No replica is open."""
    if fleet.gate[HELD] >= fleet.engine[HELD_LIMIT]:
        _turn_away(fleet, request)
        return
    fleet.got[request, NEXT] = NONE
    if fleet.gate[HELD]:
        fleet.got[fleet.gate[GATE_TAIL], NEXT] = request
    else:
        fleet.gate[GATE_HEAD] = request
    fleet.gate[GATE_TAIL] = request
    fleet.gate[HELD] += 1


@compiled
def _release(fleet: FleetArrays) -> None:
    """Route all that is held, if a replica is open."""
    while fleet.gate[HELD]:
        row = _choose(fleet)
        if row == NONE:
            return
        request = fleet.gate[GATE_HEAD]
        fleet.gate[GATE_HEAD] = fleet.got[request, NEXT]
        fleet.gate[HELD] -= 1
        _give(fleet, row, request, fleet.gate[NOW])


@compiled
def serve(fleet: FleetArrays, until: int) -> None:
    """Everything up to and at ``until``; steps that end by then are counted, those under way are not."""
    _release(fleet)
    requests = fleet.asked.shape[0]
    while True:
        request, now = fleet.gate[ARRIVALS], until + 1
        if request < requests:
            now = min(now, fleet.asked[request, AT])
        _run_before(fleet, now)
        if now > until:
            break
        fleet.gate[ARRIVALS] += 1
        if fleet.asked[request, PROMPT] + fleet.asked[request, OUTPUT] > fleet.engine[KV_TOKENS]:
            fleet.got[request, CODE] = IS_REFUSED
            fleet.gate[REFUSED] += 1
            continue
        row = _choose(fleet)
        if row == NONE:
            _refuse_overdue(fleet, now)
            _hold(fleet, request)
        else:
            _give(fleet, row, request, now)
    _refuse_overdue(fleet, until)
    if fleet.engine[MODEL] == CONTINUOUS:
        for row in range(fleet.events.shape[1]):
            if fleet.events[NEXT_EVENT, row] != NEVER:
                growth = fleet.engine[E] * fleet.state[row, DECODING]
                steps = steps_within(step_time(fleet, row), growth, until - fleet.state[row, BEGIN])
                take_steps(fleet, row, steps)
    count_logged(fleet)
    fleet.gate[NOW] = until


@compiled
def lose(fleet: FleetArrays, row: int) -> None:
    """What this replica has in flight is lost."""
    for slot in range(fleet.state[row, DECODING] + fleet.state[row, COMPLETING]):
        _lose_one(fleet, fleet.slots[row, slot] & REQUEST_MASK)
    if fleet.state[row, PARTIAL] != NONE:
        _lose_one(fleet, fleet.state[row, PARTIAL])
    request = fleet.state[row, HEAD]
    while request != NONE:
        _lose_one(fleet, request)
        request = fleet.got[request, NEXT]


@inlined
def _lose_one(fleet: FleetArrays, request: int) -> None:
    fleet.got[request, CODE] = IS_LOST
    fleet.gate[FAILED] += 1
    fleet.gate[JUDGED] += 1
