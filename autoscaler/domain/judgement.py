"""What is to be thought of one serving replica, by its pages: a closed list, with what the controller does about each.

docs/signals.md says for each what follows, and by which tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from autoscaler.domain.reading import EngineReading, Unknown, UnknownReason, is_known


class Judgement(StrEnum):
    """The state of a replica.

    OK: read, and nothing is wrong. WARMING_UP: its first page; counting begins. STUCK: work, and no progress for long.
    ASLEEP: the engine is in sleep mode. OVERLOADED: it fails its readiness probe while requests are in it, and is read.
    RESET: a counter ran back; counting begins anew. STALE: its page is old, or the same to the last digit for long.
    CONTRADICTING: signals that can't be, or can't be together. INCOMPLETE: the page lacks what arrivals are made of.
    UNREADABLE: no page, or one that can't be read.
    """

    OK = "Ok"
    WARMING_UP = "WarmingUp"
    STUCK = "Stuck"
    ASLEEP = "Asleep"
    OVERLOADED = "Overloaded"
    RESET = "Reset"
    STALE = "Stale"
    CONTRADICTING = "Contradicting"
    INCOMPLETE = "Incomplete"
    UNREADABLE = "Unreadable"


# Why a replica could not be counted, of reasons other than that its page could not be read.
_BY_REASON: Mapping[UnknownReason, Judgement] = {
    UnknownReason.WARMING_UP: Judgement.WARMING_UP,
    UnknownReason.RESET: Judgement.RESET,
    UnknownReason.STALE: Judgement.STALE,
    UnknownReason.CONTRADICTION: Judgement.CONTRADICTING,
    UnknownReason.OUT_OF_RANGE: Judgement.CONTRADICTING,
    UnknownReason.NOT_A_NUMBER: Judgement.CONTRADICTING,
    UnknownReason.MISSING_SERIES: Judgement.INCOMPLETE,
    UnknownReason.NOT_EXPORTED: Judgement.INCOMPLETE,
}
_SENSELESS = frozenset({UnknownReason.CONTRADICTION, UnknownReason.OUT_OF_RANGE, UnknownReason.NOT_A_NUMBER})
_LOOKED_AT = ("waiting", "running", "completed", "kv_fraction", "prompt_tokens", "generation_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedReplica:
    """A replica's state, and what it is judged by."""

    replica: str
    judgement: Judgement
    detail: str = ""


def judged(
    replica: str, counted: EngineReading | Unknown, *, stuck: bool, failing_probe: str | None = None
) -> JudgedReplica:
    """The state of a replica. Where several fit, the one of which most follows.

    ``counted``: its page, or why nothing could be counted by it. ``stuck``: it has had work and made no progress for
    long. ``failing_probe``: what its readiness probe says, None where it is ready.
    """
    if isinstance(counted, Unknown):
        judgement = _BY_REASON.get(counted.reason, Judgement.UNREADABLE)
        return JudgedReplica(replica=replica, judgement=judgement, detail=str(counted))
    work = sum(value for value in (counted.waiting, counted.running) if is_known(value))
    if stuck:
        detail = f"no progress with {work:g} requests in it"
        return JudgedReplica(replica=replica, judgement=Judgement.STUCK, detail=detail)
    if counted.asleep:
        return JudgedReplica(replica=replica, judgement=Judgement.ASLEEP)
    if failing_probe is not None and work > 0:
        detail = f"{failing_probe}, with {work:g} requests in it"
        return JudgedReplica(replica=replica, judgement=Judgement.OVERLOADED, detail=detail)
    for name in _LOOKED_AT:
        value = getattr(counted, name)
        if isinstance(value, Unknown) and value.reason in _SENSELESS:
            detail = f"{name} {value}"
            return JudgedReplica(replica=replica, judgement=Judgement.CONTRADICTING, detail=detail)
    return JudgedReplica(replica=replica, judgement=Judgement.OK)
