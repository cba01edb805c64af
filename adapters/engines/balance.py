"""Arrivals from a balance: what has come is what has gone plus what is still there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from autoscaler.domain.reading import Measured, Unknown


def balance(scalars: Mapping[str, Measured], names: Iterable[str]) -> Measured:
    """The sum of these signals, or the first unknown among them: a part of a balance is none."""
    total = 0.0
    for name in names:
        value = scalars[name]
        if isinstance(value, Unknown):
            return value
        total += value
    return total
