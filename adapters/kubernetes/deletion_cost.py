"""Which pods are to go when a ReplicaSet gets smaller. Pure.

A ReplicaSet lets go of unassigned, pending and unready pods before any ready one, and among equals of the lowest
``pod-deletion-cost`` (Kubernetes docs, "ReplicaSet", pod deletion cost; pkg/controller/controller_utils.go,
ActivePodsWithRanks). StatefulSets and LeaderWorkerSets let go of their highest ordinal and know no cost.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

COST_ANNOTATION: Final = "controller.kubernetes.io/pod-deletion-cost"
# Below whatever users set themselves, and known again as ours by its value.
MARK: Final = -2_000_000_000


class Standing(IntEnum):
    """How far a pod has come; the smaller goes first."""

    UNSCHEDULABLE = 0
    STARTING = 1
    READY = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A pod that may go; those that already end are none.

    ``in_flight``: requests that it works on, None where that is not known (it may be busy). ``cost``: its present
    deletion cost, None without one.
    """

    name: str
    uid: str
    standing: Standing
    created_s: float
    in_flight: float | None = None
    cost: int | None = None


def leaving(candidates: Sequence[Candidate], *, count: int) -> tuple[Candidate, ...]:
    """Those that should go: not yet ready ones first, then those with the least to lose, the youngest of equals."""
    return tuple(sorted(candidates, key=_worth)[: max(0, count)])


def marks(candidates: Sequence[Candidate], *, count: int) -> Mapping[str, int | None]:
    """The changes of cost, by name of the pod, that make the ``count`` right ones go; None takes a mark away.

    No more than needed: pods that are marked already, or go first anyway because no node takes them, are left out.
    """
    going = {each.name for each in leaving(candidates, count=count)}
    changes: dict[str, int | None] = {}
    for each in candidates:
        marked = each.cost == MARK
        if each.name in going and not marked and each.standing is not Standing.UNSCHEDULABLE:
            changes[each.name] = MARK
        elif each.name not in going and marked:
            changes[each.name] = None
    return changes


def _worth(candidate: Candidate) -> tuple[int, float, float, str]:
    busy = math.inf if candidate.in_flight is None else candidate.in_flight
    # What is not ready has nothing in flight, whatever is known of it.
    return (
        candidate.standing,
        busy if candidate.standing is Standing.READY else 0.0,
        -candidate.created_s,
        candidate.name,
    )
