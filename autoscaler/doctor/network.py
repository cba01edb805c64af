"""Checks of NetworkPolicies (Kubernetes docs, "Network Policies"), as far as their rules can tell."""

from __future__ import annotations

from adapters.kubernetes.contents import key_of
from adapters.kubernetes.label_matching import selector_of
from adapters.kubernetes.pods import pod_view
from adapters.kubernetes.raw_json import JsonObject, found, inner, objects
from adapters.kubernetes.replicas import metrics_url
from autoscaler.doctor.facts import ClusterFacts, Viewed, known, labels_of, named
from autoscaler.doctor.finding import CheckId, Findings, of_each, warning
from autoscaler.domain.resource import AutoscalerResource
from autoscaler.ports import PortError


def check_network(facts: ClusterFacts) -> Findings:
    """Policies that let nobody of another namespace reach a metrics page."""
    policies = []
    for subject, policy in named("NetworkPolicy", known(facts.network_policies)):
        try:
            selector_of(inner(policy, "spec", "podSelector"))
            for rule in objects(policy, "spec", "ingress"):
                objects(rule, "from"), objects(rule, "ports")
        except PortError as failure:
            yield warning(CheckId.NETWORK_POLICY, subject, f"can't be read: {failure}", f"kubectl edit {subject}")
        else:
            policies.append(policy)
    yield from of_each(
        CheckId.NETWORK_POLICY,
        facts.viewed_by_name(),
        lambda subject, viewed: _reachable(facts, subject, viewed, policies),
    )


def _reachable(facts: ClusterFacts, subject: str, viewed: Viewed, policies: list[JsonObject]) -> Findings:
    for pod in facts.pods_of(viewed.view)[:1]:
        port = _metrics_port(viewed.resource, pod)
        isolating = [policy for policy in policies if _isolates(policy, pod)]
        if port is None or not isolating or any(_lets_in(policy, pod, port) for policy in isolating):
            continue
        names = ", ".join(key_of(policy).name for policy in isolating)
        yield warning(
            CheckId.NETWORK_POLICY,
            subject,
            f"NetworkPolicy {names} lets nobody of another namespace reach port {port} of {viewed.view.scaled}'s pods",
            f"allow ingress from the controller's namespace to port {port}",
        )


def _metrics_port(resource: AutoscalerResource, pod: JsonObject) -> int | None:
    url = metrics_url(pod_view(pod), resource.metrics)
    return None if url is None else int(url.split("//", 1)[1].split("/", 1)[0].rpartition(":")[2])


def _isolates(policy: JsonObject, pod: JsonObject) -> bool:
    """Whether it is about what comes into the pod (Kubernetes docs, "Network Policies": no types mean ingress)."""
    types = found(policy, "spec", "policyTypes")
    about = not isinstance(types, list) or "Ingress" in types
    return about and key_of(policy).namespace == key_of(pod).namespace and selects(policy, pod, "podSelector")


def selects(source: JsonObject, pod: JsonObject, key: str) -> bool:
    """Whether the selector of an object (an empty one selects all) selects a pod. Raises ShapeError."""
    selector = selector_of(inner(source, "spec", key))
    return not selector.requirements or selector.matches(labels_of(pod))


def _lets_in(policy: JsonObject, pod: JsonObject, port: int) -> bool:
    """Whether one of its rules may let the controller in, wherever it runs."""
    for rule in objects(policy, "spec", "ingress"):
        peers = objects(rule, "from")
        if (not peers or any(map(_is_wide, peers))) and _covers(rule, pod, port):
            return True
    return False


def _is_wide(peer: JsonObject) -> bool:
    """Whether a peer may be in another namespace."""
    return found(peer, "namespaceSelector") is not None or found(peer, "ipBlock") is not None


def _covers(rule: JsonObject, pod: JsonObject, port: int) -> bool:
    ports = objects(rule, "ports")
    names = dict(pod_view(pod).ports)
    for each in ports:
        first, last = each.get("port"), each.get("endPort")
        first = names.get(first) if isinstance(first, str) else first
        if first is None or (isinstance(first, int) and first <= port <= (last if isinstance(last, int) else first)):
            return True
    return not ports
