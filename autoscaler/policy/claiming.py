"""What a service asks of the shared devices: from its own stages' numbers to a claim for packing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from autoscaler.domain.capacity import ReplicaCapacity
from autoscaler.domain.cluster import Phase, Replica, Target
from autoscaler.domain.demand import Demand
from autoscaler.domain.params import Params
from autoscaler.domain.plan import Reason, ServiceDecision
from autoscaler.domain.reading import Unknown
from autoscaler.domain.service import Service, ServiceId, Variant
from autoscaler.policy.packing import Claim, Holding, Option
from autoscaler.policy.sizing import Requirement
from autoscaler.policy.stabilization import barred
from autoscaler.policy.unplaceable import Ceiling

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


def options_of(
    variants: Sequence[Variant],
    *,
    worth: Mapping[str, float],
    targets: Sequence[Target],
    replicas: Sequence[Replica],
    ceilings: Mapping[str, Ceiling],
) -> tuple[Option, ...]:
    """The variants as packing sees them, in the order in which they are preferred."""
    by_name = {target.variant: target for target in targets}
    return tuple(
        _option(variant, worth[variant.name], by_name.get(variant.name), replicas, ceilings.get(variant.name))
        for variant in variants
    )


def _option(
    variant: Variant, worth: float, target: Target | None, replicas: Sequence[Replica], ceiling: Ceiling | None
) -> Option:
    option = Option(
        variant=variant.name,
        devices=variant.devices,
        per_unit=worth,
        pools=target.pools if target is not None else None,
        priority=target.priority if target is not None else 0,
        most=target.most if target is not None else None,
        most_detail=target.most_detail if target is not None else "",
        placed=placed(replicas, variant.name),
    )
    if ceiling is not None and (option.most is None or ceiling.most <= option.most):
        option = replace(option, most=ceiling.most, most_reason=Reason.UNSCHEDULABLE, most_detail=ceiling.detail)
    return option


def per_unit(unit: ReplicaCapacity | Unknown, other: ReplicaCapacity | Unknown) -> float:
    """How many replicas of the other variant serve as much as one unit; one where either is unknown.

    Ratios beyond all variants that anybody would mix say that one capacity is wrong.
    """
    if isinstance(unit, Unknown) or isinstance(other, Unknown):
        return 1.0
    return min(_MOST_PER_UNIT, max(1 / _MOST_PER_UNIT, unit.rps / other.rps))


def units_asked(options: Sequence[Option], asked: Mapping[str, int], leaving: Mapping[str, int]) -> int:
    """What was asked for, in replicas of the first option; what is only kept until it is replaced does not count."""
    return math.ceil(units(options, asked, leaving) - 1e-9)


def units(options: Sequence[Option], counts: Mapping[str, int], leaving: Mapping[str, int]) -> float:
    """What replicas of all variants, but for those ``leaving``, are worth in replicas of the first option."""
    return sum(
        max(0, counts.get(option.variant, 0) - leaving.get(option.variant, 0)) / option.per_unit for option in options
    )


def holdings_of(
    decisions: Sequence[ServiceDecision], services: Sequence[Service], replicas: Mapping[ServiceId, Sequence[Replica]]
) -> list[Holding]:
    """Devices of services that stay as they are."""
    variants = {(service.id, variant.name): variant for service in services for variant in service.variants}
    return [
        Holding(
            service=decision.service,
            devices=devices,
            replicas=target.replicas,
            placed=placed(replicas[decision.service], target.variant),
        )
        for decision in decisions
        for target in decision.current
        if (devices := variants[decision.service, target.variant].devices) is not None
    ]


def placed(replicas: Sequence[Replica], variant: str) -> tuple[tuple[str, ...], ...]:
    """The nodes of a variant's replicas that have a place and are not about to leave it."""
    return tuple(
        each.nodes for each in replicas if each.variant == variant and each.nodes and each.phase is not Phase.DRAINING
    )
