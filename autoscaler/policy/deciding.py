"""The whole decision, as a picture:

    measure -> learn -> forecast -> capacity -> size -> stabilize -> limit     each service by itself
               `--------------'                                        \\
         reckoned for all at once                                       pack   all services, for the devices

Pure: the same arguments give the same decision, live, in a dry run and in a simulation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from autoscaler.domain.cluster import ClusterSnapshot, Phase, Replica, Target
from autoscaler.domain.demand import Demand, Forecast
from autoscaler.domain.params import Params
from autoscaler.domain.plan import Decision, Hold, Plan, Reason, ServiceDecision, VariantTarget
from autoscaler.domain.reading import Observations, Unknown, UnknownReason
from autoscaler.domain.service import Service, ServiceId
from autoscaler.domain.state import ControllerState, ServiceState
from autoscaler.policy import explaining, learning
from autoscaler.policy.assessing import Assessed, Measured, asked_of, assessed, measured
from autoscaler.policy.claiming import holdings_of
from autoscaler.policy.isolating import one_by_one, together
from autoscaler.policy.packing import Allowance, pack
from autoscaler.policy.supply import shortage
from autoscaler.policy.tuning import quantiles
from autoscaler.ports import Models, Question

Owned = TypeVar("Owned", Replica, Target)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """One service after its memory has taken in this tick."""

    seen: Measured
    state: ServiceState


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
    by_id = {service.id: service for service in sorted(services, key=lambda service: service.id)}
    replicas = _by_service(services, snapshot.replicas)
    targets = _by_service(services, snapshot.targets)
    faults: dict[ServiceId, Exception] = {}
    seen = one_by_one(
        lambda service: measured(
            now_s=now_s,
            service=service,
            state=state.services.get(service.id) or learning.fresh(service, models, params),
            replicas=replicas[service.id],
            targets=targets[service.id],
            observations=observations,
            models=models,
            params=params,
        ),
        by_id,
        faults,
    )
    known = together(lambda some: _learned(now_s, some, models, params), seen, faults)
    foreseen = together(lambda some: _forecasts(now_s, some, models, params), known, faults)
    ready = one_by_one(
        lambda each: assessed(
            each[0].seen,
            now_s=now_s,
            state=each[0].state,
            forecast=each[1],
            snapshot=snapshot,
            models=models,
            params=params,
        ),
        foreseen,
        faults,
    )
    parts = [
        _broken(now_s, by_id[service], replicas[service], targets[service], error) for service, error in faults.items()
    ]
    memory = {service: state.services[service] for service in faults if service in state.services}
    still = [*parts, *(each.decision for each in ready.values() if each.hold is not None)]
    allowances = pack(
        [each.claim for each in ready.values() if each.hold is None],
        snapshot.devices,
        holdings=holdings_of(still, services, replicas),
        quotas=snapshot.quotas,
    )
    for service, each in ready.items():
        allowance = allowances.get(service)
        part, memory[service] = _conclude(now_s, each, allowance) if allowance is not None else _left_alone(now_s, each)
        parts.append(part)
    parts.sort(key=lambda part: part.service)
    return Decision(at_s=now_s, services=tuple(parts)), ControllerState(services=memory)


def _conclude(now_s: float, own: Assessed, allowance: Allowance) -> tuple[ServiceDecision, ServiceState]:
    """The decision with its last stage, and the memory with what was changed."""
    decision, state = own.decision, own.state
    stages = (*decision.stages, allowance.result)
    asked = sum(target.replicas for target in decision.current)
    granted = sum(target.replicas for target in allowance.targets)
    outcome = _outcome(own, allowance, asked, granted)
    decision = replace(decision, outcome=outcome, stages=stages, binding=explaining.binding(stages))
    state = learning.remember_change(now_s, state, decision.desired - asked, kept_s=own.kept_changes_s)
    starved = allowance.denied > 0 and granted == 0 and own.claim.needed > 0
    denied_since_s = (state.denied_since_s if state.denied_since_s is not None else now_s) if starved else None
    leaving = allowance.leaving if isinstance(outcome, Plan) else state.leaving
    # Those on their way to a limit were asked for too late; only with all of them there it is the limit that is missed.
    at_limit = own.serving >= granted and (allowance.denied > 0 or own.decision.binding is Reason.MAX_REPLICAS)
    short = own.lacking and (own.hindered or at_limit)
    state = _supplied(now_s, own, state, short=short)
    if (denied_since_s, leaving) != (state.denied_since_s, state.leaving):
        state = replace(state, denied_since_s=denied_since_s, leaving=leaving)
    return decision, state


def _supplied(now_s: float, own: Assessed, state: ServiceState, *, short: bool) -> ServiceState:
    """The memory with whether the service is ``short`` of replicas that it can't get."""
    demand = own.decision.demand
    known = state.shortage
    told = None if isinstance(demand, Unknown) else shortage(known, now_s=now_s, short=short, demand=demand)
    return state if told == known else replace(state, shortage=told)


def _left_alone(now_s: float, own: Assessed) -> tuple[ServiceDecision, ServiceState]:
    """A service whose count is not ours to change now: reported, not fought."""
    hold = own.hold or Hold(reason=Reason.INFEASIBLE)
    return replace(own.decision, outcome=hold, binding=hold.reason), _supplied(now_s, own, own.state, short=own.lacking)


def _outcome(own: Assessed, allowance: Allowance, asked: int, granted: int) -> Plan | Hold:
    demand = own.decision.demand
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


def _learned(now_s: float, seen: Sequence[Measured], models: Models, params: Params) -> list[_Known]:
    forecasters = learning.forecasters(
        now_s=now_s,
        states=[each.state for each in seen],
        demands=[each.measurement.demand for each in seen],
        leads_s=[each.started.lead_s for each in seen],
        models=models,
    )
    return [
        _Known(
            seen=each,
            state=learning.learn(
                now_s=now_s,
                service=each.service,
                state=each.state,
                asked=sum(each.asked.values()),
                measurement=each.measurement,
                started=each.started,
                forecaster=forecaster,
                models=models,
                params=params,
            ),
        )
        for each, forecaster in zip(seen, forecasters, strict=True)
    ]


def _forecasts(
    now_s: float, known: Sequence[_Known], models: Models, params: Params
) -> Sequence[tuple[_Known, Forecast | Unknown]]:
    if not params.forecasting:
        off = Unknown(UnknownReason.NOT_EXPORTED, "forecasting is switched off")
        return [(each, off) for each in known]
    questions = []
    for each in known:
        lead_s = each.seen.started.lead_s
        to_grow, to_keep = quantiles(each.state.theta, lead_s=lead_s, params=params)
        questions.append(Question(now_s=now_s, lead_s=lead_s, quantile=to_grow, further=(to_keep,)))
    foreseen = models.forecaster.forecast_all([each.state.forecaster for each in known], questions)
    return list(zip(known, foreseen, strict=True))


def _broken(
    now_s: float, service: Service, replicas: Sequence[Replica], targets: Sequence[Target], error: Exception
) -> ServiceDecision:
    """A hold for a service whose decision failed."""
    asked = asked_of(service, targets)
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
