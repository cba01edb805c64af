"""What is paid: every replica from its order (or from its place, where it had to wait for one) to its end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """One replica's paid time, boot and drain included. ``end_s`` None: it lasts. ``cost``: per replica-hour."""

    begin_s: float
    end_s: float | None
    cost: float


def paid_hours(stays: Iterable[Stay], *, since_s: float, until_s: float) -> float:
    """Replica-hours within [since_s, until_s], weighted by cost."""
    total = 0.0
    for stay in stays:
        end_s = until_s if stay.end_s is None else min(stay.end_s, until_s)
        total += stay.cost * max(0.0, end_s - max(stay.begin_s, since_s))
    return total / 3600.0
