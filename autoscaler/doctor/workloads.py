"""Checks of the pods that serve: how they end, how they say that they are ready, and what may hold them up."""

from __future__ import annotations

from collections.abc import Sequence

from adapters.kubernetes.api_errors import NotFoundError
from adapters.kubernetes.contents import key_of
from adapters.kubernetes.label_matching import selector_of
from adapters.kubernetes.pods import pod_view
from adapters.kubernetes.quota_limits import most_replicas
from adapters.kubernetes.quotas import Scoped, limit_range_view, quota_view
from adapters.kubernetes.raw_json import JsonObject, found, inner, objects, text
from adapters.kubernetes.replicas import metrics_url
from adapters.kubernetes.target_view import TargetView
from autoscaler.doctor.autoscalers import subject_of
from autoscaler.doctor.facts import ClusterFacts, known, labels_of, pods_of
from autoscaler.doctor.finding import CheckId, Findings, error, fine, warning
from autoscaler.domain.resource import AutoscalerResource

# How long a stream of an LLM may well take, where no page tells.
_ASSUMED_STREAM_S = 60.0
_GRACE = "terminationGracePeriodSeconds"


def check_grace(facts: ClusterFacts) -> Findings:
    """Whether a pod that is taken away may finish its requests."""
    for resource, variant, view in facts.viewed():
        subject = subject_of(resource.namespace, resource.name)
        looks = [
            look.longest_s
            for look in facts.pages
            if (look.service, look.variant) == (resource.service.id, variant) and look.longest_s is not None
        ]
        longest_s = max(looks, default=None)
        needed_s = _ASSUMED_STREAM_S if longest_s is None else longest_s
        given_s = min((group.needs.grace_s for group in view.groups or ()), default=None)
        if given_s is not None and given_s < needed_s:
            source = f"1 % of its requests take {needed_s:.0f} s or more"
            told = source if longest_s is not None else f"a stream of an LLM may well take {needed_s:.0f} s"
            message = f"{view.scaled} gives its pods {given_s:.0f} s to end, and {told}: they are cut off at scale-down"
            yield warning(CheckId.GRACE, subject, message, f"spec.template.spec.{_GRACE}: {max(needed_s, 60) * 2:.0f}")
        for pod in facts.pods_of(view)[:1]:
            containers = objects(pod, "spec", "containers")
            if not any(found(each, "lifecycle", "preStop") is not None for each in containers):
                message = f"pods of {view.scaled} have no preStop: they get TERM while new requests still come to them"
                fix = "spec.template.spec.containers[].lifecycle.preStop: {sleep: {seconds: 10}}"
                yield warning(CheckId.GRACE, subject, message, fix)


def check_readiness(facts: ClusterFacts) -> Findings:
    """Whether pods say when they can serve: without a probe they are ready while they still load."""
    for resource, _, view in facts.viewed():
        for pod in facts.pods_of(view)[:1]:
            if not any(found(each, "readinessProbe") is not None for each in objects(pod, "spec", "containers")):
                yield warning(
                    CheckId.READINESS,
                    subject_of(resource.namespace, resource.name),
                    f"pods of {view.scaled} have no readiness probe: they count as ready while the model still loads",
                    "spec.template.spec.containers[].readinessProbe: {httpGet: {path: /health, port: 8000}}",
                )


def check_deletion_cost(facts: ClusterFacts) -> Findings:
    """Whether an admission policy refuses the mark by which idle pods go first. It was tried without lasting."""
    for pod, refusal in facts.marked.items():
        if refusal is None:
            yield fine(CheckId.DELETION_COST, f"Pod {pod}", "the annotation pod-deletion-cost is admitted")
        elif 'cannot patch resource "pods"' in str(refusal):
            message = "you may not patch pods, so it can't be tried whether pod-deletion-cost is admitted"
            yield warning(CheckId.DELETION_COST, f"Pod {pod}", message, "try as the controller's account")
        elif not isinstance(refusal, NotFoundError):  # the pod is gone meanwhile
            fix = "let the policy (Kyverno, Gatekeeper, ValidatingAdmissionPolicy) admit this annotation on pods"
            message = f"controller.kubernetes.io/pod-deletion-cost is refused, so busy pods may go first: {refusal}"
            yield error(CheckId.DELETION_COST, f"Pod {pod}", message, fix)


def check_network(facts: ClusterFacts) -> Findings:
    """NetworkPolicies that let nobody of another namespace reach a metrics page, as far as rules can tell."""
    policies = known(facts.network_policies)
    for resource, _, view in facts.viewed():
        for pod in facts.pods_of(view)[:1]:
            port = _metrics_port(resource, pod)
            isolating = [policy for policy in policies if _isolates(policy, pod)]
            if port is None or not isolating or any(_lets_in(policy, pod, port) for policy in isolating):
                continue
            names = ", ".join(key_of(policy).name for policy in isolating)
            yield warning(
                CheckId.NETWORK_POLICY,
                subject_of(resource.namespace, resource.name),
                f"NetworkPolicy {names} lets nobody of another namespace reach port {port} of {view.scaled}'s pods",
                f"allow ingress from the controller's namespace to port {port}",
            )


def _metrics_port(resource: AutoscalerResource, pod: JsonObject) -> int | None:
    url = metrics_url(pod_view(pod), resource.metrics)
    return None if url is None else int(url.split("//", 1)[1].split("/", 1)[0].rpartition(":")[2])


def _isolates(policy: JsonObject, pod: JsonObject) -> bool:
    """Whether it is about what comes into the pod (Kubernetes docs, "Network Policies": no types mean ingress)."""
    types = found(policy, "spec", "policyTypes")
    about = not isinstance(types, list) or "Ingress" in types
    return about and key_of(policy).namespace == key_of(pod).namespace and _selects(policy, pod, "podSelector")


def _selects(source: JsonObject, pod: JsonObject, key: str) -> bool:
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


def check_budgets(facts: ClusterFacts) -> Findings:
    """PodDisruptionBudgets, which many take for a limit on scaling down."""
    budgets = known(facts.budgets)
    for resource, _, view in facts.viewed():
        pods = facts.pods_of(view)
        for budget in budgets:
            if pods and key_of(budget).namespace == view.namespace and _selects(budget, pods[0], "selector"):
                message = f"PodDisruptionBudget {key_of(budget).name} holds evictions, and never a scale-down"
                yield fine(CheckId.DISRUPTION_BUDGET, subject_of(resource.namespace, resource.name), message)


def check_quotas(facts: ClusterFacts) -> Findings:
    """Quotas and limit ranges that leave fewer replicas than the resource may ask for."""
    quotas = [quota_view(each) for each in known(facts.quotas)]
    limits = [limit_range_view(each) for each in known(facts.limit_ranges)]
    for resource, _, view in facts.viewed():
        groups = [(group.needs, group.pods) for group in view.groups or ()]
        here = [quota for quota in quotas if quota.namespace == view.namespace and quota.counts(_scoped(view))]
        most = most_replicas(
            groups,
            existing=view.replicas,
            quotas=here,
            limit_ranges=[each for each in limits if each.namespace == view.namespace],
        )
        subject, wanted = subject_of(resource.namespace, resource.name), resource.service.bounds.max_replicas
        if most is not None and most.replicas < wanted:
            message = f"{view.scaled} can have {most.replicas} replicas, maxReplicas is {wanted}: {most.detail}"
            yield warning(CheckId.QUOTA, subject, message, "raise the quota, or lower spec.maxReplicas")
        request = view.device_request
        for quota in here:
            hard = quota.devices.get(request.kind) if request is not None else None
            used = (quota.used or {}).get(f"requests.{request.kind}", 0.0) if request is not None else 0.0
            each = request.count * request.pods if request is not None else 1
            if hard is not None and view.replicas + int(max(0.0, hard - used) // each) < wanted:
                message = f"quota {quota.name} leaves {hard - used:g} of {hard} {request.kind if request else ''}"
                told = f"{message}, and a replica takes {each}: fewer than maxReplicas {wanted} fit"
                yield warning(CheckId.QUOTA, subject, told, "raise the quota, or lower spec.maxReplicas")


def _scoped(view: TargetView) -> Scoped:
    """What the scopes of quotas look at; pods with devices always request something."""
    needs = [group.needs for group in view.groups or ()]
    return Scoped(priority_class=needs[0].priority_class if needs else "")


def any_pod(pods: Sequence[JsonObject], view: TargetView) -> JsonObject | None:
    """One running pod of a target to try things on, None where there is none."""
    mine = [pod for pod in pods_of(pods, view) if found(pod, "metadata", "deletionTimestamp") is None]
    return min(mine, key=lambda pod: text(pod, "metadata", "name"), default=None)
