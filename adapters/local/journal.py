"""Ticks, decisions and the controller's memory in the state file: explained, computed again, continued later."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from adapters.local.database import Database, StateLostError, Statement
from autoscaler.codec import decode, encode
from autoscaler.domain.cluster import ClusterSnapshot
from autoscaler.domain.params import Plans
from autoscaler.domain.reading import Observations
from autoscaler.domain.state import ControllerState, Tick
from autoscaler.ports import InvalidAnswerError, PortError

_log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class TickInputs:
    """A tick without its decision, which is stored by service. ``decided_s``: the time that the decision bears."""

    now_s: float
    decided_s: float
    snapshot: ClusterSnapshot
    observations: Observations


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long and how much is kept; the oldest of inputs and of decisions goes first.

    ``checkpoint_every_s``: how far apart states are from which recorded ticks can be computed again.
    ``state_every_s``: how old the memory may be that a controller ended by a crash leaves to the next one.
    """

    decisions_s: float = 7 * 86_400.0
    inputs_s: float = 86_400.0
    max_bytes: int = 512 * 1024 * 1024
    checkpoint_every_s: float = 600.0
    state_every_s: float = 30.0
    trim_every_s: float = 60.0


def pack(value: object) -> bytes:
    """Compressed canonical JSON. Raises ValueError."""
    return zlib.compress(encode(value), 6)


def unpack(kind: type[T], data: bytes) -> T:
    """What ``pack`` wrote. Raises ValueError."""
    try:
        return decode(kind, zlib.decompress(data))
    except zlib.error as error:
        raise ValueError(f"not compressed data: {error}") from error


class SqliteJournal:
    """The controller's Journal.

    Ticks are numbered in the order of recording, so a stepped clock mixes nothing up. A checkpoint is the state that
    the ticks after it were decided from, with the plans (services and parameters) they were decided for.
    """

    def __init__(self, database: Database, *, now_s: Callable[[], float], retention: Retention | None = None) -> None:
        """Entries from the future (the clock was ahead in an earlier run) are dropped. Raises PortError."""
        self._database = database
        self._state: ControllerState | None = None
        self._state_kept = True
        self._last_s = now_s()
        self._retention = retention or Retention()
        self._start(self._last_s)

    def restore(self) -> ControllerState | None:
        """The memory that was last kept: after a clean end the latest, after a crash up to ``state_every_s`` older.

        Somewhat older does no harm: a fresh controller lowers nothing before its window is full. The times in it are
        returned as they were, also where the clock was stepped back since. None where there is none, or none that
        this version can read.
        """
        restored = None
        try:
            rows = self._database.read("SELECT state FROM latest")
            restored = unpack(ControllerState, rows[0][0]) if rows else None
        except (PortError, ValueError) as error:
            _log.warning("the controller's memory can't be read, it starts anew: %s", error)
        # The first tick will be decided from this.
        self._state = restored or ControllerState(services={})
        return restored

    def record(self, tick: Tick, plans: Plans, next_state: ControllerState) -> None:
        """Keep one tick. Raises PortError; then this tick is missing, and the next one begins a new checkpoint."""
        try:
            try:
                self._record(tick, plans, next_state)
            except StateLostError:
                self._start(tick.now_s)
                self._record(tick, plans, next_state)
            self._trim(tick.now_s)
        except PortError:
            self._leave_gap()
            raise
        except ValueError as error:
            self._leave_gap()
            raise InvalidAnswerError(f"a tick can't be recorded: {error}") from error

    def close(self) -> None:
        """Keep the latest memory. Raises PortError."""
        if self._state is not None and not self._state_kept:
            self._database.write([self._latest(self._last_s, self._state)])
            self._state_kept = True

    def _start(self, now_s: float) -> None:
        self._database.write(
            [(f"DELETE FROM {table} WHERE at_s > ?", (now_s,)) for table in ("ticks", "decisions", "checkpoints")]
        )
        rows = self._database.read(
            "SELECT max(seq) FROM (SELECT max(seq) AS seq FROM ticks UNION ALL SELECT max(seq) FROM decisions"
            " UNION ALL SELECT max(after_seq) FROM checkpoints)"
        )
        self._seq = int(rows[0][0] or 0)
        self._leave_gap()
        self._state_kept = True
        self._plans: Plans | None = None
        self._packed_plans = b""
        self._last_s = now_s
        self._checkpoint_s = self._state_s = self._trim_s = float("-inf")

    def _leave_gap(self) -> None:
        """Skip a number: the next tick was not decided from the state after the last recorded one."""
        self._seq += 1
        self._state = None

    def _record(self, tick: Tick, plans: Plans, next_state: ControllerState) -> None:
        seq, at_s = self._seq + 1, tick.now_s
        packed_plans = self._packed_plans if plans is self._plans else pack(plans)
        inputs = TickInputs(
            now_s=at_s,
            decided_s=tick.decision.at_s,
            snapshot=tick.snapshot,
            observations=tick.observations,
        )
        statements: list[Statement] = [("INSERT INTO ticks VALUES (?, ?, ?)", (seq, at_s, pack(inputs)))]
        statements.extend(
            ("INSERT INTO decisions VALUES (?, ?, ?, ?)", (seq, part.service, at_s, pack(part)))
            for part in tick.decision.services
        )
        checkpoints = self._checkpoints(seq, at_s, next_state, packed_plans)
        statements.extend(checkpoints)
        keep_state = at_s - self._state_s >= self._retention.state_every_s
        if keep_state:
            statements.append(self._latest(at_s, next_state))
        self._database.write(statements)
        self._checkpoint_s = at_s if checkpoints else self._checkpoint_s
        self._state_kept = keep_state
        self._state_s = at_s if keep_state else self._state_s
        self._seq, self._last_s, self._state = seq, at_s, next_state
        self._plans, self._packed_plans = plans, packed_plans

    def _checkpoints(self, seq: int, at_s: float, next_state: ControllerState, packed_plans: bytes) -> list[Statement]:
        """Before this tick where the plans are others than before; else after it, where one is due."""
        sql = "REPLACE INTO checkpoints VALUES (?, ?, ?, ?)"
        if self._state is not None and packed_plans != self._packed_plans:
            return [(sql, (seq - 1, self._last_s, pack(self._state), packed_plans))]
        if self._state is None or at_s - self._checkpoint_s >= self._retention.checkpoint_every_s:
            return [(sql, (seq, at_s, pack(next_state), packed_plans))]
        return []

    def _latest(self, at_s: float, state: ControllerState) -> Statement:
        return "REPLACE INTO latest VALUES (1, ?, ?)", (at_s, pack(state))

    def _trim(self, now_s: float) -> None:
        if now_s - self._trim_s < self._retention.trim_every_s:
            return
        self._trim_s = now_s
        keep = self._retention
        self._database.write(
            [
                ("DELETE FROM ticks WHERE at_s < ?", (now_s - keep.inputs_s,)),
                ("DELETE FROM decisions WHERE at_s < ?", (now_s - keep.decisions_s,)),
                _DROP_UNUSED_CHECKPOINTS,
            ]
        )
        while self._database.used_bytes() > keep.max_bytes and self._drop_oldest():
            pass
        self._database.shrink()

    def _drop_oldest(self) -> bool:
        """Drop the oldest eighth of the inputs and of the decisions; False: nothing is left to drop."""
        statements: list[Statement] = []
        for table in ("ticks", "decisions"):
            first, last = self._database.read(f"SELECT min(seq), max(seq) FROM {table}")[0]
            if first is not None and first < last:
                statements.append((f"DELETE FROM {table} WHERE seq < ?", (first + (last - first) // 8 + 1,)))
        self._database.write([*statements, _DROP_UNUSED_CHECKPOINTS])
        return bool(statements)


# The newest checkpoint before the oldest tick is the one that this tick was decided from: it stays.
_DROP_UNUSED_CHECKPOINTS: Statement = (
    """DELETE FROM checkpoints WHERE after_seq < (SELECT max(after_seq) FROM checkpoints
       WHERE after_seq < (SELECT coalesce(min(seq), 9223372036854775807) FROM ticks))""",
    (),
)
