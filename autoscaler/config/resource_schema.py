"""The spec of an InferenceAutoscaler: how a service is scaled, and where in the cluster its replicas are.

The docstring of a key is its documentation, in the custom resource's schema and in the docs. Rules that join several
keys are in ``resource_rules``.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field, PlainValidator, WithJsonSchema

from autoscaler.config.fields import Name, Seconds, Section, UrlPath, default_of
from autoscaler.config.scaling_schema import KindSection, ScalingSection
from autoscaler.config.service_schema import RequestsSection
from autoscaler.domain.gateway import GatewayKind
from autoscaler.domain.resource import GatewayRef, MetricsEndpoint, Mode, Scheme, ServedRequests
from autoscaler.domain.service import Service

_PORT_NAME = r"^[a-z0-9]([a-z0-9-]{0,13}[a-z0-9])?$"


def _pod_port(value: object) -> int | str:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 65535:
        return value
    if isinstance(value, str) and re.fullmatch(_PORT_NAME, value) and re.search("[a-z]", value):
        return value
    raise ValueError("not a port")


PodPort = Annotated[
    int | str,
    PlainValidator(_pod_port),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 1, "maximum": 65535},
                {"type": "string", "pattern": _PORT_NAME, "maxLength": 15},
            ],
            "x-form": "a port from 1 to 65535, or the name of a container port",
        }
    ),
]
ApiVersion = Annotated[
    str,
    Field(
        pattern=r"^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?v[0-9][a-z0-9]{0,15}$",
        max_length=270,
        json_schema_extra={"x-form": 'a group and a version, such as "apps/v1"'},
    ),
]
KindName = Annotated[
    str,
    Field(
        pattern=r"^[A-Z][A-Za-z0-9]{0,62}$",
        max_length=63,
        json_schema_extra={"x-form": 'a kind of object, such as "Deployment"'},
    ),
]
ObjectName = Annotated[
    str,
    Field(
        pattern=r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$",
        max_length=253,
        json_schema_extra={"x-form": "the name of an object: lower-case letters, digits, dashes and dots"},
    ),
]


LabelKey = Annotated[str, Field(pattern=r"^([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$")]
LabelValue = Annotated[str, Field(pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$", max_length=63)]
Labels = Annotated[
    dict[LabelKey, LabelValue],
    Field(min_length=1, max_length=16, json_schema_extra={"x-form": "a mapping of labels to their values"}),
]
SeriesLabels = Annotated[
    dict[
        Annotated[str, Field(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*$", max_length=128)],
        Annotated[str, Field(min_length=1, max_length=256)],
    ],
    Field(max_length=16, json_schema_extra={"x-form": "a mapping of a series' labels to their values"}),
]
ModelName = Annotated[str, Field(min_length=1, max_length=256)]


class TargetRefSection(Section):
    """An object in the same namespace that runs replicas: anything with a scale subresource (Deployment, StatefulSet,
    LeaderWorkerSet, NIMService, ...), a KServe InferenceService in standard mode, or a RayService.
    """

    api_version: ApiVersion
    """Group and version of the object."""
    kind: KindName
    """Kind of the object."""
    name: ObjectName
    """Name of the object."""
    worker_group: ObjectName | None = None
    """Which worker group of a RayService or RayCluster is meant."""


class ResourceVariantSection(KindSection):
    """One kind of replica with an object of its own. A key that is not given here is the service's."""

    target_ref: TargetRefSection
    """What runs the replicas of this variant. Its pod template tells which devices a replica occupies."""


class MetricsSection(Section):
    """Where a replica's metrics page is. Of a replica that is a group of pods the leader's is read."""

    port: PodPort | None = None
    """Port of the page. Unset: the container port called metrics, else the one called http, else the only one."""
    path: UrlPath = default_of(MetricsEndpoint, "path")
    """Path of the page."""
    scheme: Annotated[Scheme, Field(strict=False)] = default_of(MetricsEndpoint, "scheme")
    """How the page is fetched."""


class SelectorSection(Section):
    """Pods by their labels."""

    match_labels: Labels
    """Labels that a pod must have, all of them."""


class GatewayRefSection(Section):
    """The pods of the gateway in front of the service: it counts the requests, and ours (``gpu-autoscaler gateway``)
    holds them while no replica is ready. Without one a service at zero can't be woken by a request.
    """

    type: Annotated[GatewayKind, Field(strict=False)] = default_of(GatewayRef, "kind")
    """Whose gateway it is. Another's has to be told by selector, and is only read."""
    selector: SelectorSection | None = None
    """Which pods they are. Unset: those of the chart, by app.kubernetes.io/name and app.kubernetes.io/component."""
    namespace: Name | None = default_of(GatewayRef, "namespace")
    """Their namespace. Unset: the controller's own."""
    port: PodPort = default_of(GatewayRef, "port")
    """Port of their metrics page, a number or the name of a container port."""
    path: UrlPath = default_of(GatewayRef, "path")
    """Path of that page."""
    match_labels: SeriesLabels = Field(default={})
    """Labels of the service's series on the page of another's gateway. Unset: the resource's name as model_name
    (EndpointPicker), envoy_cluster_name (Envoy), destination_service_name (Istio), requested_model (LiteLLM) or model
    (Dynamo)."""


class ServedRequestsSection(RequestsSection):
    """How the gateway treats the requests of a service, and where replicas take them."""

    port: PodPort | None = default_of(ServedRequests, "port")
    """Port of a replica that takes requests. Unset: the container port called http, else the only one, else the one
    of the metrics page."""
    scheme: Annotated[Scheme, Field(strict=False)] = default_of(ServedRequests, "scheme")
    """How replicas are asked."""


class TargetsSection(Section):
    """Whether to act, and on what."""

    mode: Annotated[Mode, Field(strict=False)] = Mode.ADVISE
    """Advise publishes the number of replicas and writes nothing but status; Scale changes it as well."""
    target_ref: TargetRefSection | None = None
    """What runs the replicas, where all are of one kind. Its pod template tells which devices a replica occupies."""
    variants: Annotated[list[ResourceVariantSection], Field(min_length=1, max_length=32)] | None = None
    """Several kinds of replica, each with a target and a cost of its own, in place of targetRef."""
    metrics: MetricsSection = MetricsSection()
    """Where a replica's metrics page is."""
    gateway: GatewayRefSection | None = None
    """The gateway in front of the service, if there is one; ``{}`` means the chart's."""
    models: list[ModelName] = Field(default=[], max_length=100)
    """Model names by which clients of the gateway ask for this service. Empty: the resource's name."""
    requests: ServedRequestsSection = ServedRequestsSection()
    """How the gateway treats requests."""
    unschedulable_deadline: Seconds = default_of(Service, "unschedulable_deadline_s")
    """How long a pod may wait for a node that takes it. Then its replica is taken back and another variant is tried."""


class ResourceSpecSection(ScalingSection, TargetsSection):
    """What is asked of the autoscaler for one inference service."""


class ResourceSection(Section):
    """One inference service of the cluster, and how it is scaled."""

    spec: ResourceSpecSection
    """What is asked."""
