"""Replicas that no node takes: given back after a deadline, and not asked for again for a while.

Asking goes on elsewhere: another variant is tried meanwhile. A replica without a place serves nobody, so giving it
back takes nothing away; the place in the scheduler's queue that it holds is what another one may need.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autoscaler.domain.cluster import Phase, Replica
from autoscaler.domain.service import Service
from autoscaler.domain.state import Unplaceable


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """Replicas of a variant that have a place, and why no more are to be asked for."""

    most: int
    detail: str


def unplaceable(
    *, now_s: float, service: Service, replicas: Sequence[Replica], known: Mapping[str, Unplaceable]
) -> dict[str, Unplaceable]:
    """By variant, those that are not to be asked for in larger numbers, with what the scheduler said."""
    found = {name: each for name, each in known.items() if now_s < each.until_s}
    for replica in replicas:
        since_s = replica.unschedulable_since_s
        if since_s is not None and now_s - since_s >= service.unschedulable_deadline_s:
            waited = f"unschedulable for {now_s - since_s:.0f} s"
            detail = f"{waited}: {replica.detail}" if replica.detail else waited
            found[replica.variant] = Unplaceable(until_s=now_s + service.unschedulable_retry_s, detail=detail)
    return found


def ceilings(found: Mapping[str, Unplaceable], replicas: Sequence[Replica]) -> dict[str, Ceiling]:
    """What may be asked for of those variants: the replicas that have a place."""
    return {
        name: Ceiling(
            most=sum(
                each.variant == name and each.unschedulable_since_s is None and each.phase is not Phase.DRAINING
                for each in replicas
            ),
            detail=each_found.detail,
        )
        for name, each_found in found.items()
    }
