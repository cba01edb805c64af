"""The status of an InferenceAutoscaler: the latest decision, as people, HPA and KEDA are told it.

``adapters.kubernetes.status`` writes and reads it. Descriptions as in ``resource_schema``.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from autoscaler.config.fields import Section

_LONGEST_MESSAGE = 1024
Moment = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
Count = Annotated[int, Field(ge=0, le=2**31 - 1)]
Generation = Annotated[int, Field(ge=0)]
Reason = Annotated[str, Field(pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$", max_length=128)]
Message = Annotated[str, Field(max_length=_LONGEST_MESSAGE)]
SignalName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=63)]
VariantName = Annotated[str, Field(max_length=63)]


class UnknownSection(Section):
    """Why there is no number."""

    reason: Reason
    """One word for the reason."""
    message: Message = ""
    """What is the matter, and what to do."""


class TargetStatusSection(Section):
    """The replicas of one variant."""

    name: VariantName
    """Name of the variant."""
    target: Annotated[str, Field(max_length=400)]
    """What runs them."""
    current: Count
    """Replicas asked for before this decision."""
    desired: Count | None = None
    """Replicas asked for by this decision. Absent while no number may be given."""


class SignalSection(Section):
    """One measured signal: its value, or why it is unknown."""

    name: SignalName
    """Name of the signal; it ends with its unit."""
    value: float | None = None
    """What was measured."""
    unknown: UnknownSection | None = None
    """Why there is no value."""


class ConditionSection(Section):
    """One aspect of the state, as all Kubernetes conditions."""

    type: Annotated[str, Field(max_length=63)]
    """Name of the aspect."""
    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""
    observed_generation: Generation | None = None
    """Generation of the spec that this is about."""
    last_transition_time: Moment
    """Since when the status is what it is."""
    reason: Reason
    """One word for the reason."""
    message: Message
    """What is the matter, and what to do."""


_Conditions = Annotated[list[ConditionSection], Field(max_length=16, json_schema_extra={"x-map-keys": ["type"]})]


class PastDecisionSection(Section):
    """One change of the number of replicas."""

    at: Moment
    """When it was decided."""
    from_: Annotated[Count, Field(alias="from")]
    """Replicas before."""
    to: Count
    """Replicas after."""
    reason: Reason
    """What bound the decision."""
    message: Message = ""
    """The same in words."""


class StatusSection(Section):
    """The latest decision. Every replica of the controller answers HPA and KEDA from it."""

    observed_generation: Generation | None = None
    """Generation of the spec that was decided on."""
    decided_at: Moment | None = None
    """When it was decided."""
    stale_after_seconds: Annotated[float, Field(ge=0)] | None = None
    """Age from which on the decision is no answer any more."""
    desired_replicas: Count | None = None
    """Replicas that the service should have, all variants together. Absent while no number may be given."""
    unknown: UnknownSection | None = None
    """Why no number may be given. HPA and KEDA get an error that says so, and hold."""
    replicas: Count | None = None
    """Replicas asked for before this decision."""
    ready_replicas: Count | None = None
    """Replicas that serve."""
    starting_replicas: Count | None = None
    """Replicas that do not serve yet."""
    draining_replicas: Count | None = None
    """Replicas that finish their requests before they go."""
    failed_replicas: Count | None = None
    """Replicas that failed and wait for their next start."""
    targets: Annotated[list[TargetStatusSection], Field(max_length=32)] | None = None
    """The replicas by variant."""
    reason: Reason | None = None
    """What bound the decision."""
    message: Message | None = None
    """The same in words."""
    lead_time_seconds: Annotated[float, Field(ge=0)] | None = None
    """How far ahead the decision looks: the time that a replica started now would need."""
    signals: Annotated[list[SignalSection], Field(max_length=64)] | None = None
    """What was measured, by name."""
    conditions: _Conditions | None = None
    """Ready (the spec is valid, its targets exist), Active (replicas are wanted), Limited (a bound, a quota or the
    devices hold the number), MetricsKnown, OwnerConflict (somebody else writes the number too), TargetSchedulable."""
    last_decisions: Annotated[list[PastDecisionSection], Field(max_length=10)] | None = None
    """The last changes of the number, the newest first."""
