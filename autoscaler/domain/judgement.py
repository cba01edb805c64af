"""What is to be thought of one serving replica, by its pages: a closed list, with what the controller does about each.

docs/signals.md says for each what follows, and by which tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter

from autoscaler.domain.reading import EngineReading, Measured, Unknown, UnknownReason, is_known


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
_SIGNALS = ("waiting", "running", "completed", "kv_fraction", "prompt_tokens", "generation_tokens")
_SIGNALS_OF: Callable[[EngineReading], tuple[Measured, ...]] = attrgetter(*_SIGNALS)
_NOTHING_WRONG = (Judgement.OK, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedReplica:
    """A replica's state, and what it is judged by."""

    replica: str
    judgement: Judgement
    detail: str = ""


def judged(counted: EngineReading | Unknown, *, stuck: bool, failing_probe: str | None = None) -> tuple[Judgement, str]:
    """The state of a replica, and what it is judged by. Where several fit, the one of which most follows.

    ``counted``: its page, or why nothing could be counted by it. ``stuck``: it has had work and made no progress for
    long. ``failing_probe``: what its readiness probe says, None where it is ready.
    """
    if isinstance(counted, Unknown):
        return _BY_REASON.get(counted.reason, Judgement.UNREADABLE), str(counted)
    if stuck:
        return Judgement.STUCK, f"no progress with {_work(counted):g} requests in it"
    if counted.asleep:
        return Judgement.ASLEEP, ""
    if failing_probe is not None and _work(counted) > 0:
        return Judgement.OVERLOADED, f"{failing_probe}, with {_work(counted):g} requests in it"
    for name, value in zip(_SIGNALS, _SIGNALS_OF(counted), strict=True):
        if isinstance(value, Unknown) and value.reason in _SENSELESS:
            return Judgement.CONTRADICTING, f"{name} {value}"
    return _NOTHING_WRONG


def _work(reading: EngineReading) -> float:
    """Requests in it, as far as they are known."""
    return sum(value for value in (reading.waiting, reading.running) if is_known(value))
