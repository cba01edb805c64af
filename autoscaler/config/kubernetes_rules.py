"""Rules of a file for a cluster, and its settings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from adapters.serving.external.settings import ExternalMetricsSettings
from autoscaler.config.kubernetes_schema import (
    ClusterGatewaySection,
    ElectionSection,
    ExternalMetricsSection,
    ExternalScalerSection,
    KubernetesSection,
)
from autoscaler.config.kubernetes_settings import (
    ClusterGatewaySettings,
    ElectionSettings,
    ExternalScalerSettings,
    KubernetesSettings,
    ScrapeSettings,
)
from autoscaler.config.scaling_rules import Finding, duplicates
from autoscaler.config.schema import FileSection
from autoscaler.config.units import format_duration

# What only makes sense where the controller starts the replicas itself; by attribute.
LOCAL_KEYS = {"gateway": "gateway", "inventory": "inventory", "stop_replicas_on_exit": "stopReplicasOnExit"}


def kubernetes_findings(file: FileSection, refused: frozenset[str]) -> Iterator[Finding]:
    """What is wrong with a file's key ``kubernetes``, and with others beside it. ``refused``: as in ``rules``."""
    section = file.kubernetes
    if section is None or "kubernetes" in refused:
        return
    if "services" in file.model_fields_set:
        yield ("services",), "has no meaning beside kubernetes: services are InferenceAutoscaler resources there"
    for attribute, key in LOCAL_KEYS.items():
        if attribute in file.model_fields_set:
            yield (key,), "has no meaning beside kubernetes; leave it out"
    yield from duplicates(
        ((name, ("kubernetes", "namespaces", index)) for index, name in enumerate(section.namespaces)), "is listed"
    )
    yield from _election(section.leader_election)
    yield from _certificates(section)
    gateway = section.gateway
    if gateway.port and gateway.port == gateway.metrics_port:
        path = ("kubernetes", "gateway", "metricsPort")
        yield path, f"{gateway.port} is the port for clients too; one of them has to move"
    if "api" not in refused:
        yield from _ports(file, section)


def kubernetes_settings(section: KubernetesSection, folder: Path) -> KubernetesSettings:
    """The settings of a section without problems; relative paths start at ``folder``."""
    return KubernetesSettings(
        namespaces=tuple(section.namespaces),
        kubeconfig=resolve_path(section.kubeconfig, folder),
        context=section.context,
        election=_election_settings(section.leader_election),
        external_metrics=_external_metrics(section.external_metrics, folder),
        external_scaler=_external_scaler(section.external_scaler, folder),
        scrape=ScrapeSettings(max_connections=section.scrape.max_connections, timeout_s=section.scrape.timeout),
        gateway=_gateway(section.gateway),
        node_autoscaling=section.node_autoscaling,
    )


def resolve_path(name: str | None, folder: Path) -> Path | None:
    """A path of the file, where one is given: ``~`` is the home folder, a relative one starts at the file's folder."""
    return None if name is None else folder / Path(name).expanduser()


def _election(section: ElectionSection) -> Iterator[Finding]:
    path = ("kubernetes", "leaderElection")
    if section.renew_deadline >= section.lease_duration_seconds:
        lease, given = section.lease_duration_seconds, format_duration(section.renew_deadline)
        reason = "so that a leader steps down before another leads"
        yield (*path, "renewDeadline"), f"must be less than leaseDurationSeconds {lease}, {reason}; got {given}"
    if section.retry_period >= section.renew_deadline:
        deadline, given = format_duration(section.renew_deadline), format_duration(section.retry_period)
        yield (*path, "retryPeriod"), f"must be less than renewDeadline {deadline}; got {given}"


def _certificates(section: KubernetesSection) -> Iterator[Finding]:
    metrics, scaler = section.external_metrics, section.external_scaler
    path = ("kubernetes", "externalMetrics")
    if metrics.enabled and (metrics.certificate_file is None or metrics.key_file is None):
        yield path, "needs certificateFile and keyFile: the API server speaks TLS alone to it"
    path = ("kubernetes", "externalScaler")
    if (scaler.certificate_file is None) != (scaler.key_file is None):
        yield path, "certificateFile and keyFile belong together"
    if scaler.client_ca_file is not None and scaler.certificate_file is None:
        yield (*path, "clientCaFile"), "clients can show a certificate over TLS alone; give certificateFile and keyFile"


def _ports(file: FileSection, section: KubernetesSection) -> Iterator[Finding]:
    taken = {file.api.port: "the api"} if file.api.port else {}
    for key, server in (("externalMetrics", section.external_metrics), ("externalScaler", section.external_scaler)):
        if server.enabled and server.port:
            other = taken.setdefault(server.port, key)
            if other != key:
                yield ("kubernetes", key, "port"), f"{server.port} is the port of {other} too; one of them has to move"


def _election_settings(section: ElectionSection) -> ElectionSettings | None:
    if not section.enabled:
        return None
    return ElectionSettings(
        lease_name=section.lease_name,
        namespace=section.namespace,
        lease_s=section.lease_duration_seconds,
        renew_s=section.renew_deadline,
        retry_s=section.retry_period,
    )


def _gateway(section: ClusterGatewaySection) -> ClusterGatewaySettings:
    return ClusterGatewaySettings(
        max_body_bytes=section.max_body,
        connect_timeout_s=section.connect_timeout,
        host=section.host,
        port=section.port,
        metrics_host=section.metrics_host,
        metrics_port=section.metrics_port,
        grace_s=section.grace_period,
    )


def _external_metrics(section: ExternalMetricsSection, folder: Path) -> ExternalMetricsSettings | None:
    certificate, key = resolve_path(section.certificate_file, folder), resolve_path(section.key_file, folder)
    if not section.enabled or certificate is None or key is None:
        return None
    return ExternalMetricsSettings(
        host=section.host,
        port=section.port,
        certificate_file=certificate,
        key_file=key,
        audiences=tuple(section.audiences),
    )


def _external_scaler(section: ExternalScalerSection, folder: Path) -> ExternalScalerSettings | None:
    if not section.enabled:
        return None
    return ExternalScalerSettings(
        host=section.host,
        port=section.port,
        certificate_file=resolve_path(section.certificate_file, folder),
        key_file=resolve_path(section.key_file, folder),
        client_ca_file=resolve_path(section.client_ca_file, folder),
    )
