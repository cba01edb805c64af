"""Checks of the Prometheus that the replicas are read through: it answers, and has the series of ready pods."""

from __future__ import annotations

from collections.abc import Sequence

from adapters.prometheus.settings import PrometheusSettings
from autoscaler.doctor.facts import ClusterFacts, ThroughPrometheus
from autoscaler.doctor.fetching import WantedPage
from autoscaler.doctor.finding import CheckId, Findings, error, fine, warning
from autoscaler.domain.cluster import ClusterSnapshot, Phase, Replica
from autoscaler.domain.reading import Unknown, UnknownReason
from autoscaler.ports import Clock
from autoscaler.through_prometheus import open_source

# The server is at fault, and not what it has of one pod.
_SERVER = (UnknownReason.UNREACHABLE, UnknownReason.TIMEOUT, UnknownReason.HTTP_ERROR, UnknownReason.WRONG_CONTENT)
_SUBJECT = "Prometheus"


def read_through(
    settings: PrometheusSettings, pages: Sequence[WantedPage], *, clock: Clock, interval_s: float
) -> ThroughPrometheus:
    """What it has of these pods, read as the controller reads it. Raises nothing."""
    replicas = tuple(
        Replica(
            name=f"{each.pod.namespace}/{each.pod.name}",
            service=each.resource.service.id,
            variant=each.variant,
            phase=Phase.READY,
            created_s=each.pod.created_s,
            ready_s=each.pod.created_s,
            metrics_url=each.url,
        )
        for each in pages
    )
    engines = {each.resource.service.id: each.resource.service.engine for each in pages}
    source = open_source(settings, clock=clock, engines=engines, interval_s=lambda: interval_s)
    try:
        read = source.read(ClusterSnapshot(at_s=clock.now_s(), devices=(), replicas=replicas, targets=()))
    finally:
        source.close()
    return ThroughPrometheus(url=settings.url, readings=read.engines)


def check_prometheus(facts: ClusterFacts) -> Findings:
    """Where replicas are read through one."""
    through = facts.prometheus
    if through is None:
        return
    readings = through.readings
    if not readings:
        message = f"no ready pod is to be read, so {through.url} was not asked"
        yield warning(CheckId.PROMETHEUS, _SUBJECT, message, "look again once a replica is ready")
        return
    unread = {pod: reading for pod, reading in readings.items() if isinstance(reading, Unknown)}
    faults = [reading for reading in unread.values() if reading.reason in _SERVER]
    if len(faults) == len(readings):
        message = f"{through.url} tells nothing of any ready pod: {faults[0]}"
        fix = "prometheus.url, its credentials and TLS; from outside of the cluster: kubectl port-forward, and that URL"
        yield error(CheckId.PROMETHEUS, _SUBJECT, message, fix)
        return
    if unread:
        pod, why = next(iter(unread.items()))
        message = f"{through.url} tells nothing of {len(unread)} of {len(readings)} ready pods ({pod}): {why}"
        fix = "a PodMonitor or scrape configuration for them; prometheus.matchers, replicaLabels and maxAge"
        yield error(CheckId.PROMETHEUS, _SUBJECT, message, fix)
    warnings = {told for reading in readings.values() if not isinstance(reading, Unknown) for told in reading.warnings}
    for told in sorted(warnings):
        yield warning(CheckId.PROMETHEUS, _SUBJECT, told, "see docs/prometheus.md")
    if not unread and not warnings:
        yield fine(CheckId.PROMETHEUS, _SUBJECT, f"{through.url} has the series of all {len(readings)} ready pods")
