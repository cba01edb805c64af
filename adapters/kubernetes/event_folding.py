"""Which events are written: repetitions become the count of one, and no object gets more than its share; pure.

Shape and limits of an Event: Kubernetes API reference, ``events.k8s.io/v1``; ``pkg/apis/core/validation/events.go``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from adapters.kubernetes.connection import FIELD_MANAGER, Collection
from adapters.kubernetes.raw_json import JsonObject, written_moment

EVENTS: Final = Collection(group="events.k8s.io", version="v1", plural="events")
_CONTROLLER: Final = f"{FIELD_MANAGER}.io/controller"
_MAX_NOTE: Final = 1024
_MAX_NAME: Final = 128
# Events on objects without a namespace are kept in this one.
_NO_NAMESPACE: Final = "default"


class EventType(StrEnum):
    """How bad it is."""

    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The object that an event is about; ``namespace`` "" where it belongs to none."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """One thing that happened. ``reason`` and ``action``: a word each, in UpperCamelCase; ``note``: for a person."""

    subject: Subject
    type: EventType
    reason: str
    action: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much is written. An object may have ``burst`` new events at once, and one more every ``refill_s``.

    A repetition within ``series_s`` of the last counts as the same event; its count is written every ``count_every_s``.
    """

    burst: int = 20
    refill_s: float = 30.0
    series_s: float = 600.0
    count_every_s: float = 60.0


@dataclass(frozen=True, slots=True)
class NewEvent:
    """Create this."""

    namespace: str
    body: JsonObject
    happening: Happening


@dataclass(frozen=True, slots=True)
class Repeated:
    """Merge this into the event ``name``."""

    namespace: str
    name: str
    body: JsonObject
    happening: Happening


@dataclass(slots=True)
class _Series:
    name: str
    last_s: float
    written_s: float
    count: int = 1
    written: int = 1


@dataclass(slots=True)
class _Share:
    """A token bucket."""

    tokens: float
    at_s: float
    left_out: int = 0


@dataclass(slots=True, kw_only=True)
class EventFolding:
    """Folds what happens into what is written. ``tag`` gives a new short name at each call."""

    instance: str
    tag: Callable[[], str]
    limits: Limits = field(default_factory=Limits)
    _series: dict[Happening, _Series] = field(default_factory=dict)
    _shares: dict[Subject, _Share] = field(default_factory=dict)

    def take(self, happening: Happening, *, now_s: float) -> NewEvent | None:
        """The event to create; None where it only adds to the count of another, or is left out."""
        known = self._series.get(happening)
        if known is not None and now_s - known.last_s < self.limits.series_s:
            known.count += 1
            known.last_s = now_s
            return None
        share = self._shares.setdefault(happening.subject, _Share(float(self.limits.burst), now_s))
        share.tokens = min(float(self.limits.burst), share.tokens + (now_s - share.at_s) / self.limits.refill_s)
        share.at_s = now_s
        if share.tokens < 1.0:
            share.left_out += 1
            return None
        share.tokens -= 1.0
        name = f"{happening.subject.name[:200].rstrip('.-')}.{self.tag()}"
        self._series[happening] = _Series(name, last_s=now_s, written_s=now_s)
        event = self._new(happening, name, left_out=share.left_out, now_s=now_s)
        share.left_out = 0
        return event

    def due(self, *, now_s: float) -> list[Repeated]:
        """Counts to write now; forgets what ended long ago."""
        repeated = []
        for happening, series in list(self._series.items()):
            if series.count > series.written and now_s - series.written_s >= self.limits.count_every_s:
                series.written, series.written_s = series.count, now_s
                body = {"series": {"count": series.count, "lastObservedTime": written_moment(series.last_s)}}
                repeated.append(Repeated(_namespace(happening.subject), series.name, body, happening))
            elif now_s - series.last_s >= self.limits.series_s:
                del self._series[happening]
        full_s = self.limits.burst * self.limits.refill_s
        for subject, share in list(self._shares.items()):
            if now_s - share.at_s >= full_s and not share.left_out:
                del self._shares[subject]
        return repeated

    def forget(self, happening: Happening) -> None:
        """Its event is not there: the next repetition is a new one."""
        self._series.pop(happening, None)

    def _new(self, happening: Happening, name: str, *, left_out: int, now_s: float) -> NewEvent:
        subject = happening.subject
        regarding = {
            "apiVersion": subject.api_version,
            "kind": subject.kind,
            "namespace": subject.namespace,
            "name": subject.name,
            "uid": subject.uid,
        }
        body = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": _namespace(subject)},
            "eventTime": written_moment(now_s),
            "reportingController": _CONTROLLER,
            "reportingInstance": self.instance[:_MAX_NAME],
            "type": str(happening.type),
            "reason": happening.reason[:_MAX_NAME],
            "action": happening.action[:_MAX_NAME],
            "regarding": {key: value for key, value in regarding.items() if value},
            "note": _note(happening.note, left_out),
        }
        return NewEvent(_namespace(subject), body, happening)


def _namespace(subject: Subject) -> str:
    return subject.namespace or _NO_NAMESPACE


def _note(note: str, left_out: int) -> str:
    """At most 1024 bytes, the end cut."""
    end = f" ({left_out} events before this one were left out)" if left_out else ""
    kept = note.encode()[: _MAX_NOTE - len(end)].decode(errors="ignore")
    return f"{kept}{end}"
