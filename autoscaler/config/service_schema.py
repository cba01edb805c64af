"""The keys of a service of the file: how it is scaled, and what only a machine without a cluster has to be told.

The docstring of a key is its documentation, in the schema and in the docs.
"""

from __future__ import annotations

from pydantic import Field

from adapters.local.template import ReplicaTemplate, RoutePolicy
from autoscaler.config.fields import (
    Command,
    DeviceKind,
    Env,
    FileName,
    Name,
    Names,
    Seconds,
    SecondsOrZero,
    Section,
    UrlPath,
    default_of,
)
from autoscaler.config.scaling_schema import KindSection, ScalingSection


class DevicesSection(Section):
    """Devices that one replica occupies."""

    kind: DeviceKind = "gpu"
    """Kind of device, as the inventory names it."""
    count: int = Field(default=1, ge=0, le=64)
    """How many of them; 0: the replica uses none."""


class VariantSection(KindSection):
    """One kind of replica. A key that is not given here is the service's."""

    devices: DevicesSection | None = None
    """Devices that one replica occupies."""
    command: Command | None = None
    """What starts a replica."""
    env: Env = Field(default={})
    """Environment variables, added to the service's."""


class RequestsSection(Section):
    """How the gateway treats the requests of a service."""

    max_waiting: int = Field(default=default_of(RoutePolicy, "max_waiting"), ge=0, le=1_000_000)
    """Requests held while no replica is ready; further ones are answered 503 with Retry-After."""
    max_wait: Seconds = default_of(RoutePolicy, "max_wait_s")
    """How long a request is held before it is answered 503."""
    timeout: Seconds | None = default_of(RoutePolicy, "request_timeout_s")
    """Limit on the whole time of a request. Unset: none."""


class ProcessSection(Section):
    """What runs as a replica, and how it is told whether it runs."""

    name: Name
    """Name of the service."""
    command: Command | None = None
    """What starts a replica. Filled in: {port}, {host}, {name}, {service}, {variant}, {model}, {devices}, and
    {metrics_port} and {grpc_port} for a server that has its metrics page, or gRPC, on a port of its own. Needed unless
    every variant has its own."""
    env: Env = Field(default={})
    """Environment variables for the replicas, filled in as the command is."""
    cwd: FileName | None = None
    """Folder in which replicas run. Unset: the controller's."""
    model: Names = Field(default=[])
    """Model names by which clients ask for this service; the first fills {model}. Empty: told by the command
    (--served-model-name, --model, vllm serve NAME), or else the service's name."""
    ready_path: UrlPath = default_of(ReplicaTemplate, "ready_path")
    """Path that answers 200 once a replica is ready."""
    metrics_path: UrlPath = default_of(ReplicaTemplate, "metrics_path")
    """Path of a replica's metrics page."""
    grace_period: SecondsOrZero = default_of(ReplicaTemplate, "grace_period_s")
    """How long a draining replica may finish its requests before TERM, and how long it has from TERM to KILL."""


class ServiceSection(ScalingSection, ProcessSection):
    """One inference service."""

    requests: RequestsSection = RequestsSection()
    """How the gateway treats its requests."""
    devices: DevicesSection | None = None
    """Devices that one replica occupies. Unset: as many GPUs as the command's parallel sizes multiply to, where the
    inventory has any GPU; none where it has none."""
    variants: list[VariantSection] = Field(default=[], max_length=50)
    """Kinds of replica that may serve it. Empty: one, called "default"."""
