"""What can be made to go wrong with an emulated engine, on demand, and for how long.

Page faults spoil ``/metrics`` alone; engine faults spoil the serving. One of each can be set at a time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar


class PageFault(StrEnum):
    """What ``/metrics`` answers."""

    SLOW = "slow"
    """The right page, ``seconds`` late."""
    ERROR = "error"
    """Status 500."""
    EMPTY = "empty"
    """Status 200 and no body."""
    NOT_A_NUMBER = "nan"
    """Every value of the engine is NaN."""
    HANG = "hang"
    """No answer until the fault is cleared."""
    MISSING = "missing"
    """The page without the family named in ``family``."""
    STALE = "stale"
    """The page as it was when the fault was set."""
    HTML = "html"
    """Status 200 and a web page."""


class EngineFault(StrEnum):
    """What the engine does."""

    HANG = "hang"
    """Takes no step; requests are still accepted and wait."""
    SLOW = "slow"
    """Steps take ``factor`` times as long."""
    ERROR = "error"
    """Answers requests with status 500."""
    CRASH = "crash"
    """The process exits with status 1, ``seconds`` after the fault is set (on the command line: after it
    is ready).
    """
    CRASH_AT_START = "crash-at-start"
    """The process exits with status 1 before it is ready (command line only): a crash loop under a
    supervisor.
    """
    REFUSE = "refuse"
    """Connections are refused; ``for_s`` must say for how long, since nothing can reach it to clear it."""


DEFAULT_MISSING_FAMILY = "vllm:num_requests_waiting"

KindT = TypeVar("KindT", PageFault, EngineFault)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault with its parameters. ``for_s``: it ends by itself after that time; infinite: only when
    cleared.
    """

    kind: PageFault | EngineFault
    seconds: float = 0.0
    factor: float = 1.0
    family: str = DEFAULT_MISSING_FAMILY
    for_s: float = math.inf

    def __post_init__(self) -> None:
        if not (math.isfinite(self.seconds) and self.seconds >= 0):
            raise ValueError(f"seconds must be >= 0 and finite, got {self.seconds}")
        if not (math.isfinite(self.factor) and self.factor > 0):
            raise ValueError(f"factor must be > 0 and finite, got {self.factor}")
        if not self.for_s > 0:
            raise ValueError(f"for_s must be > 0, got {self.for_s}")
        if self.kind is EngineFault.REFUSE and math.isinf(self.for_s):
            raise ValueError("fault 'refuse' needs for_s: nothing could reach the engine to clear it")


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """The faults asked for at once; None where that side is sound."""

    page: Fault | None = None
    engine: Fault | None = None


_NUMBERS = ("seconds", "factor", "for_s")


def faults_of_json(body: object) -> Faults:
    """``{"page": {"kind": "slow", "seconds": 3}, "engine": {"kind": "hang", "for_s": 10}}``; both keys
    optional.

    Raises ValueError naming the key and what is allowed.
    """
    if not isinstance(body, dict):
        raise ValueError(f"faults must be an object with the keys 'page' and 'engine', got {type(body).__name__}")
    unknown = sorted(set(body) - {"page", "engine"})
    if unknown:
        raise ValueError(f"unknown key {unknown[0]!r}: allowed are 'page' and 'engine'")
    return Faults(
        page=_fault_of_json("page", body.get("page"), PageFault),
        engine=_fault_of_json("engine", body.get("engine"), EngineFault),
    )


def _fault_of_json(side: str, body: object, kinds: type[KindT]) -> Fault | None:
    if body is None:
        return None
    if not isinstance(body, dict):
        raise ValueError(f"{side}: must be an object with the key 'kind', got {body!r}")
    unknown = sorted(set(body) - {"kind", "family", *_NUMBERS})
    if unknown:
        raise ValueError(f"{side}: unknown key {unknown[0]!r}: allowed are kind, seconds, factor, family, for_s")
    kind = _kind(side, body.get("kind"), kinds)
    if kind is EngineFault.CRASH_AT_START:
        raise ValueError("engine.kind: 'crash-at-start' can be given on the command line only")
    numbers: dict[str, float] = {}
    for key in _NUMBERS:
        if key in body:
            value = body[key]
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ValueError(f"{side}.{key}: must be a number, got {value!r}")
            numbers[key] = float(value)
    family = body.get("family", DEFAULT_MISSING_FAMILY)
    if not isinstance(family, str):
        raise ValueError(f"{side}.family: must be the name of a metric family, got {family!r}")
    return Fault(kind=kind, family=family, **numbers)


def _kind(side: str, word: object, kinds: type[KindT]) -> KindT:
    for kind in kinds:
        if kind.value == word:
            return kind
    allowed = ", ".join(kind.value for kind in kinds)
    raise ValueError(f"{side}.kind: must be one of {allowed}; got {word!r}")


def fault_of_words(text: str) -> Faults:
    """``page=slow:3`` or ``engine=crash:10`` as typed on the command line.

    The number after the colon is ``seconds``; ``factor`` for ``engine=slow``, ``for_s`` for
    ``engine=refuse``; for ``page=missing`` it is the family. Raises ValueError.
    """
    side, _, rest = text.partition("=")
    word, _, argument = rest.partition(":")
    if side == "page":
        kind: PageFault | EngineFault = _kind(side, word, PageFault)
    elif side == "engine":
        kind = _kind(side, word, EngineFault)
    else:
        raise ValueError(f"a fault is page=KIND[:ARGUMENT] or engine=KIND[:ARGUMENT], got {text!r}")
    fault = _with_argument(kind, argument, text)
    return Faults(page=fault) if side == "page" else Faults(engine=fault)


def _with_argument(kind: PageFault | EngineFault, argument: str, text: str) -> Fault:
    if kind is PageFault.MISSING:
        return Fault(kind=kind, family=argument) if argument else Fault(kind=kind)
    if not argument:
        return Fault(kind=kind)
    try:
        number = float(argument)
    except ValueError:
        raise ValueError(f"{text!r}: {argument!r} is not a number") from None
    if kind is EngineFault.SLOW:
        return Fault(kind=kind, factor=number)
    if kind is EngineFault.REFUSE:
        return Fault(kind=kind, for_s=number)
    return Fault(kind=kind, seconds=number)
