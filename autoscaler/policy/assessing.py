"""One service's own stages: measured before all have learned, and from its forecast on sized, steadied and limited."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from autoscaler.domain.cluster import ClusterSnapshot, Phase, Replica, Target
from autoscaler.domain.demand import Forecast
from autoscaler.domain.params import Params
from autoscaler.domain.plan import Hold, Reason, ServiceDecision, VariantTarget
from autoscaler.domain.reading import Observations, Unknown
from autoscaler.domain.service import Behavior, Service
from autoscaler.domain.state import ServiceState
from autoscaler.policy import explaining, learning
from autoscaler.policy.claiming import claim_of, options_of, per_unit, units, units_asked
from autoscaler.policy.correcting import correct, corrected
from autoscaler.policy.learning import Starts
from autoscaler.policy.limits import limit
from autoscaler.policy.measuring import Measurement, measure
from autoscaler.policy.packing import Claim
from autoscaler.policy.sizing import Fleet, preferred, size
from autoscaler.policy.stabilization import barred, down_window_s, stabilize
from autoscaler.policy.supply import Supply, due, supply, with_asked
from autoscaler.policy.unplaceable import ceilings, unplaceable
from autoscaler.ports import Models


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One service and what is seen of it. ``state``: as it was before this tick, but for what is asked for.

    ``asked``: replicas by variant. ``due``: of all variants, as many have been asked for for long enough to be there.
    """

    service: Service
    state: ServiceState
    replicas: Sequence[Replica]
    targets: Sequence[Target]
    asked: Mapping[str, int]
    measurement: Measurement
    started: Starts
    supply: Supply
    due: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessed:
    """One service after its own stages, before the devices are shared out.

    ``serving``: replicas. ``lacking``: fewer serve than are needed; ``hindered``: and not because they were just asked
    for.
    """

    decision: ServiceDecision
    claim: Claim
    state: ServiceState
    hold: Hold | None
    kept_changes_s: float
    serving: int
    lacking: bool
    hindered: bool


def measured(
    *,
    now_s: float,
    service: Service,
    state: ServiceState,
    replicas: Sequence[Replica],
    targets: Sequence[Target],
    observations: Observations,
    models: Models,
    params: Params,
) -> Measured:
    """The demand of a service, and the lead time of its replicas."""
    if state.seen_s > now_s:
        state = learning.without_future(state)
    measurement = measure(
        now_s=now_s, service=service, state=state, replicas=replicas, observations=observations, params=params
    )
    started = learning.starts(
        now_s=now_s, service=service, state=state, replicas=replicas, models=models, params=params
    )
    useless = {*measurement.demand.stuck, *measurement.demand.asleep}
    asked = asked_of(service, targets)
    # What was only assumed says nothing of who is late.
    usual_s = started.usual_s if started.starts_s else math.inf
    kept = with_asked(state.asked, now_s=now_s, asked=sum(asked.values()), usual_s=started.usual_s)
    return Measured(
        service=service,
        state=state if kept is state.asked else replace(state, asked=kept),
        replicas=replicas,
        targets=targets,
        asked=asked,
        measurement=measurement,
        started=started,
        supply=supply(now_s, replicas, useless=useless, usual_s=usual_s),
        due=due(kept, now_s=now_s, usual_s=usual_s),
    )


def assessed(
    seen: Measured,
    *,
    now_s: float,
    state: ServiceState,
    forecast: Forecast | Unknown,
    snapshot: ClusterSnapshot,
    models: Models,
    params: Params,
) -> Assessed:
    """From the forecast to the claim. ``state``: with what was learned at this tick."""
    service, replicas, targets, asked = seen.service, seen.replicas, seen.targets, seen.asked
    demand, lead_s = seen.measurement.demand, seen.started.lead_s
    fleet = _fleet(now_s, asked, replicas, seen.supply, state)
    capacities = {
        variant.name: models.capacity.capacity(
            state.capacities[variant.name],
            variant=variant,
            shape=demand.shape,
            slo=service.slo,
            # That of a fleet one smaller: each replica serves more in a larger one, and a load between the two rates
            # would else swing between the two counts.
            fleet=max(1, fleet.asked - 1),
        )
        for variant in service.variants
    }
    state = correct(
        state,
        now_s=now_s,
        service=service,
        demand=demand,
        replicas=replicas,
        capacities=capacities,
        params=params,
    )
    capacities = {name: corrected(each, state.correction) for name, each in capacities.items()}
    order = preferred(service, capacities, asked)
    capacity = capacities[order[0].name]
    if barred(demand) is None:
        found = unplaceable(now_s=now_s, service=service, replicas=replicas, known=state.unplaceable)
        state = replace(state, unplaceable=found) if found != state.unplaceable else state
    options = options_of(
        order,
        worth={variant.name: per_unit(capacity, capacities[variant.name]) for variant in order},
        targets=targets,
        replicas=replicas,
        ceilings=ceilings(state.unplaceable, replicas),
    )
    fleet = replace(
        fleet, asked=units_asked(options, asked, state.leaving), serving=units(options, seen.supply.serving, {})
    )
    requirement = size(
        service=service,
        demand=demand,
        forecast=forecast,
        capacity=capacity,
        fleet=fleet,
        peak_rps=learning.peak(state),
        lead_s=lead_s,
        params=params,
    )
    window_s = down_window_s(service.behavior.scale_down, forecast, measured_starts=len(state.starts_s), params=params)
    up_window_s = service.behavior.scale_up.stabilization_window_s or 0.0
    state = learning.remember_requirement(now_s, state, requirement, kept_s=max(window_s, up_window_s))
    stable = stabilize(
        now_s=now_s,
        requirement=requirement,
        asked=fleet.asked,
        demand=demand,
        behavior=service.behavior,
        window_s=window_s,
        requirements=state.requirements,
        changes=state.changes,
    )
    bounded = limit(fleet.asked if stable.replicas is None else stable.replicas, service.bounds)
    phases = [each.phase for each in replicas]
    decision = ServiceDecision(
        service=service.id,
        at_s=now_s,
        outcome=Hold(reason=Reason.UNKNOWN_DEMAND),
        stages=(
            explaining.measured(demand),
            explaining.foreseen(forecast),
            explaining.able(capacity),
            requirement.result,
            stable,
            bounded,
        ),
        binding=bounded.reason,
        current=tuple(VariantTarget(variant=name, replicas=count) for name, count in asked.items()),
        demand=demand,
        forecast=forecast,
        capacity=capacity,
        ready=phases.count(Phase.READY),
        starting=phases.count(Phase.STARTING),
        draining=phases.count(Phase.DRAINING),
        failed=phases.count(Phase.FAILED),
        lead_s=lead_s,
        ages=explaining.ages(now_s, snapshot, seen.measurement),
    )
    ready = Counter(each.variant for each in replicas if each.phase is Phase.READY)
    serving = sum(seen.supply.serving.values())
    claim = claim_of(
        service,
        options,
        units=bounded.replicas or 0,
        requirement=requirement,
        held=fleet.asked,
        asked=asked,
        ready=ready,
        demand=demand,
        waited_s=0.0 if state.denied_since_s is None else now_s - state.denied_since_s,
        lead_s=lead_s,
        params=params,
    )
    return Assessed(
        decision=decision,
        claim=claim,
        state=state,
        hold=_hands_off(targets),
        kept_changes_s=_longest_period_s(service.behavior),
        serving=serving,
        lacking=units_asked(options, seen.supply.serving, {}) < requirement.needed,
        hindered=not seen.supply.comes or seen.supply.broken > 0 or serving < seen.due or bool(state.unplaceable),
    )


def asked_of(service: Service, targets: Sequence[Target]) -> Mapping[str, int]:
    """Replicas asked for by variant."""
    asked = {variant.name: 0 for variant in service.variants}
    asked.update({target.variant: target.replicas for target in targets if target.variant in asked})
    return asked


def _hands_off(targets: Sequence[Target]) -> Hold | None:
    """Why the count is not to be changed: somebody else writes it, or a person has put it aside."""
    for target in targets:
        if target.foreign_owner is not None:
            return Hold(reason=Reason.FOREIGN_OWNER, detail=f"{target.foreign_owner} also writes the replica count")
    return next(
        (Hold(reason=Reason.SUSPENDED, detail=each.suspended) for each in targets if each.suspended is not None), None
    )


def _fleet(
    now_s: float, asked: Mapping[str, int], replicas: Sequence[Replica], supplied: Supply, state: ServiceState
) -> Fleet:
    return Fleet(
        asked=sum(max(0, count - state.leaving.get(name, 0)) for name, count in asked.items()),
        serving=sum(supplied.serving.values()),
        starting=sum(each.phase is Phase.STARTING for each in replicas),
        broken=supplied.broken,
        comes=supplied.comes,
        up_s=now_s - state.woken_s if state.woken_s is not None else None,
    )


def _longest_period_s(behavior: Behavior) -> float:
    policies = (*behavior.scale_up.policies, *behavior.scale_down.policies)
    return max((policy.period_s for policy in policies), default=0.0)
