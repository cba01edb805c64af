"""Stages over all services at which one service's fault holds only itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import TypeVar

from autoscaler.domain.service import ServiceId

Before = TypeVar("Before")
After = TypeVar("After")


def one_by_one(
    work: Callable[[Before], After], items: Mapping[ServiceId, Before], faults: dict[ServiceId, Exception]
) -> dict[ServiceId, After]:
    """What ``work`` makes of each item; where it raises, the error is put in ``faults`` and the item left out."""
    done: dict[ServiceId, After] = {}
    for service, item in items.items():
        try:
            done[service] = work(item)
        except Exception as error:  # one service's fault must not become everybody's
            faults[service] = error
    return done


def together(
    work: Callable[[Sequence[Before]], Sequence[After]],
    items: Mapping[ServiceId, Before],
    faults: dict[ServiceId, Exception],
) -> dict[ServiceId, After]:
    """What ``work``, which must be pure, makes of all items at once.

    Where it raises it is given each half by itself, and so on down to the items at fault: these are left out, and the
    error is put in ``faults``.
    """
    if not items:
        return {}
    try:
        return dict(zip(items, work(list(items.values())), strict=True))
    except Exception as error:
        if len(items) == 1:
            faults[next(iter(items))] = error
            return {}
    half = len(items) // 2
    first, second = dict(islice(items.items(), half)), dict(islice(items.items(), half, None))
    return together(work, first, faults) | together(work, second, faults)
