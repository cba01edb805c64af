"""The keys that every service has, in the file or in a cluster -> values of the domain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from autoscaler.config.profiles import profile_of
from autoscaler.config.scaling_schema import (
    KindSection,
    RulesSection,
    ScalingSection,
    SloSection,
    StatisticsSection,
    StepTimeSection,
)
from autoscaler.domain.capacity import StepTime
from autoscaler.domain.service import (
    Behavior,
    Bounds,
    DeviceRequest,
    IdlePolicy,
    RatePolicy,
    ScalingRules,
    Service,
    ServiceId,
    Slo,
    StatisticsApi,
    StatisticsProtocol,
    Variant,
)

KindT = TypeVar("KindT", bound=KindSection)


def service_of(service: ServiceId, section: ScalingSection, variants: Sequence[Variant]) -> Service:
    """The service that a section without problems describes."""
    return Service(
        id=service,
        slo=slo_of(section.slo),
        variants=tuple(variants),
        engine=section.engine,
        statistics=_statistics(section.statistics),
        bounds=Bounds(min_replicas=section.min_replicas, max_replicas=section.max_replicas, spare=section.spare),
        behavior=Behavior(scale_up=_rules(section.behavior.scale_up), scale_down=_rules(section.behavior.scale_down)),
        idle=IdlePolicy(after_s=section.idle.after, min_uptime_factor=section.idle.min_uptime_factor),
        priority=section.priority,
        startup_s=section.startup,
        start_deadline_s=section.start_deadline,
    )


def _statistics(section: StatisticsSection | None) -> StatisticsApi | None:
    if section is None:
        return None
    usual = 8001 if section.protocol is StatisticsProtocol.GRPC else 8000
    return StatisticsApi(protocol=section.protocol, port=section.port or usual)


def slo_of(section: SloSection) -> Slo:
    """What requests are promised."""
    return Slo(ttft_s=section.ttft, itl_s=section.itl, queue_s=section.queue, e2e_s=section.e2e, share=section.share)


def with_defaults(kind: KindT, service: ScalingSection) -> KindT:
    """The kind of replica with the service's values where it gives none."""
    return kind.model_copy(
        update={
            "cost": kind.cost if kind.cost is not None else service.cost,
            "step_time": kind.step_time or service.step_time,
            "max_num_seqs": kind.max_num_seqs or service.max_num_seqs,
            "kv_tokens": kind.kv_tokens or service.kv_tokens,
        }
    )


def variant_of(section: KindSection, *, devices: DeviceRequest | None = None) -> Variant:
    """One kind of replica, its service's values filled in. Raises ValueError where its profile is not shipped."""
    return Variant(
        name=section.name,
        cost=section.cost if section.cost is not None else Variant(name=section.name).cost,
        devices=devices,
        step_time=_step_time(section.step_time),
        max_num_seqs=section.max_num_seqs,
        kv_tokens=section.kv_tokens if section.kv_tokens is not None else _kv_tokens(section.step_time),
    )


def _rules(section: RulesSection) -> ScalingRules:
    window_s = section.stabilization_window_seconds
    return ScalingRules(
        stabilization_window_s=None if window_s is None else float(window_s),
        select_policy=section.select_policy,
        policies=tuple(
            RatePolicy(type=policy.type, value=policy.value, period_s=float(policy.period_seconds))
            for policy in section.policies
        ),
        tolerance=section.tolerance,
    )


def _step_time(section: StepTimeSection | None) -> StepTime | None:
    if section is None:
        return None
    if section.profile is not None:
        return profile_of(section.profile).step_time
    return StepTime(c_s=section.c or 0.0, d_s=section.d or 0.0, e_s=section.e or 0.0, a_s=section.a or 0.0)


def _kv_tokens(section: StepTimeSection | None) -> float | None:
    """Those of the profile, where one is named."""
    return None if section is None or section.profile is None else profile_of(section.profile).kv_tokens
