"""The whole decision, as a picture:

    measure -> learn -> forecast -> capacity -> size -> stabilize -> limit     each service by itself
                                                                       \\
                                                                        pack   all services, for the devices

Pure: the same arguments give the same decision, live, in a dry run and in a simulation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from autoscaler.domain.cluster import ClusterSnapshot, Phase, Replica, Target
from autoscaler.domain.demand import Demand, Forecast
from autoscaler.domain.params import Params
from autoscaler.domain.plan import Decision, Hold, Plan, Reason, ServiceDecision, VariantTarget
from autoscaler.domain.reading import Observations, Unknown, UnknownReason
from autoscaler.domain.service import Behavior, Service, ServiceId
from autoscaler.domain.state import ControllerState, ServiceState
from autoscaler.policy import explaining, learning
from autoscaler.policy.claiming import claim_of, holdings_of, options_of, per_unit, units_asked
from autoscaler.policy.correcting import correct, corrected
from autoscaler.policy.limits import limit
from autoscaler.policy.measuring import measure
from autoscaler.policy.packing import Allowance, Claim, pack
from autoscaler.policy.sizing import Fleet, preferred, size
from autoscaler.policy.stabilization import barred, down_window_s, stabilize
from autoscaler.policy.tuning import quantile
from autoscaler.policy.unplaceable import ceilings, unplaceable
from autoscaler.ports import Models

Owned = TypeVar("Owned", Replica, Target)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Assessed:
    """One service after its own stages, before the devices are shared out."""

    decision: ServiceDecision
    claim: Claim
    state: ServiceState
    hold: Hold | None
    kept_changes_s: float


def decide(
    *,
    now_s: float,
    state: ControllerState,
    services: Sequence[Service],
    snapshot: ClusterSnapshot,
    observations: Observations,
    models: Models,
    params: Params,
) -> tuple[Decision, ControllerState]:
    """What every service should have at ``now_s``, and the memory for the next tick.

    A service whose own stages fail holds with the error as its reason; the others are decided as ever.
    """
    assessed: list[_Assessed] = []
    parts: list[ServiceDecision] = []
    memory: dict[ServiceId, ServiceState] = {}
    replicas = _by_service(services, snapshot.replicas)
    targets = _by_service(services, snapshot.targets)
    for service in sorted(services, key=lambda service: service.id):
        known = state.services.get(service.id)
        try:
            each = _assess(
                now_s=now_s,
                service=service,
                state=known if known is not None else learning.fresh(service, models, params),
                snapshot=snapshot,
                replicas=replicas[service.id],
                targets=targets[service.id],
                observations=observations,
                models=models,
                params=params,
            )
        except Exception as error:  # one service's fault must not become everybody's
            parts.append(_broken(now_s, service, replicas[service.id], targets[service.id], error))
            if known is not None:
                memory[service.id] = known
        else:
            assessed.append(each)
    still = [*parts, *(each.decision for each in assessed if each.hold is not None)]
    allowances = pack(
        [each.claim for each in assessed if each.hold is None],
        snapshot.devices,
        holdings=holdings_of(still, services, replicas),
        quotas=snapshot.quotas,
    )
    for each in assessed:
        allowance = allowances.get(each.claim.service)
        part, memory[each.claim.service] = (
            _conclude(now_s, each, allowance) if allowance is not None else _left_alone(each)
        )
        parts.append(part)
    parts.sort(key=lambda part: part.service)
    return Decision(at_s=now_s, services=tuple(parts)), ControllerState(services=memory)


def _assess(
    *,
    now_s: float,
    service: Service,
    state: ServiceState,
    snapshot: ClusterSnapshot,
    replicas: Sequence[Replica],
    targets: Sequence[Target],
    observations: Observations,
    models: Models,
    params: Params,
) -> _Assessed:
    asked = _asked(service, targets)
    if state.seen_s > now_s:
        state = learning.without_future(state, models)
    measurement = measure(
        now_s=now_s, service=service, state=state, replicas=replicas, observations=observations, params=params
    )
    demand = measurement.demand
    state, lead_s = learning.learn(
        now_s=now_s,
        service=service,
        state=state,
        asked=sum(asked.values()),
        measurement=measurement,
        replicas=replicas,
        models=models,
        params=params,
    )
    forecast = _forecast(now_s, state, lead_s, models, params)
    fleet = _fleet(now_s, asked, replicas, demand, state)
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
    fleet = replace(fleet, asked=units_asked(options, asked, state.leaving))
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
    window_s = down_window_s(service.behavior.scale_down, forecast, params)
    up_window_s = service.behavior.scale_up.stabilization_window_s or 0.0
    state = learning.remember_requirement(now_s, state, requirement, kept_s=max(window_s, up_window_s))
    stable = stabilize(
        now_s=now_s,
        requirement=requirement,
        asked=fleet.asked,
        demand=demand,
        forecast=forecast,
        behavior=service.behavior,
        requirements=state.requirements,
        changes=state.changes,
        params=params,
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
        ages=explaining.ages(now_s, snapshot, measurement),
    )
    ready = Counter(each.variant for each in replicas if each.phase is Phase.READY)
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
    return _Assessed(
        decision=decision,
        claim=claim,
        state=state,
        hold=_hands_off(targets),
        kept_changes_s=_longest_period_s(service.behavior),
    )


def _conclude(now_s: float, assessed: _Assessed, allowance: Allowance) -> tuple[ServiceDecision, ServiceState]:
    """The decision with its last stage, and the memory with what was changed."""
    decision, state = assessed.decision, assessed.state
    stages = (*decision.stages, allowance.result)
    asked = sum(target.replicas for target in decision.current)
    granted = sum(target.replicas for target in allowance.targets)
    outcome = _outcome(assessed, allowance, asked, granted)
    decision = replace(decision, outcome=outcome, stages=stages, binding=explaining.binding(stages))
    state = learning.remember_change(now_s, state, decision.desired - asked, kept_s=assessed.kept_changes_s)
    starved = allowance.denied > 0 and granted == 0 and assessed.claim.needed > 0
    denied_since_s = (state.denied_since_s if state.denied_since_s is not None else now_s) if starved else None
    leaving = allowance.leaving if isinstance(outcome, Plan) else state.leaving
    if (denied_since_s, leaving) != (state.denied_since_s, state.leaving):
        state = replace(state, denied_since_s=denied_since_s, leaving=leaving)
    return decision, state


def _left_alone(assessed: _Assessed) -> tuple[ServiceDecision, ServiceState]:
    """A service whose count is not ours to change now: reported, not fought."""
    hold = assessed.hold or Hold(reason=Reason.INFEASIBLE)
    return replace(assessed.decision, outcome=hold, binding=hold.reason), assessed.state


def _hands_off(targets: Sequence[Target]) -> Hold | None:
    """Why the count is not to be changed: somebody else writes it, or a person has put it aside."""
    for target in targets:
        if target.foreign_owner is not None:
            return Hold(reason=Reason.FOREIGN_OWNER, detail=f"{target.foreign_owner} also writes the replica count")
    return next(
        (Hold(reason=Reason.SUSPENDED, detail=each.suspended) for each in targets if each.suspended is not None), None
    )


def _outcome(assessed: _Assessed, allowance: Allowance, asked: int, granted: int) -> Plan | Hold:
    demand = assessed.decision.demand
    infeasible = allowance.result.reason is Reason.NO_DEVICE_OF_KIND
    if infeasible or (allowance.denied > 0 and granted == asked):
        return Hold(reason=allowance.result.reason, detail=allowance.result.detail)
    if granted == asked and isinstance(demand, Demand) and isinstance(demand.short_rps, Unknown):
        return Hold(reason=Reason.UNKNOWN_DEMAND, detail=str(demand.short_rps))
    return Plan(targets=tuple(sorted(allowance.targets, key=lambda target: target.variant)))


def _by_service(services: Sequence[Service], owned: Iterable[Owned]) -> dict[ServiceId, list[Owned]]:
    grouped: dict[ServiceId, list[Owned]] = {service.id: [] for service in services}
    for each in owned:
        if each.service in grouped:
            grouped[each.service].append(each)
    return grouped


def _asked(service: Service, mine: Sequence[Target]) -> Mapping[str, int]:
    """Replicas asked for by variant."""
    asked = {variant.name: 0 for variant in service.variants}
    asked.update({target.variant: target.replicas for target in mine if target.variant in asked})
    return asked


def _forecast(now_s: float, state: ServiceState, lead_s: float, models: Models, params: Params) -> Forecast | Unknown:
    if not params.forecasting:
        return Unknown(UnknownReason.NOT_EXPORTED, "forecasting is switched off")
    told = quantile(state.theta, lead_s=lead_s, params=params)
    return models.forecaster.forecast(state.forecaster, now_s=now_s, lead_s=lead_s, quantile=told)


def _fleet(
    now_s: float, asked: Mapping[str, int], replicas: Sequence[Replica], demand: Demand, state: ServiceState
) -> Fleet:
    useless = {*demand.stuck, *demand.asleep}
    ready = {each.name for each in replicas if each.phase is Phase.READY}
    phases = [each.phase for each in replicas]
    return Fleet(
        asked=sum(max(0, count - state.leaving.get(name, 0)) for name, count in asked.items()),
        serving=len(ready - useless),
        starting=phases.count(Phase.STARTING),
        broken=phases.count(Phase.FAILED) + len(ready & useless),
        up_s=now_s - state.woken_s if state.woken_s is not None else None,
    )


def _longest_period_s(behavior: Behavior) -> float:
    policies = (*behavior.scale_up.policies, *behavior.scale_down.policies)
    return max((policy.period_s for policy in policies), default=0.0)


def _broken(
    now_s: float, service: Service, replicas: Sequence[Replica], targets: Sequence[Target], error: Exception
) -> ServiceDecision:
    """A hold for a service whose decision failed."""
    asked = _asked(service, targets)
    phases = Counter(each.phase for each in replicas)
    unknown = Unknown(UnknownReason.CONTRADICTION, "the decision failed")
    return ServiceDecision(
        service=service.id,
        at_s=now_s,
        outcome=Hold(reason=Reason.SERVICE_ERROR, detail=f"{type(error).__name__}: {error}"),
        stages=(),
        binding=Reason.SERVICE_ERROR,
        current=tuple(VariantTarget(variant=name, replicas=count) for name, count in asked.items()),
        demand=unknown,
        forecast=unknown,
        capacity=unknown,
        ready=phases[Phase.READY],
        starting=phases[Phase.STARTING],
        draining=phases[Phase.DRAINING],
        failed=phases[Phase.FAILED],
        lead_s=0.0,
    )
