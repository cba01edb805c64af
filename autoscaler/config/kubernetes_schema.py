"""The keys that a controller in a cluster has in place of services. Documentation as in ``schema``."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from adapters.engines.fetched import DEFAULT_TIMEOUT_S
from adapters.kubernetes.election import Terms
from adapters.local.template import GatewaySettings
from adapters.serving.external.settings import ExternalMetricsSettings
from autoscaler.config.fields import FileName, Host, Name, Port, Section, default_of
from autoscaler.config.kubernetes_settings import ClusterGatewaySettings, ExternalScalerSettings
from autoscaler.config.units import ByteSize, Duration

ShortTime = Annotated[float, Duration(above_s=0.0, at_most_s=60.0)]
LeaseTime = Annotated[int, Field(ge=1, le=60)]
Text = Annotated[str, Field(min_length=1, max_length=256)]


class ElectionSection(Section):
    """Which of several replicas of the controller decides. The others answer HPA and KEDA all the same."""

    enabled: bool = True
    """Off: this replica leads without asking; there must be no other."""
    lease_name: Name = "gpu-autoscaler"
    """Name of the Lease. Two installations that share a namespace need two names."""
    namespace: Name | None = None
    """Namespace of the Lease. Unset: the controller's own."""
    lease_duration_seconds: LeaseTime = default_of(Terms, "lease_s")
    """How long the others wait for a sign of the leader before one of them leads."""
    renew_deadline: ShortTime = default_of(Terms, "renew_s")
    """A leader that could not renew its lease for so long steps down."""
    retry_period: ShortTime = default_of(Terms, "retry_s")
    """Time between two looks at the Lease."""


class ExternalMetricsSection(Section):
    """The server of external.metrics.k8s.io, from which an HPA reads."""

    enabled: bool = False
    """Whether it is served. It needs a certificate and an APIService."""
    host: Host = default_of(ExternalMetricsSettings, "host")
    """Address to listen on."""
    port: Port = default_of(ExternalMetricsSettings, "port")
    """Port to listen on; 0: any free one."""
    certificate_file: FileName | None = None
    """Certificate (PEM) for SERVICE.NAMESPACE.svc of the APIService. Read again when it changes, as the key is."""
    key_file: FileName | None = None
    """Its private key (PEM)."""
    audiences: list[Text] = Field(default=[], max_length=16)
    """What bearer tokens of direct callers must be meant for. Empty: the API server."""


class ExternalScalerSection(Section):
    """The gRPC server that KEDA's external scaler asks."""

    enabled: bool = False
    """Whether it is served."""
    host: Host = default_of(ExternalScalerSettings, "host")
    """Address to listen on."""
    port: Port = default_of(ExternalScalerSettings, "port")
    """Port to listen on; 0: any free one."""
    certificate_file: FileName | None = None
    """Certificate (PEM) to show. Unset: plain text. Read again when it changes, as the key is."""
    key_file: FileName | None = None
    """Its private key (PEM)."""
    client_ca_file: FileName | None = None
    """Authority (PEM) whose certificate KEDA has to show. Unset: it need not show one."""


class ScrapeSection(Section):
    """How the replicas' metrics pages are fetched."""

    max_connections: int = Field(default=256, ge=1, le=10_000)
    """Pages fetched at a time."""
    timeout: ShortTime = DEFAULT_TIMEOUT_S
    """Time for one page, its last byte included."""


class ClusterGatewaySection(Section):
    """The gateway, ``gpu-autoscaler gateway``, in pods of its own. It routes to the services whose InferenceAutoscaler
    has the key ``gateway``.
    """

    host: Host = default_of(ClusterGatewaySettings, "host")
    """Address to take requests at."""
    port: Port = default_of(ClusterGatewaySettings, "port")
    """Port to take requests at; 0: any free one."""
    metrics_host: Host = default_of(ClusterGatewaySettings, "metrics_host")
    """Address of its own pages, /metrics, /healthz and /readyz, which are not for clients."""
    metrics_port: Port = default_of(ClusterGatewaySettings, "metrics_port")
    """Port of its own pages; 0: any free one."""
    max_body: Annotated[int, ByteSize(at_least=1024, at_most=16 * 2**30)] = default_of(
        GatewaySettings, "max_body_bytes"
    )
    """Largest request body."""
    connect_timeout: ShortTime = default_of(GatewaySettings, "connect_timeout_s")
    """How long to try one replica before the next."""
    grace_period: Annotated[float, Duration()] = default_of(ClusterGatewaySettings, "grace_s")
    """How long requests in flight may go on once it is told to end; the pod's terminationGracePeriodSeconds has to
    be longer."""


class KubernetesSection(Section):
    """The controller in a cluster. What to serve and what to promise stands in InferenceAutoscaler resources."""

    namespaces: list[Name] = Field(default=[], max_length=1000)
    """Namespaces of the resources. Empty: all."""
    kubeconfig: FileName | None = None
    """How to reach the API server from outside. Unset: as a pod does, or by the usual kubeconfig."""
    context: Text | None = None
    """Context of the kubeconfig. Unset: its current one."""
    leader_election: ElectionSection = ElectionSection()
    """Which of several replicas decides."""
    external_metrics: ExternalMetricsSection = ExternalMetricsSection()
    """The server for HPA."""
    external_scaler: ExternalScalerSection = ExternalScalerSection()
    """The server for KEDA."""
    scrape: ScrapeSection = ScrapeSection()
    """How metrics pages are fetched."""
    gateway: ClusterGatewaySection = ClusterGatewaySection()
    """The gateway that `gpu-autoscaler gateway` starts."""
    node_autoscaling: bool = False
    """On where nodes are made for pods that wait for one (cluster autoscaler, Karpenter): replicas may then be asked
    for that no present node can take."""
