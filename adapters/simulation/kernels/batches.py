"""A server with dynamic batching: one batch at a time, which takes ``C + D * requests``.

The rules of Triton's dynamic batcher (triton-inference-server/server, docs/user_guide/batcher.md) with one instance and
no preferred sizes: a free instance takes a batch at once when the largest batch is waiting, otherwise when the oldest
request has waited for the longest delay; it then takes all that wait, up to the largest batch, in order of arrival.
"""

from __future__ import annotations

from adapters.simulation.kernels.compiled import inlined
from adapters.simulation.kernels.layout import (
    ARRIVED,
    BEGIN,
    DECODING,
    EXECUTION_NS,
    EXECUTIONS,
    HEAD,
    ITEMS,
    MAX_BATCH,
    MAX_DELAY,
    NANOSECOND,
    NEVER,
    NEXT,
    NEXT_EVENT,
    NONE,
    ROUTED,
    SCHEDULED,
    WAITING,
    C,
    D,
    FleetArrays,
)
from adapters.simulation.kernels.stretches import enqueue
from adapters.simulation.kernels.tally import note_finish


@inlined
def arrive_at_batcher(fleet: FleetArrays, row: int, request: int, now: int) -> None:
    """A request comes to this replica, all of whose events before ``now`` are done."""
    enqueue(fleet, row, request)
    fleet.state[row, ARRIVED] += 1
    if fleet.state[row, DECODING] == 0:
        fleet.events[NEXT_EVENT, row] = _next_begin(fleet, row, now)


@inlined
def _next_begin(fleet: FleetArrays, row: int, now: int) -> int:
    """When a free instance takes the next batch, as far as is known at ``now``."""
    head = fleet.state[row, HEAD]
    if head == NONE:
        return NEVER
    if fleet.state[row, WAITING] >= fleet.engine[MAX_BATCH]:
        return now
    return int(max(now, fleet.got[head, ROUTED] + fleet.engine[MAX_DELAY]))


@inlined
def end_batch(fleet: FleetArrays, row: int) -> None:
    """The end of an execution, or the begin of one after an idle time."""
    now = fleet.events[NEXT_EVENT, row]
    size = fleet.state[row, DECODING]
    if size:
        for slot in range(size):
            note_finish(fleet, row, fleet.slots[row, slot], now)
        fleet.state[row, EXECUTIONS] += 1
        fleet.state[row, ITEMS] += size
        fleet.state[row, EXECUTION_NS] += size * ((now - fleet.state[row, BEGIN]) // NANOSECOND)
        fleet.state[row, DECODING] = 0
    begin = _next_begin(fleet, row, now)
    if begin > now:
        fleet.events[NEXT_EVENT, row] = begin
        return
    size, head = 0, fleet.state[row, HEAD]
    while head != NONE and size < fleet.engine[MAX_BATCH]:
        fleet.got[head, SCHEDULED] = now
        fleet.slots[row, size] = head
        size += 1
        head = fleet.got[head, NEXT]
    fleet.state[row, HEAD] = head
    fleet.state[row, WAITING] -= size
    fleet.state[row, DECODING] = size
    fleet.state[row, BEGIN] = now
    fleet.events[NEXT_EVENT, row] = now + fleet.engine[C] + fleet.engine[D] * size
