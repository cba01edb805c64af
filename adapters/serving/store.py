"""The board: each service's latest decision and its recent past, written by the controller, read by anybody."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from adapters.serving.timeline import Point, Timeline, point_of
from adapters.serving.totals import Ticks, Totals
from autoscaler.domain.plan import Hold, Reason, ServiceDecision
from autoscaler.domain.service import Service, ServiceId

_CHANGES_KEPT = 40
_POINTS_IN_ALL = 150_000  # about 50 MB
_FEWEST_POINTS = 60


class DecisionHistory(Protocol):
    """Where past decisions are kept."""

    def decisions(self, service: ServiceId, since_s: float, until_s: float, limit: int) -> Sequence[ServiceDecision]:
        """The newest ``limit`` decisions made in [since_s, until_s], oldest first. Raises PortError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A moment at which the desired number, or whether the service is held, became another."""

    at_s: float
    before: int
    after: int
    reason: Reason
    held: bool
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One service on the board. ``service``: its configuration, None where there is none.

    ``decision``: the latest, None before the first. ``changes``: newest first. ``version``: the board's at the last
    change of this entry.
    """

    service: Service | None
    timeline: Timeline
    decision: ServiceDecision | None = None
    changes: tuple[Change, ...] = ()
    totals: Totals = field(default_factory=Totals)
    version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """The whole board at one moment. ``stale_after_s``: from which age on a decision is no longer to be relied on.

    ``decided_by``: which other process decides, None where this one does.
    """

    stale_after_s: float
    decided_by: str | None = None
    entries: Mapping[ServiceId, Entry] = field(default_factory=dict)
    ticks: Ticks = field(default_factory=Ticks)
    last_tick_s: float | None = None
    version: int = 0


class DecisionBoard:
    """A DecisionStore and, of the latest decisions alone, a DecisionHistory.

    Every change makes a new ``Board`` that replaces the old by reference: a reader keeps what it took and never waits
    for the writer, nor the writer for a reader.
    """

    def __init__(
        self,
        *,
        services: Sequence[Service],
        stale_after_s: float,
        keep_s: float = 7200.0,
        max_points: int = 720,
    ) -> None:
        """``keep_s`` and ``max_points`` bound each service's timeline; many services share a total of points."""
        self._keep_s = keep_s
        self._max_points = max_points
        self._writing = threading.Lock()
        self._readers: tuple[Callable[[], None], ...] = ()
        self._board = Board(stale_after_s=stale_after_s)
        self.configure(services=services, stale_after_s=stale_after_s)

    @property
    def board(self) -> Board:
        """The board now."""
        return self._board

    def configure(self, *, services: Sequence[Service], stale_after_s: float) -> None:
        """Take in a new configuration; services that it no longer has leave the board."""
        with self._writing:
            board, version = self._board, self._board.version + 1
            points = self._points_each(len(services))
            entries = {}
            for service in sorted(services, key=lambda service: service.id):
                entry = board.entries.get(service.id) or self._empty()
                entries[service.id] = replace(
                    entry, service=service, timeline=entry.timeline.resized(points), version=version
                )
            self._board = replace(board, stale_after_s=stale_after_s, entries=entries, version=version)
        self._tell_readers()

    def publish(self, decision: ServiceDecision) -> None:
        """Make it the service's latest."""
        with self._writing:
            board, version = self._board, self._board.version + 1
            entry = board.entries.get(decision.service) or self._empty()
            point = point_of(decision, entry.service)
            # The first decision of this process has nothing before it that it could be charged with.
            before = entry.timeline.points[-1] if entry.totals.decisions else None
            entry = replace(
                _with(entry, decision, point),
                totals=entry.totals.after(decision, point, before, board.stale_after_s),
                version=version,
            )
            self._board = replace(
                board,
                entries={**board.entries, decision.service: entry},
                last_tick_s=max(decision.at_s, board.last_tick_s or decision.at_s),
                version=version,
            )
        self._tell_readers()

    def leave_to(self, decided_by: str | None) -> None:
        """Another process decides, and what is on this board gets old; None: this one decides."""
        with self._writing:
            if decided_by == self._board.decided_by:
                return
            self._board = replace(self._board, decided_by=decided_by, version=self._board.version + 1)
        self._tell_readers()

    def prefill(self, decisions: Iterable[ServiceDecision]) -> None:
        """Fill the past of the configured services from what was recorded, oldest first, before the first tick.

        The last of them is shown as the latest decision, at its real age. Totals count this process alone.
        """
        with self._writing:
            board, version = self._board, self._board.version + 1
            entries = dict(board.entries)
            for decision in decisions:
                entry = entries.get(decision.service)
                if entry is not None:
                    point = point_of(decision, entry.service)
                    entries[decision.service] = replace(_with(entry, decision, point), version=version)
            self._board = replace(board, entries=entries, version=version)
        self._tell_readers()

    def ticked(self, *, at_s: float, duration_s: float) -> None:
        """A round of the control loop that began at ``at_s`` has ended; also called where there is no service."""
        with self._writing:
            board = self._board
            self._board = replace(
                board,
                ticks=board.ticks.after(at_s, duration_s),
                last_tick_s=max(at_s, board.last_tick_s or at_s),
            )

    def subscribe(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call ``wake`` after each change, in the writer's thread: it must return at once and raise nothing.

        Returns the function that ends it.
        """
        with self._writing:
            self._readers = (*self._readers, wake)

        def unsubscribe() -> None:
            with self._writing:
                self._readers = tuple(reader for reader in self._readers if reader is not wake)

        return unsubscribe

    def decisions(self, service: ServiceId, since_s: float, until_s: float, limit: int) -> Sequence[ServiceDecision]:
        """The latest decision, where it was made in [since_s, until_s]."""
        entry = self._board.entries.get(service)
        latest = entry.decision if entry else None
        return (latest,) if latest and limit > 0 and since_s <= latest.at_s <= until_s else ()

    def _empty(self) -> Entry:
        points = self._points_each(len(self._board.entries) + 1)
        return Entry(service=None, timeline=Timeline(keep_s=self._keep_s, max_points=points))

    def _points_each(self, services: int) -> int:
        return min(self._max_points, max(_FEWEST_POINTS, _POINTS_IN_ALL // max(1, services)))

    def _tell_readers(self) -> None:
        for wake in self._readers:
            wake()


def why(decision: ServiceDecision) -> str:
    """The sentence that belongs to a decision's reason; empty where no stage wrote one."""
    if isinstance(decision.outcome, Hold):
        return decision.outcome.detail
    matching = [stage.detail for stage in decision.stages if stage.reason == decision.binding and stage.detail]
    return matching[-1] if matching else ""


def _with(entry: Entry, decision: ServiceDecision, point: Point) -> Entry:
    """The entry with one more decision on its timeline and, if it is one, among its changes."""
    before = entry.timeline.points[-1] if entry.timeline.points else None
    desired = before.desired if before else sum(target.replicas for target in decision.current)
    held = before.held if before else None
    changes = entry.changes
    if point.desired != desired or point.held != held:
        change = Change(
            at_s=point.at_s,
            before=desired,
            after=point.desired,
            reason=point.held or point.binding,
            held=point.held is not None,
            detail=why(decision),
        )
        changes = (change, *changes)[:_CHANGES_KEPT]
    return replace(entry, decision=decision, timeline=entry.timeline.with_point(point), changes=changes)
