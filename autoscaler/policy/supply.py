"""Whether what was asked for comes: replicas that break or are late, and whether more of them would.

Missing replicas look like demand: requests wait, and miss the SLO. But more replicas don't help where starts fail, and
more headroom would not have helped where what was asked for is not there. So while a service is short of supply,

- what breaks, or is late, is replaced once: by as many as are lacking, and not again where a replacement breaks too;
- requests that wait ask for nothing more where several replicas, and more than a tenth of all, fail or are late: one
  may have a bad node, more of them tell that the next would fail too;
- misses don't tune the headroom, until the queue is gone; at the most for as long again as the shortage lasted, and
  five minutes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from autoscaler.domain.cluster import Phase, Replica
from autoscaler.domain.demand import Demand
from autoscaler.domain.reading import Unknown
from autoscaler.domain.state import Shortage

# A start that takes this many times as long as usual is late.
_LATE = 2.0
_SEVERAL, _MANY = 2, 0.1
# Of the requests felt, in seconds: a queue of less is none.
_QUEUE_S = 0.5
# However short it was, its queue is there until replicas that it asks for have started and worked it off.
_AFTERWARDS_S = 300.0


class Supply(NamedTuple):
    """``serving``: replicas that are ready and of use, by variant. ``broken``: those to be replaced: failed, stuck,
    asleep, starting again after a failure, or late. ``comes``: more would come, as far as can be told.
    """

    serving: dict[str, int]
    broken: int
    comes: bool


def supply(now_s: float, replicas: Sequence[Replica], *, useless: Collection[str], usual_s: float) -> Supply:
    """``useless``: names of replicas that are ready and yet no capacity. ``usual_s``: how long a start takes, infinite
    where that was not measured yet.

    One that no node takes is not replaced: the replacement would wait beside it.
    """
    serving: dict[str, int] = {}
    idle = failing = waiting = 0
    for replica in replicas:
        phase = replica.phase
        if phase is Phase.READY:
            if replica.name in useless:
                idle += 1
            else:
                serving[replica.variant] = serving.get(replica.variant, 0) + 1
        elif phase is Phase.FAILED or (phase is Phase.STARTING and replica.restarts > 0):
            failing += 1
        elif phase is Phase.STARTING and now_s - replica.created_s > _LATE * usual_s:
            if replica.unschedulable_since_s is None:
                failing += 1
            else:
                waiting += 1
    missing = failing + waiting
    return Supply(serving, idle + failing, missing < _SEVERAL or missing <= _MANY * len(replicas))


def with_asked(
    known: tuple[tuple[float, int], ...], *, now_s: float, asked: int, usual_s: float
) -> tuple[tuple[float, int], ...]:
    """``ServiceState.asked`` with what is asked for now."""
    if known and known[-1][1] == asked and (len(known) == 1 or known[1][0] > now_s - _LATE * usual_s):
        return known
    entries = known if known and known[-1][1] == asked else (*known, (now_s, asked))
    # The newest entry before that time was in force at it.
    begin = sum(at_s <= now_s - _LATE * usual_s for at_s, _ in entries[1:])
    return entries[begin:]


def due(asked: Sequence[tuple[float, int]], *, now_s: float, usual_s: float) -> int:
    """Replicas asked for all the time that a start may take, so that fewer are there only where some were lost, or are
    late; 0 where that isn't known so far back.
    """
    known_for_s = now_s - asked[0][0] if asked else 0.0
    return min(count for _, count in asked) if asked and known_for_s >= _LATE * usual_s else 0


def shortage(known: Shortage | None, *, now_s: float, short: bool, demand: Demand) -> Shortage | None:
    """The shortage of supply that misses are put down to; None where there is none. ``short``: there is one now."""
    if short:
        return Shortage(since_s=now_s if known is None else known.since_s, seen_s=now_s)
    if known is None or now_s - known.seen_s > known.seen_s - known.since_s + _AFTERWARDS_S:
        return None
    if isinstance(demand.backlog, Unknown) or isinstance(demand.felt_rps, Unknown):
        return known
    return known if demand.backlog > _QUEUE_S * demand.felt_rps else None
