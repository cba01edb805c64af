"""What the key ``kubernetes`` of a configuration file comes to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from adapters.serving.external.settings import ExternalMetricsSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionSettings:
    """Which Lease the replicas of the controller elect their leader by; the times are those of the election's terms.

    ``namespace`` None: the controller's own.
    """

    lease_name: str
    namespace: str | None
    lease_s: int
    renew_s: float
    retry_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalScalerSettings:
    """Where KEDA's external scaler listens; ``port`` 0 takes a free one.

    ``certificate_file`` and ``key_file`` (PEM) None: plain text. ``client_ca_file``: clients must show a certificate
    of this authority; None: they need none.
    """

    host: str = "0.0.0.0"
    port: int = 9090
    certificate_file: Path | None = None
    key_file: Path | None = None
    client_ca_file: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrapeSettings:
    """How replicas' pages are fetched: over so many connections at a time, each page within ``timeout_s``."""

    max_connections: int
    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterGatewaySettings:
    """Where a gateway in a pod listens, for clients and for whoever asks for its own pages, and what it accepts.

    ``grace_s``: for requests in flight when it is told to end.
    """

    max_body_bytes: int
    connect_timeout_s: float
    host: str = "0.0.0.0"
    port: int = 8080
    metrics_host: str = "0.0.0.0"
    metrics_port: int = 8081
    grace_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesSettings:
    """How the controller works in a cluster.

    ``namespaces``: where InferenceAutoscalers are looked for; empty: everywhere. ``kubeconfig``, ``context``: how the
    API server is reached; None: as a pod, or by the usual kubeconfig where it is none. ``election`` None: this replica
    leads without asking. ``external_metrics``, ``external_scaler`` None: not served. ``gateway``: for a process that
    is one. ``node_autoscaling``: nodes are made for pods that wait for one.
    """

    namespaces: tuple[str, ...]
    kubeconfig: Path | None
    context: str | None
    election: ElectionSettings | None
    external_metrics: ExternalMetricsSettings | None
    external_scaler: ExternalScalerSettings | None
    scrape: ScrapeSettings
    gateway: ClusterGatewaySettings
    node_autoscaling: bool
