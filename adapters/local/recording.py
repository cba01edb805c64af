"""Reading a state file, also while a controller writes it: decisions to explain, ticks to compute again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from adapters.local.database import FILE_NAME, Row, read_rows
from adapters.local.journal import TickInputs, unpack
from adapters.local.record import ReplicaRecord
from autoscaler.codec import decode
from autoscaler.domain.cluster import ClusterSnapshot, Device, Target
from autoscaler.domain.params import Plans
from autoscaler.domain.plan import Decision, ServiceDecision
from autoscaler.domain.service import ServiceId
from autoscaler.domain.state import ControllerState, Tick
from autoscaler.ports import InvalidAnswerError

T = TypeVar("T")

_END = 2**63 - 1  # the largest number that SQLite holds


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Ticks in a row, the state that the first was decided from, and the plans of all of them."""

    state: ControllerState
    plans: Plans
    ticks: tuple[Tick, ...]


class Recording:
    """What lies in a state file. Every method raises UnavailableError (no such file, unreadable) and
    InvalidAnswerError (its contents are of another version).
    """

    def __init__(self, path: Path) -> None:
        """``path``: a state directory or a state file."""
        self._path = path / FILE_NAME if path.is_dir() else path

    def services(self) -> tuple[ServiceId, ...]:
        """Services that any kept decision is about, sorted."""
        rows = read_rows(self._path, "SELECT DISTINCT service FROM decisions ORDER BY service")
        return tuple(ServiceId(service) for (service,) in rows)

    def decisions(
        self, service: ServiceId, *, since_s: float, until_s: float, limit: int
    ) -> tuple[ServiceDecision, ...]:
        """The latest ``limit`` decisions with ``since_s`` <= time <= ``until_s``, oldest first."""
        rows = read_rows(
            self._path,
            "SELECT body FROM decisions WHERE service = ? AND at_s >= ? AND at_s <= ? ORDER BY seq DESC LIMIT ?",
            (service, since_s, until_s, limit),
        )
        return tuple(_read(ServiceDecision, body) for (body,) in reversed(rows))

    def decision_at(self, service: ServiceId, at_s: float) -> ServiceDecision | None:
        """The decision that was in force at ``at_s``: the last one made until then. None where none is kept."""
        found = self.decisions(service, since_s=float("-inf"), until_s=at_s, limit=1)
        return found[0] if found else None

    def segments(self) -> Iterator[Segment]:
        """Everything that can be computed again, oldest first; at most the ticks of one checkpoint at a time."""
        marks = [seq for (seq,) in read_rows(self._path, "SELECT after_seq FROM checkpoints ORDER BY after_seq")]
        for after, before in pairwise([*marks, _END]):
            ticks = self._ticks(after, before)
            checkpoint = read_rows(self._path, "SELECT state, plans FROM checkpoints WHERE after_seq = ?", (after,))
            if ticks and checkpoint:  # else trimmed meanwhile
                state, plans = checkpoint[0]
                yield Segment(
                    state=_read(ControllerState, state),
                    plans=_read(Plans, plans),
                    ticks=ticks,
                )

    def fleet(self, *, at_s: float, devices: tuple[Device, ...]) -> ClusterSnapshot:
        """The local replicas and targets as last kept, whether or not they still live."""
        try:
            replicas = tuple(
                decode(ReplicaRecord, body).replica()
                for (body,) in read_rows(self._path, "SELECT body FROM replicas ORDER BY name")
            )
        except ValueError as error:
            raise InvalidAnswerError(f"{self._path} is of another version: {error}") from error
        targets = tuple(
            Target(service=ServiceId(service), variant=variant, replicas=count)
            for service, variant, count in read_rows(
                self._path, "SELECT service, variant, replicas FROM targets ORDER BY service, variant"
            )
        )
        return ClusterSnapshot(at_s=at_s, devices=devices, replicas=replicas, targets=targets)

    def _ticks(self, after: int, last: int) -> tuple[Tick, ...]:
        """Ticks that follow each other without a gap: what comes after a lost one has another state before it."""
        bodies = read_rows(
            self._path, "SELECT seq, body FROM ticks WHERE seq > ? AND seq <= ? ORDER BY seq", (after, last)
        )
        decided: dict[int, list[ServiceDecision]] = {}
        for seq, body in read_rows(
            self._path,
            "SELECT seq, body FROM decisions WHERE seq > ? AND seq <= ? ORDER BY seq, service",
            (after, last),
        ):
            decided.setdefault(seq, []).append(_read(ServiceDecision, body))
        return tuple(_tick(row, decided) for place, row in enumerate(bodies) if row[0] == after + 1 + place)


def _tick(row: Row, decided: dict[int, list[ServiceDecision]]) -> Tick:
    seq, body = row
    inputs = _read(TickInputs, body)
    return Tick(
        now_s=inputs.now_s,
        snapshot=inputs.snapshot,
        observations=inputs.observations,
        decision=Decision(at_s=inputs.decided_s, services=tuple(decided.get(seq, ()))),
    )


def _read(kind: type[T], body: bytes) -> T:
    try:
        return unpack(kind, body)
    except ValueError as error:
        raise InvalidAnswerError(f"a stored {kind.__name__} can't be read: {error}") from error
