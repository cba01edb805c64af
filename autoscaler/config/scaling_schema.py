"""How a service is scaled: the keys that a service of the file and a cluster's InferenceAutoscaler have in common.

The docstring of a key is its documentation, in the schemas and in the docs.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field, model_validator

from autoscaler.config.fields import Name, Seconds, Section, StepTerm, Threshold, default_of, needs_one_of
from autoscaler.config.profiles import profile_names
from autoscaler.domain.service import (
    Bounds,
    Engine,
    IdlePolicy,
    PolicyType,
    ScalingRules,
    SelectPolicy,
    Service,
    Slo,
    StatisticsProtocol,
    Variant,
)


class SloSection(Section):
    """What requests are promised. At least one threshold; a request is in SLO when it meets all of them."""

    model_config = ConfigDict(json_schema_extra=needs_one_of(("ttft",), ("itl",), ("queue",), ("e2e",)))

    ttft: Threshold | None = None
    """Time to first token, for LLM engines."""
    itl: Threshold | None = None
    """Mean time between the tokens of a request, for LLM engines."""
    queue: Threshold | None = None
    """Time in the queue, for batch servers."""
    e2e: Threshold | None = None
    """Whole time of a request."""
    share: float = Field(default=default_of(Slo, "share"), ge=0.5, lt=1)
    """Share of the requests that must be in SLO."""

    @model_validator(mode="after")
    def _promises_something(self) -> SloSection:
        if self.ttft is None and self.itl is None and self.queue is None and self.e2e is None:
            raise ValueError("needs at least one threshold: ttft, itl, queue or e2e")
        return self


class PolicySection(Section):
    """One limit on the rate of change, HPA's ``HPAScalingPolicy``."""

    type: Annotated[PolicyType, Field(strict=False)]
    """Whether ``value`` counts replicas (Pods) or percent of the present number."""
    value: int = Field(ge=1, le=100_000)
    """The largest change in one period."""
    period_seconds: int = Field(ge=1, le=1800)
    """Length of the period."""


class RulesSection(Section):
    """Limits for one direction, HPA's ``HPAScalingRules``."""

    stabilization_window_seconds: Annotated[int, Field(ge=0, le=3600)] | None = None
    """The most cautious recommendation of this time counts. Unset: 0 to grow; to shrink a fifth of the
    lead time, 15 to 60 (60 until a start was measured), and 300 where the forecast is off."""
    select_policy: Annotated[SelectPolicy, Field(strict=False)] = default_of(ScalingRules, "select_policy")
    """Which of several policies counts: the one that allows the largest change (Max), the smallest (Min), or no
    change in this direction at all (Disabled)."""
    policies: list[PolicySection] = Field(default=[], max_length=20)
    """Limits on the rate of change. Empty: no limit."""
    tolerance: float = Field(default=default_of(ScalingRules, "tolerance"), ge=0, le=1)
    """Relative change below which the number stays as it is."""


class BehaviorSection(Section):
    """Limits on changes, in the words of the Kubernetes HorizontalPodAutoscaler. The default limits nothing."""

    scale_up: RulesSection = RulesSection()
    """Limits on growing."""
    scale_down: RulesSection = RulesSection()
    """Limits on shrinking."""


class IdleSection(Section):
    """When a service whose ``minReplicas`` is 0 is stopped. The gateway starts it again with the next request."""

    after: Seconds = default_of(IdlePolicy, "after_s")
    """Time without a request after which the service goes to zero."""
    min_uptime_factor: float = Field(default=default_of(IdlePolicy, "min_uptime_factor"), ge=0, le=100)
    """A replica is kept for at least this many times its own start-up time."""


ProfileName = Annotated[
    str,
    Field(
        pattern=r"^[^/]{1,100}/.{1,300}/tp[0-9]{1,4}$",
        max_length=410,
        examples=profile_names(),
        json_schema_extra={"x-form": "the name of a profile, GPU/model/tpN"},
    ),
]


class StepTimeSection(Section):
    """Duration of one step of the engine, c + d*B + e*K + a*q, with B running sequences, K tokens in their contexts
    and q prompt tokens in the step: a shipped profile, or the four terms. Unset: it is learned from the load. Of a
    batch server an execution takes c + d*B with B items; e and a are 0.
    """

    model_config = ConfigDict(json_schema_extra=needs_one_of(("profile",), ("c", "d", "e", "a")))

    profile: ProfileName | None = None
    """Name of a shipped profile: GPU/model/tensor parallelism. It sets kvTokens too, where that is not given."""
    c: StepTerm | None = None
    """Constant part of a step."""
    d: StepTerm | None = None
    """Added for each running sequence."""
    e: StepTerm | None = None
    """Added for each token in the contexts of the batch."""
    a: StepTerm | None = None
    """Added for each prompt token of the step."""


class KindSection(Section):
    """One kind of replica. A key that is not given here is the service's."""

    name: Name
    """Name of the variant, unique in its service."""
    cost: Annotated[float, Field(gt=0, le=1_000_000)] | None = None
    """Cost of a replica for an hour."""
    step_time: StepTimeSection | None = None
    """Duration of one step of the engine."""
    max_num_seqs: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """The engine's limit of running sequences."""
    kv_tokens: Annotated[int, Field(ge=1, le=10**12)] | None = None
    """Tokens that the engine's KV cache holds."""


class StatisticsSection(Section):
    """Triton's statistics API, asked by Triton's own client (the extra ``triton``)."""

    protocol: Annotated[StatisticsProtocol, Field(strict=False)]
    """How it is asked."""
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """Port of the server. Unset: 8000 for http, 8001 for grpc. On one machine a replica's own {port} and {grpc_port}
    go before it."""


class ScalingSection(Section):
    """What is promised, the limits, and what is known of a replica."""

    engine: Annotated[Engine, Field(strict=False)] = default_of(Service, "engine")
    """Inference engine; auto tells it by its metrics page."""
    statistics: StatisticsSection | None = None
    """Triton's statistics, read beside its page for the time of its executions by batch size. Unset: the page alone."""
    slo: SloSection
    """What its requests are promised."""
    startup: Seconds = default_of(Service, "startup_s")
    """Start-up time assumed until the first start has been measured."""
    start_deadline: Seconds = default_of(Service, "start_deadline_s")
    """A start that takes longer has failed."""
    min_replicas: int = Field(default=default_of(Bounds, "min_replicas"), ge=0, le=10_000)
    """Fewest replicas; 0 lets an idle service stop."""
    max_replicas: int = Field(default=default_of(Bounds, "max_replicas"), ge=1, le=10_000)
    """Most replicas."""
    spare: int = Field(default=default_of(Bounds, "spare"), ge=0, le=10_000)
    """Replicas kept above the computed need."""
    priority: int = Field(default=default_of(Service, "priority"), ge=-1_000_000, le=1_000_000)
    """Services of higher priority take devices from those of lower."""
    behavior: BehaviorSection = BehaviorSection()
    """Limits on changes."""
    idle: IdleSection = IdleSection()
    """When it goes to zero."""
    cost: float = Field(default=default_of(Variant, "cost"), gt=0, le=1_000_000)
    """Cost of a replica for an hour, in any unit."""
    step_time: StepTimeSection | None = None
    """Duration of one step of the engine, the start of the capacity model."""
    max_num_seqs: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """The engine's limit of running sequences. Unset: not known to the capacity model."""
    kv_tokens: Annotated[int, Field(ge=1, le=10**12)] | None = None
    """Tokens that the engine's KV cache holds. Unset: the profile's, or not known to the capacity model."""
