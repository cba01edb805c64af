"""Checks of the gateways that InferenceAutoscalers name: they are there, ready, and send the service its requests."""

from __future__ import annotations

from collections.abc import Sequence

from adapters.kubernetes.pod_life import Life
from adapters.kubernetes.pods import pod_view
from autoscaler.doctor.facts import ClusterFacts, GatewayLook, known, subject_of
from autoscaler.doctor.finding import CheckId, Findings, error, fine, of_each, warning
from autoscaler.domain.reading import Unknown
from autoscaler.domain.resource import AutoscalerResource


def check_gateways(facts: ClusterFacts) -> Findings:
    """Each InferenceAutoscaler with the key ``gateway``."""
    having = [(subject_of(each.namespace, each.name), each) for each in facts.usable() if each.gateway is not None]
    yield from of_each(CheckId.GATEWAY, having, lambda subject, resource: _gateway(facts, subject, resource))


def _gateway(facts: ClusterFacts, subject: str, resource: AutoscalerResource) -> Findings:
    look = facts.gateways.get(resource.service.id)
    if look is None:
        message = "where its gateway is can't be told: the controller's own namespace is not known"
        yield warning(CheckId.GATEWAY, subject, message, "--lease-namespace NAMESPACE, or spec.gateway.namespace")
        return
    labels = ", ".join(f"{key}={value}" for key, value in look.labels)
    pods = [pod_view(source) for source in known(look.pods)]
    if not pods:
        message = f"no pod in namespace {look.namespace} is its gateway ({labels}): its demand at zero is not known"
        fix = "the chart's gateway.enabled: true, or name others: spec.gateway.selector, spec.gateway.namespace"
        yield error(CheckId.GATEWAY, subject, message, fix)
        return
    ready = [pod for pod in pods if pod.life is Life.READY]
    if not ready:
        message = f"none of the {len(pods)} pods of its gateway is ready ({pods[0].namespace}/{pods[0].name})"
        yield error(CheckId.GATEWAY, subject, message, f"kubectl -n {look.namespace} describe pod {pods[0].name}")
        return
    yield from _routed(subject, resource, look, [pod.name for pod in ready])


def _routed(subject: str, resource: AutoscalerResource, look: GatewayLook, ready: Sequence[str]) -> Findings:
    pages = {pod: look.routes[pod] for pod in ready if pod in look.routes}
    unread = {pod: page for pod, page in pages.items() if isinstance(page, Unknown)}
    without = [pod for pod, page in pages.items() if not isinstance(page, Unknown) and resource.service.id not in page]
    for pod, why in list(unread.items())[:1]:
        message = f"{len(unread)} of {len(ready)} gateways ({pod}) were not read from here: {why}"
        yield warning(CheckId.GATEWAY, subject, message, "ask through the API server: --through-api-server")
    if without:
        message = f"{len(without)} of {len(ready)} gateways ({without[0]}) send it no requests: they do not know it"
        fix = f"kubernetes.namespaces of their configuration; kubectl -n {look.namespace} logs {without[0]}"
        yield error(CheckId.GATEWAY, subject, message, fix)
    if not unread and not without:
        told = "" if pages else "; whether they send it requests is not told by their kind's page"
        yield fine(CheckId.GATEWAY, subject, f"{len(ready)} of its gateways are ready{told}")
