"""The life of one replica, as a function: what was seen of it now -> its record, and what to do to its process.

(asked for) -> STARTING -> READY -> DRAINING -> gone
                  |          |
                  +-> FAILED <+   back-off, then STARTING again, without end
"""

from __future__ import annotations

import math
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from adapters.local.probes import Answer, Probed
from adapters.local.process import Liveness, Status
from adapters.local.record import ReplicaRecord
from autoscaler.domain.cluster import Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Times, in seconds, by which replicas are watched.

    ``backoff_first_s`` doubles with every failure up to ``backoff_limit_s``, and begins anew once a replica was ready
    for ``stable_s``. A start may take the template's deadline or ``slow_start_factor`` times the measured P90,
    whichever is longer. ``patience_*``: how long one readiness answer may take; a ready engine's may take 30-40 s
    under load (vllm-project/vllm#38157). ``refusal_limit``: refused connections in a row after which a server that
    was ready is gone though its process is not.
    """

    step_s: float = 0.2
    probe_ready_s: float = 5.0
    probe_unready_s: float = 1.0
    patience_starting_s: float = 5.0
    patience_ready_s: float = 60.0
    refusal_limit: int = 5
    backoff_first_s: float = 1.0
    backoff_limit_s: float = 300.0
    stable_s: float = 300.0
    slow_start_factor: float = 3.0


class Action(StrEnum):
    """What to do to the process."""

    NONE = "none"
    TERMINATE = "terminate"
    KILL = "kill"
    FORGET = "forget"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """One look at a replica that has a process. ``in_flight`` None: nobody knows."""

    status: Status
    probed: Probed | None
    in_flight: int | None


def start_deadline_s(configured_s: float, starts_s: Sequence[float], pace: Pace) -> float:
    """How long a start may take: the configured time, more where measured starts (P90, nearest rank) ask for it."""
    if not starts_s:
        return configured_s
    p90_s = sorted(starts_s)[math.ceil(0.9 * len(starts_s)) - 1]
    return max(configured_s, pace.slow_start_factor * p90_s)


def advance(
    record: ReplicaRecord, sighting: Sighting, *, now_s: float, deadline_s: float, pace: Pace
) -> tuple[ReplicaRecord, Action]:
    """The next record and the action. ``deadline_s``: how long its start may take."""
    if sighting.status.liveness is not Liveness.RUNNING:
        return _ended(record, sighting.status, now_s=now_s, pace=pace)
    if record.phase is Phase.STARTING:
        return _starting(record, sighting.probed, now_s=now_s, deadline_s=deadline_s, pace=pace)
    if record.phase is Phase.READY:
        return _ready(record, sighting.probed, now_s=now_s, deadline_s=deadline_s, pace=pace)
    if record.phase is Phase.DRAINING:
        return _draining(record, sighting.in_flight, now_s=now_s)
    return record, Action.KILL  # FAILED: it has been killed, and still lives


def retire(record: ReplicaRecord, *, now_s: float) -> ReplicaRecord:
    """Begin its end. Only one that was ready has requests to finish."""
    return replace(
        record,
        phase=Phase.DRAINING,
        drain_since_s=now_s if record.phase is Phase.READY else None,
        retry_at_s=None,
        detail="no longer asked for",
    )


def failed(record: ReplicaRecord, *, why: str, now_s: float, pace: Pace) -> ReplicaRecord:
    """It is no capacity now, and starts again after the back-off."""
    stable = record.ready_s is not None and now_s - record.ready_s >= pace.stable_s
    failures = 1 if stable else record.failures + 1
    # min() before the power: a thousand failures must not overflow.
    backoff_s = min(pace.backoff_limit_s, pace.backoff_first_s * 2.0 ** min(failures - 1, 60))
    return replace(
        record,
        phase=Phase.FAILED,
        restarts=record.restarts + 1,
        failures=failures,
        retry_at_s=now_s + backoff_s,
        ready_s=None,
        unready_since_s=None,
        refusals=0,
        detail=f"{why}; starts again {backoff_s:.0f} s later",
    )


def victims(records: Sequence[ReplicaRecord], *, count: int, in_flight: Mapping[str, int]) -> list[ReplicaRecord]:
    """The ``count`` replicas that cost least to lose: failed ones, then the latest started, then the idlest ready."""
    rank = {Phase.FAILED: 0, Phase.STARTING: 1, Phase.READY: 2}

    def loss(record: ReplicaRecord) -> tuple[int, float, str]:
        within = 0.0
        if record.phase is Phase.STARTING:
            within = -record.created_s
        elif record.phase is Phase.READY:
            within = float(in_flight.get(record.name, 0))
        return rank[record.phase], within, record.name

    return sorted(records, key=loss)[:count]


def _ended(record: ReplicaRecord, status: Status, *, now_s: float, pace: Pace) -> tuple[ReplicaRecord, Action]:
    gone = status.liveness is Liveness.GONE
    if record.phase is Phase.DRAINING:
        return record, Action.FORGET if gone else Action.KILL
    if record.phase is not Phase.FAILED:
        when = "after it was ready" if record.phase is Phase.READY else "during its start"
        record = failed(record, why=f"{_ending(status.exit_code)} {when}", now_s=now_s, pace=pace)
    if gone:
        return replace(record, process=None, port=None, devices=()), Action.NONE
    return record, Action.KILL  # workers that outlived their server hold its devices


def _ending(exit_code: int | None) -> str:
    if exit_code is None:
        return "ended"
    if exit_code >= 0:
        return f"ended with exit code {exit_code}"
    try:
        return f"ended by {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"ended by signal {-exit_code}"


def _starting(
    record: ReplicaRecord, probed: Probed | None, *, now_s: float, deadline_s: float, pace: Pace
) -> tuple[ReplicaRecord, Action]:
    if probed is not None and probed.answer is Answer.READY:
        ready_s = now_s if record.start_watched else None
        return replace(record, phase=Phase.READY, ready_s=ready_s, detail=""), Action.NONE
    if probed is not None:
        record = replace(record, start_watched=True, detail=probed.detail)
    if now_s - record.created_s >= deadline_s:
        last = f" ({record.detail})" if record.detail else ""
        why = f"not ready within {deadline_s:.0f} s{last}"
        return failed(record, why=why, now_s=now_s, pace=pace), Action.KILL
    return record, Action.NONE


def _ready(
    record: ReplicaRecord, probed: Probed | None, *, now_s: float, deadline_s: float, pace: Pace
) -> tuple[ReplicaRecord, Action]:
    """An overloaded engine answers late or not at all and stays what it is; only one that is gone is given up.

    Gone: it refuses connections again and again, or has not once said that it is ready for as long as a whole start
    may take, each time with ``patience_ready_s`` to say so.
    """
    if probed is None:
        return record, Action.NONE
    if probed.answer is Answer.READY:
        return replace(record, unready_since_s=None, refusals=0, detail=""), Action.NONE
    since_s = now_s if record.unready_since_s is None else record.unready_since_s
    refusals = record.refusals + 1 if probed.answer is Answer.REFUSED else 0
    record = replace(
        record,
        unready_since_s=since_s,
        refusals=refusals,
        detail=f"readiness: {probed.detail}",
    )
    if refusals >= pace.refusal_limit:
        why = f"refused {refusals} connections in a row"
        return failed(record, why=why, now_s=now_s, pace=pace), Action.KILL
    if now_s - since_s >= deadline_s:
        why = f"not ready for {now_s - since_s:.0f} s ({probed.detail})"
        return failed(record, why=why, now_s=now_s, pace=pace), Action.KILL
    return record, Action.NONE


def _draining(record: ReplicaRecord, in_flight: int | None, *, now_s: float) -> tuple[ReplicaRecord, Action]:
    if record.term_s is not None:
        overdue = now_s - record.term_s >= record.grace_period_s
        return record, Action.KILL if overdue else Action.NONE
    finished = in_flight == 0 or record.drain_since_s is None
    if finished or now_s - (record.drain_since_s or 0.0) >= record.grace_period_s:
        return replace(record, term_s=now_s, detail="asked to end"), Action.TERMINATE
    waits = "an unknown number of" if in_flight is None else str(in_flight)
    return replace(record, detail=f"finishes {waits} requests"), Action.NONE
