"""What the columns of the kernels' arrays mean. All arrays are int64.

- ``engine``: one row, the replica's model and the gateway's rules.
- ``asked`` and ``got``: a row for each request, what it asks for and what became of it.
- ``state``: a row for each replica; ``slots``: its running requests. Present replicas fill the first rows in the order
  of their indices.
- ``events``: next event and load of each replica; ``blocks``: their minima over ``BLOCK`` replicas.
- ``gate``: one row, the gateway. ``log``: what happened to requests and is not in the counts yet.
- ``bounds``: a row for each kind of histogram, padded with ``NEVER``.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Integers: TypeAlias = NDArray[np.int64]

NEVER: Final = np.iinfo(np.int64).max
NONE: Final = -1
BLOCK: Final = 32

# engine
C, D, E, A = 0, 1, 2, 3
KV_TOKENS, CHUNK_TOKENS, MAX_SEQS = 4, 5, 6
MODEL, ROUTER, HELD_LIMIT, HELD_PS = 7, 8, 9, 10
SLO_TTFT, SLO_ITL, SLO_E2E = 11, 12, 13
MAX_BATCH, MAX_DELAY = 14, 15
ENGINE_COLUMNS: Final = 16
CONTINUOUS, DYNAMIC = 0, 1

# asked
AT, PROMPT, OUTPUT, CACHED = 0, 1, 2, 3
ASKED_COLUMNS: Final = 4

# got; LAST: its latest token while it is out of the batch, or its finish
ROUTED, SCHEDULED, FIRST, LAST, GENERATED, PREEMPTIONS, NEXT, CODE = 0, 1, 2, 3, 4, 5, 6, 7
GOT_COLUMNS: Final = 8

# state: the stretch of equal steps that is under way, from BEGIN on
BEGIN, STEPS_LEFT, STEP = 0, 1, 2
DECODING = 3  # sequences that get a token in every step of the stretch
CONTEXT = 4  # tokens of context that these hold
PREFILL = 5  # prompt tokens in each of its steps
COMPLETING = 6  # prompts that are prefilled at its end; in the slots after the decoding ones
PARTIAL, PARTIAL_LEFT, PARTIAL_CHUNK = 7, 8, 9  # the cut prompt, its tokens to prefill, of these in each step
NEXT_FINISH = 10  # the step in which the next request finishes
USED = 11  # KV tokens taken
HEAD, TAIL, WAITING = 12, 13, 14
ARRIVED, COMPLETED, FIRST_TOKENS, PROMPT_TOKENS, PREEMPTED = 15, 16, 17, 18, 19
LATEST_FINISH, CLOSED_AT = 20, 21
EXECUTIONS, ITEMS, EXECUTION_NS = 22, 23, 24
TOKENS = 25  # beside the sums, which change as often
SUMS: Final = 26  # of each kind of histogram; of times in nanoseconds
REPLICA_COLUMNS: Final = 40

# The buckets of the histograms follow, SPAN columns for each kind.
SPAN: Final = 32
TTFT, ITL, E2E, QUEUE, REQUEST_ITL, PROMPT_LENGTH, OUTPUT_LENGTH = 0, 1, 2, 3, 4, 5, 6
REPLICA_KINDS: Final = 7
GATE_TTFT, GATE_ITL, GATE_E2E = 7, 8, 9
KINDS: Final = 10
STATE_COLUMNS: Final = REPLICA_COLUMNS + REPLICA_KINDS * SPAN
NANOSECOND: Final = 1000

# events and blocks
NEXT_EVENT, LOAD = 0, 1
SHUT: Final = 1 << 40  # added to the load of a replica that isn't routed to

# gate
ARRIVALS, ROUND_ROBIN_LAST, GATE_HEAD, GATE_TAIL, HELD = 0, 1, 2, 3, 4
FINISHED, FAILED, REFUSED, JUDGED, WITHIN_SLO = 5, 6, 7, 8, 9
NOW, LOGGED = 10, 11
GATE_SUMS: Final = 12 - GATE_TTFT  # a kind's sum is here plus kind
GATE_BUCKETS: Final = 16 - GATE_TTFT * SPAN  # a kind's buckets begin here plus kind * SPAN
GATE_COLUMNS: Final = 16 + 3 * SPAN

# slots of an engine: the step of the finish above, the request below
SLOT_SHIFT: Final = 32
REQUEST_MASK: Final = (1 << SLOT_SHIFT) - 1

# log: the replica's row above, the request below; first tokens are marked. It is counted when LOG entries are there.
FIRST_TOKEN: Final = 1 << 62
LOG: Final = 1024

# codes of outcomes, as in serving.Outcome
IS_UNFINISHED, IS_FINISHED, IS_LOST, IS_REFUSED = 0, 1, 2, 3


class FleetArrays(NamedTuple):
    """All that a fleet is, for the kernels."""

    engine: Integers
    bounds: Integers
    asked: Integers
    got: Integers
    state: Integers
    slots: Integers
    events: Integers
    blocks: Integers
    gate: Integers
    log: Integers
