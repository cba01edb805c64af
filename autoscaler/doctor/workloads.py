"""Checks of the pods that serve: how they end, how they say that they are ready, and what may hold them up."""

from __future__ import annotations

from collections.abc import Sequence

from adapters.kubernetes.api_errors import NotFoundError
from adapters.kubernetes.contents import key_of
from adapters.kubernetes.raw_json import JsonObject, found, objects, optional_whole, text
from adapters.kubernetes.target_view import TargetView
from autoscaler.doctor.facts import ClusterFacts, Viewed, known, named, pods_of
from autoscaler.doctor.finding import CheckId, Findings, error, fine, of_each, warning
from autoscaler.doctor.network import selects

# How long a stream of an LLM may well take, where no page tells.
_ASSUMED_STREAM_S = 60.0
_GRACE = "terminationGracePeriodSeconds"


def check_grace(facts: ClusterFacts) -> Findings:
    """Whether a pod that is taken away may finish its requests."""
    yield from of_each(CheckId.GRACE, facts.viewed_by_name(), lambda subject, viewed: _grace(facts, subject, viewed))


def _grace(facts: ClusterFacts, subject: str, viewed: Viewed) -> Findings:
    view, wanted = viewed.view, (viewed.resource.service.id, viewed.variant)
    looks = [look.longest_s for look in facts.pages if (look.service, look.variant) == wanted]
    longest_s = max((each for each in looks if each is not None), default=None)
    needed_s = _ASSUMED_STREAM_S if longest_s is None else longest_s
    given_s = min((group.needs.grace_s for group in view.groups or ()), default=None)
    if given_s is not None and given_s < needed_s:
        seen = f"1 % of its requests take up to {needed_s:.0f} s or more"
        told = seen if longest_s is not None else f"a stream of an LLM may well take {needed_s:.0f} s"
        message = f"{view.scaled} gives its pods {given_s:.0f} s to end, and {told}: they are cut off at scale-down"
        yield warning(CheckId.GRACE, subject, message, f"spec.template.spec.{_GRACE}: {2 * needed_s:.0f}")
    for pod in facts.pods_of(view)[:1]:
        containers = objects(pod, "spec", "containers")
        if not any(found(each, "lifecycle", "preStop") is not None for each in containers):
            message = f"pods of {view.scaled} have no preStop: they get TERM while new requests still come to them"
            fix = "spec.template.spec.containers[].lifecycle.preStop: {sleep: {seconds: 10}}"
            yield warning(CheckId.GRACE, subject, message, fix)


def check_readiness(facts: ClusterFacts) -> Findings:
    """Whether pods say when they can serve: without a probe they are ready while they still load."""
    yield from of_each(
        CheckId.READINESS, facts.viewed_by_name(), lambda subject, viewed: _readiness(facts, subject, viewed.view)
    )


def _readiness(facts: ClusterFacts, subject: str, view: TargetView) -> Findings:
    for pod in facts.pods_of(view)[:1]:
        if not any(found(each, "readinessProbe") is not None for each in objects(pod, "spec", "containers")):
            message = f"pods of {view.scaled} have no readiness probe: they count as ready while the model still loads"
            fix = "spec.template.spec.containers[].readinessProbe: {httpGet: {path: /health, port: 8000}}"
            yield warning(CheckId.READINESS, subject, message, fix)


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


def check_budgets(facts: ClusterFacts) -> Findings:
    """PodDisruptionBudgets, which many take for a limit on scaling down."""
    budgets = named("PodDisruptionBudget", known(facts.budgets))
    yield from of_each(CheckId.DISRUPTION_BUDGET, budgets, lambda subject, budget: _budget(facts, subject, budget))


def _budget(facts: ClusterFacts, subject: str, budget: JsonObject) -> Findings:
    for name, viewed in facts.viewed_by_name():
        pods = facts.pods_of(viewed.view)
        if pods and key_of(budget).namespace == viewed.view.namespace and selects(budget, pods[0], "selector"):
            if _bars_all(budget):
                message = f"it lets no pod of {name} be evicted though all are well: their nodes can't be drained"
                fix = "spec.maxUnavailable: 1, in place of a minAvailable as high as the count of replicas"
                yield warning(CheckId.DISRUPTION_BUDGET, subject, message, fix)
            else:
                message = f"it is on the pods of {name}: it holds evictions, and never a scale-down"
                yield fine(CheckId.DISRUPTION_BUDGET, subject, message)


def _bars_all(budget: JsonObject) -> bool:
    """No eviction is allowed, and not because a pod is ill (``PodDisruptionBudgetStatus`` of policy/v1)."""
    allowed, healthy, expected = (
        optional_whole(budget, "status", key) for key in ("disruptionsAllowed", "currentHealthy", "expectedPods")
    )
    return allowed == 0 and healthy is not None and expected is not None and healthy >= expected > 0


def any_pod(pods: Sequence[JsonObject], view: TargetView) -> JsonObject | None:
    """One running pod of a target to try things on, None where there is none."""
    mine = [pod for pod in pods_of(pods, view) if found(pod, "metadata", "deletionTimestamp") is None]
    return min(mine, key=lambda pod: text(pod, "metadata", "name"), default=None)
