"""Checks of the HPAs that read our number: whether each does as it says, at once and in full."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from adapters.kubernetes.contents import key_of
from adapters.kubernetes.foreign_scalers import hpa_of
from adapters.kubernetes.label_matching import selector_of
from adapters.kubernetes.quantities import quantity
from adapters.kubernetes.raw_json import JsonObject, found, inner, objects, optional_text, optional_whole, text
from adapters.kubernetes.scalable import controller_of
from adapters.kubernetes.target_view import TargetView
from adapters.serving.external.values import SERVICE, VARIANT
from autoscaler.doctor.facts import ClusterFacts, known, named
from autoscaler.doctor.finding import CheckId, Findings, error, of_each, warning
from autoscaler.domain.publication import DESIRED_REPLICAS
from autoscaler.domain.resource import AutoscalerResource
from autoscaler.ports import PortError

_SUM = "add spec.metrics[].external.metric.selector: {matchLabels: {service: NAME}}"


def reads_our_number(hpa: JsonObject) -> bool:
    """Whether an HPA that a person wrote reads our number itself; KEDA's read it through KEDA."""
    try:
        return controller_of(hpa) is None and bool(list(_our_metrics(hpa)))
    except PortError:
        return False


def check_hpas(facts: ClusterFacts) -> Findings:
    """Those that read our number."""
    readers = named("HorizontalPodAutoscaler", [hpa for hpa in known(facts.hpas) if reads_our_number(hpa)])
    yield from of_each(CheckId.HPA, readers, lambda subject, hpa: _hpa(facts, subject, hpa))


def _our_metrics(hpa: JsonObject) -> Iterator[JsonObject]:
    for metric in objects(hpa, "spec", "metrics"):
        external = inner(metric, "external")
        if text(metric, "type") == "External" and optional_text(external, "metric", "name") == DESIRED_REPLICAS:
            yield external


def _hpa(facts: ClusterFacts, subject: str, hpa: JsonObject) -> Findings:
    metrics = objects(hpa, "spec", "metrics")
    if len(metrics) > 1:
        message = "it reads other metrics too and takes the largest: our number is only a lower bound"
        yield warning(CheckId.HPA, subject, message, "leave spec.metrics with ours alone")
    for external in _our_metrics(hpa):
        yield from _target_value(subject, external)
        yield from _selected(facts, subject, hpa, external)
    yield from judged_behavior(CheckId.HPA, subject, hpa, "spec")
    for condition in objects(hpa, "status", "conditions"):
        kind, status = text(condition, "type"), text(condition, "status")
        if kind in ("AbleToScale", "ScalingActive") and status == "False":
            told = f"{optional_text(condition, 'reason')}: {optional_text(condition, 'message')}"
            yield error(CheckId.HPA, subject, f"it does not scale, {told}", "do as the message says")


def _target_value(subject: str, external: JsonObject) -> Findings:
    target = inner(external, "target")
    written = optional_text(target, "averageValue")
    right = text(target, "type") == "AverageValue" and written is not None and quantity(written) == 1.0
    if not right:
        given = f"{text(target, 'type')} {written or optional_text(target, 'value') or ''}".rstrip()
        message = f"its target is {given}, so it sets another number than ours"
        fix = 'spec.metrics[].external.target: {type: AverageValue, averageValue: "1"}'
        yield error(CheckId.HPA, subject, message, fix)


def _selected(facts: ClusterFacts, subject: str, hpa: JsonObject, external: JsonObject) -> Findings:
    """The service whose number it gets, and whether that one is of the object that it scales."""
    namespace = key_of(hpa).namespace
    source = inner(external, "metric", "selector")
    selector = selector_of(source)
    by_variant = any(requirement.key == VARIANT for requirement in selector.requirements)
    matching: list[tuple[AutoscalerResource, str | None]] = []
    for resource in facts.usable():
        labels = {**dict(resource.labels), SERVICE: resource.name}
        variants = [each.variant for each in resource.sources] if by_variant else [None]
        for variant in variants:
            told = labels if variant is None else {**labels, VARIANT: variant}
            if resource.namespace == namespace and (not selector.requirements or selector.matches(told)):
                matching.append((resource, variant))
    if not matching:
        names = ", ".join(each.name for each in facts.usable() if each.namespace == namespace) or "none"
        message = f"its selector matches no InferenceAutoscaler of namespace {namespace} (there: {names})"
        yield error(CheckId.HPA, subject, message, f"{_SUM}, with the name of one")
    elif len(matching) > 1:
        message = f"its selector matches {len(matching)} numbers, and an HPA would add them up"
        yield error(CheckId.HPA, subject, message, _SUM)
    else:
        yield from _fits(facts, subject, hpa, *matching[0])


def _fits(
    facts: ClusterFacts, subject: str, hpa: JsonObject, resource: AutoscalerResource, variant: str | None
) -> Findings:
    scaled = hpa_of(hpa).target
    targets = {
        ref.identity
        for source in resource.sources
        if variant in (None, source.variant)
        for view in (facts.targets.get((resource.namespace, source.target)),)
        for ref in (view.chain if isinstance(view, TargetView) else (source.target,))
    }
    if scaled is not None and scaled.identity not in targets:
        message = f"it scales {scaled} on the number of {resource.name}, which has another target"
        yield error(CheckId.HPA, subject, message, "spec.scaleTargetRef, or the selector of its metric")
    yield from judged_bounds(
        CheckId.HPA,
        subject,
        resource,
        lowest=optional_whole(hpa, "spec", "minReplicas"),
        default_lowest=1,
        highest=optional_whole(hpa, "spec", "maxReplicas"),
        keys=("spec.minReplicas", "spec.maxReplicas"),
        whole=variant is None and len(resource.sources) == 1,
    )


def judged_bounds(
    check: CheckId,
    subject: str,
    resource: AutoscalerResource,
    *,
    lowest: int | None,
    default_lowest: int,
    highest: int | None,
    keys: tuple[str, str],
    whole: bool,
) -> Findings:
    """Bounds that cut our number off. ``whole``: the object follows the number of all variants."""
    bounds = resource.service.bounds
    if highest is not None and highest < bounds.max_replicas:
        message = f"it stops at {highest} replicas, and {resource.name} may ask for {bounds.max_replicas}"
        yield warning(check, subject, message, f"{keys[1]}: {bounds.max_replicas}")
    at_least = default_lowest if lowest is None else lowest
    if whole and at_least > bounds.min_replicas:
        message = f"it keeps {at_least} replicas, and {resource.name} may ask for {bounds.min_replicas}"
        yield warning(check, subject, message, f"{keys[0]}: {bounds.min_replicas}")


def judged_behavior(check: CheckId, subject: str, source: JsonObject, *path: str) -> Findings:
    """``behavior``: what of it makes the HPA come late, or ignore small steps."""
    key = ".".join((*path, "behavior"))
    behavior = inner(source, *path, "behavior")
    up, down = inner(behavior, "scaleUp"), inner(behavior, "scaleDown")
    dull = [name for name, rules in (("scaleUp", up), ("scaleDown", down)) if _tolerance(rules) != 0.0]
    if dull:
        message = f"no tolerance of 0 in {' and '.join(dull)}: steps of up to 10 % are ignored, 1 of 10 replicas"
        yield warning(check, subject, message, f'{key}.scaleUp and scaleDown: {{tolerance: "0"}}, with policies')
    if _tolerance(up) is not None and not _explicit(up):
        message = (
            "scaleUp has a tolerance and no policies, which brings in the defaults of 4 pods or 100 % per 15 s: "
            "1 -> 40 takes about nine times as long"
        )
        yield warning(check, subject, message, f"{key}.scaleUp.policies: print it with `gpu-autoscaler manifests`")
    elif not _explicit(up):
        message = "scaleUp has no policies: growth is limited to 4 pods or 100 % at a time"
        yield warning(check, subject, message, f"{key}.scaleUp.policies: print it with `gpu-autoscaler manifests`")
    for name, rules in (("scaleUp", up), ("scaleDown", down)):
        if optional_text(rules, "selectPolicy") == "Disabled":
            message = f"{name} is disabled, so our number is followed in one direction alone"
            yield warning(check, subject, message, f"{key}.{name}.selectPolicy: Max")
    waits_s = optional_whole(down, "stabilizationWindowSeconds")
    if waits_s is None or waits_s > 0:
        told = "300 s (the default)" if waits_s is None else f"{waits_s} s"
        message = f"scaleDown waits {told} on top of our own stabilization"
        yield warning(check, subject, message, f"{key}.scaleDown.stabilizationWindowSeconds: 0")


def _tolerance(rules: JsonObject) -> float | None:
    written = found(rules, "tolerance")
    return quantity(str(written), path="tolerance") if written is not None else None


def _explicit(rules: JsonObject) -> Sequence[JsonObject]:
    """Policies that somebody wrote: the API server fills in its own where none are given."""
    policies = objects(rules, "policies")
    return () if [_plain(each) for each in policies] in _DEFAULTS else policies


def _plain(policy: JsonObject) -> tuple[object, object, object]:
    return policy.get("type"), policy.get("value"), policy.get("periodSeconds")


# k8s.io/kubernetes, pkg/apis/autoscaling/v2/defaults.go
_DEFAULTS = (
    [("Pods", 4, 15), ("Percent", 100, 15)],
    [("Percent", 100, 15), ("Pods", 4, 15)],
)
