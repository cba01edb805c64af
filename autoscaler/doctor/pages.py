"""Checks of the replicas' metrics pages: reached, recognised, and with what the SLO needs."""

from __future__ import annotations

from collections.abc import Sequence

from adapters.engines.reading_report import PageReport
from adapters.kubernetes.pod_life import Life
from adapters.kubernetes.pods import pod_view
from adapters.kubernetes.raw_json import JsonObject
from adapters.kubernetes.replicas import metrics_url, no_metrics_port
from adapters.kubernetes.target_view import TargetView
from autoscaler.doctor.facts import ClusterFacts, PageLook, Viewed, subject_of
from autoscaler.doctor.finding import CheckId, Finding, Findings, Severity, fine, of_each, warning
from autoscaler.domain.reading import Unknown, UnknownReason
from autoscaler.domain.resource import AutoscalerResource
from autoscaler.domain.service import Slo

_AWAY = (UnknownReason.UNREACHABLE, UnknownReason.TIMEOUT)
_ALWAYS = ("waiting", "running", "completed")


def check_pages(facts: ClusterFacts) -> Findings:
    """Every page that was fetched, told once for all pods with the same fault."""
    yield from of_each(CheckId.METRICS, facts.viewed_by_name(), lambda _, viewed: _pages(facts, viewed))


def _pages(facts: ClusterFacts, viewed: Viewed) -> Findings:
    wanted = (viewed.resource.service.id, viewed.variant)
    looks = [look for look in facts.pages if (look.service, look.variant) == wanted]
    yield from _of_variant(viewed.resource, looks)
    if not looks:
        yield from _unasked(viewed.resource, viewed.view, facts.pods_of(viewed.view))


def _of_variant(resource: AutoscalerResource, looks: Sequence[PageLook]) -> Findings:
    told: dict[tuple[Severity, str, str], list[PageLook]] = {}
    for look in looks:
        for severity, message, fix in judged(look.report, resource.service.slo):
            told.setdefault((severity, message, fix), []).append(look)
    for (severity, message, fix), having in told.items():
        yield Finding(
            check=CheckId.METRICS,
            severity=severity,
            subject=subject_of(resource.namespace, resource.name),
            message=f"{len(having)} of {len(looks)} pages ({having[0].pod} at {having[0].at}): {message}",
            fix=fix,
        )


def judged(report: PageReport, slo: Slo) -> list[tuple[Severity, str, str]]:
    """What is to be said of a page: how bad it is, what, and what to do."""
    values = {signal.name: signal.value for signal in report.signals}
    unread = next(iter(values.values()))
    if report.engine is None and isinstance(unread, Unknown) and unread.reason in _AWAY:
        proxied = "ask through the API server: --through-api-server; a NetworkPolicy or the network may keep us out"
        return [(Severity.WARNING, f"not reached from here, perhaps only from within the cluster: {unread}", proxied)]
    if report.engine is None:
        told = str(unread) if isinstance(unread, Unknown) else "no known engine"
        return [(Severity.ERROR, told, "name port, path and engine: spec.metrics, spec.engine")]
    missing = [
        name
        for name in _needed(slo)
        if isinstance(value := values[name], Unknown) and value.reason is UnknownReason.MISSING_SERIES
    ]
    found = [(Severity.WARNING, each, "see `gpu-autoscaler read URL`") for each in report.warnings]
    if missing:
        completed = values["completed"]
        lacks = f"{report.engine.value} shows no {', '.join(missing)}"
        if isinstance(completed, Unknown) or completed == 0:  # some engines show a series with its first value
            found.append((Severity.WARNING, f"{lacks}, which may come with its first request", "send one, look again"))
        else:
            found.append((Severity.ERROR, lacks, "switch the engine's statistics on, or leave that out of spec.slo"))
    return found or [(Severity.OK, f"{report.engine.value}, all series that the SLO needs", "")]


def _needed(slo: Slo) -> list[str]:
    """The signals that a decision on this SLO takes."""
    of_slo = {"ttft": slo.ttft_s, "itl": slo.itl_s, "e2e": slo.e2e_s, "queue_time": slo.queue_s}
    return [*_ALWAYS, *(f"{name}_count" for name, threshold in of_slo.items() if threshold is not None)]


def _unasked(resource: AutoscalerResource, view: TargetView, pods: Sequence[JsonObject]) -> Findings:
    """Why no page of this target was fetched."""
    subject = subject_of(resource.namespace, resource.name)
    ready = [pod for pod in map(pod_view, pods) if pod.life is Life.READY]
    portless = [pod for pod in ready if metrics_url(pod, resource.metrics) is None]
    if portless:
        why = no_metrics_port(portless[0], resource.metrics) if portless[0].ip else "it has no address"
        message = f"{len(portless)} of {len(ready)} ready pods of {view.scaled} ({portless[0].name}): {why}"
        yield Finding(
            check=CheckId.METRICS, severity=Severity.ERROR, subject=subject, message=message, fix="spec.metrics.port"
        )
    elif view.replicas == 0:
        yield fine(CheckId.METRICS, subject, f"{view.scaled} has no replica, so no page was looked at")
    else:
        message = f"{view.scaled} has no ready pod, so no page could be looked at"
        yield warning(CheckId.METRICS, subject, message, f"kubectl -n {view.namespace} get pods")
