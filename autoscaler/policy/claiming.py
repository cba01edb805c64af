"""What a service asks of the shared devices: from its own stages' numbers to a claim for packing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from autoscaler.domain.capacity import ReplicaCapacity
from autoscaler.domain.demand import Demand
from autoscaler.domain.params import Params
from autoscaler.domain.plan import ServiceDecision
from autoscaler.domain.reading import Unknown
from autoscaler.domain.service import Service
from autoscaler.policy.packing import Claim, Option
from autoscaler.policy.sizing import Requirement
from autoscaler.policy.stabilization import barred

_MOST_PER_UNIT = 20.0


def claim_of(
    service: Service,
    options: tuple[Option, ...],
    *,
    units: int,
    requirement: Requirement,
    held: int,
    asked: Mapping[str, int],
    ready: Mapping[str, int],
    demand: Demand,
    waited_s: float,
    lead_s: float,
    params: Params,
) -> Claim:
    return Claim(
        service=service.id,
        priority=service.priority,
        units=units,
        # a service that nobody asks anything of right now makes room at once
        needed=0 if isinstance(demand.idle_s, float) and demand.idle_s > 0 else min(units, requirement.up),
        minimum=service.bounds.min_replicas,
        most=service.bounds.max_replicas,
        # what may not be given up on the present knowledge can't be taken by another service either
        locked=held if barred(demand) is not None else 0,
        options=options,
        held=held,
        asked=asked,
        ready=ready,
        # A turn is worth taking only if it is longer than the start it costs.
        overdue=waited_s > max(params.turn_s, 2 * lead_s),
    )


def per_unit(unit: ReplicaCapacity | Unknown, other: ReplicaCapacity | Unknown) -> float:
    """How many replicas of the other variant serve as much as one unit; one where either is unknown.

    Ratios beyond all variants that anybody would mix say that one capacity is wrong.
    """
    if isinstance(unit, Unknown) or isinstance(other, Unknown):
        return 1.0
    return min(_MOST_PER_UNIT, max(1 / _MOST_PER_UNIT, unit.rps / other.rps))


def units_asked(options: Sequence[Option], asked: Mapping[str, int], leaving: Mapping[str, int]) -> int:
    """What was asked for, in replicas of the first option; what is only kept until it is replaced does not count."""
    worth = sum(max(0, asked[option.variant] - leaving.get(option.variant, 0)) / option.per_unit for option in options)
    return math.ceil(worth - 1e-9)


def devices_of(decisions: Sequence[ServiceDecision], services: Sequence[Service]) -> Counter[str]:
    """Devices by kind of services that stay as they are."""
    variants = {(service.id, variant.name): variant for service in services for variant in service.variants}
    taken: Counter[str] = Counter()
    for decision in decisions:
        for target in decision.current:
            devices = variants[decision.service, target.variant].devices
            if devices is not None:
                taken[devices.kind] += devices.count * target.replicas
    return taken
