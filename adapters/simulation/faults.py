"""What goes wrong in a simulated world, and when."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class FaultKind(StrEnum):
    """A kind of fault. Those of the metrics first, then of the cluster's API, of its replicas, of the controller."""

    SOURCE_DOWN = "source-down"
    """No page can be read: every replica and gateway is Unknown(UNREACHABLE)."""
    EMPTY_PAGES = "empty-pages"
    """Pages come without a series on them."""
    NOT_A_NUMBER = "not-a-number"
    """Every value on the pages is NaN."""
    STALE_PAGES = "stale-pages"
    """Pages stay as they were at the begin, with the time at which they were made."""
    FROZEN_PAGES = "frozen-pages"
    """Pages stay as they were at the begin, and bear the present time."""
    PART_DARK = "part-dark"
    """``amount`` of the replicas can't be read (0 to 1)."""
    SKEWED_CLOCK = "skewed-clock"
    """Pages bear times that are ``amount`` seconds ahead (behind, where negative)."""
    INVENTORY_DOWN = "inventory-down"
    """What exists can't be read."""
    CONFLICT = "conflict"
    """Every change is refused: somebody else has changed the object meanwhile."""
    MANUAL_EDIT = "manual-edit"
    """At the begin somebody adds ``amount`` to the count by hand."""
    CRASH = "crash"
    """At the begin ``amount`` of the ready replicas crash (0 to 1)."""
    CRASH_LOOP = "crash-loop"
    """No start succeeds."""
    SLOW_START = "slow-start"
    """Starts take ``amount`` times as long."""
    UNSCHEDULABLE = "unschedulable"
    """No replica is given a place."""
    LEADER_CHANGE = "leader-change"
    """The controller ends at the begin; another continues from its journal at the end."""


_AMOUNTS = {
    FaultKind.PART_DARK: 0.5,
    FaultKind.SKEWED_CLOCK: 120.0,
    FaultKind.MANUAL_EDIT: -2.0,
    FaultKind.CRASH: 0.5,
    FaultKind.SLOW_START: 5.0,
}
_SHARES = (FaultKind.PART_DARK, FaultKind.CRASH)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault from ``from_s`` until ``until_s``, seconds since the begin of the run.

    ``amount`` None: as usual for the kind (half of the replicas, two minutes, two replicas fewer, five times as long).
    """

    kind: FaultKind
    from_s: float
    until_s: float
    amount: float | None = None

    def __post_init__(self) -> None:
        if not (0 <= self.from_s <= self.until_s and math.isfinite(self.until_s)):
            raise ValueError(f"{self.kind}: need 0 <= from_s <= until_s, got {self.from_s} and {self.until_s}")
        if self.kind in _SHARES and not 0 <= self.size <= 1:
            raise ValueError(f"{self.kind}: the amount must lie in [0, 1], got {self.size}")
        if self.kind is FaultKind.SLOW_START and self.size <= 0:
            raise ValueError(f"{self.kind}: the amount must be positive, got {self.size}")

    @property
    def size(self) -> float:
        """Its amount, or the usual one."""
        return _AMOUNTS.get(self.kind, 0.0) if self.amount is None else self.amount


def active(faults: Sequence[Fault], kind: FaultKind, at_s: float) -> Fault | None:
    """The fault of that kind that is on at that time, if any is: from its begin to before its end."""
    return next((each for each in faults if each.kind is kind and each.from_s <= at_s < each.until_s), None)
