"""Checks of the InferenceAutoscalers: their specs, targets, other owners, and what the controller says of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from adapters.kubernetes.count_history import begun
from adapters.kubernetes.foreign_scalers import ForeignScaler, hpa_of, scaled_object_of, vpa_of
from adapters.kubernetes.owners import Claim, contested, ownership
from adapters.kubernetes.raw_json import JsonObject, objects, optional_text, optional_whole, text
from adapters.kubernetes.resources import ResourceView
from adapters.kubernetes.status_conditions import ConditionType
from adapters.kubernetes.targets import TargetProblem
from autoscaler.doctor.facts import ClusterFacts, Listed, known, known_or_none, named, subject_of
from autoscaler.doctor.finding import CheckId, Finding, Findings, error, of_each, warning
from autoscaler.domain.resource import AutoscalerResource, Mode, RefusedResource
from autoscaler.domain.service import ServiceId
from autoscaler.ports import PortError

_KIND = "InferenceAutoscaler"


def check_specs(facts: ClusterFacts) -> Findings:
    """Specs that can't be used, and a cluster without any."""
    views = known(facts.resources)
    if not views:
        yield warning(
            CheckId.SPEC,
            _KIND,
            "there is none" + (_where(facts)),
            "write one: docs/inferenceautoscaler.md has an example",
        )
    for view in views:
        if isinstance(view.wanted, RefusedResource):
            for problem in view.wanted.problems:
                edit = f"kubectl -n {view.wanted.namespace} edit inferenceautoscaler {view.wanted.name}"
                subject = subject_of(view.wanted.namespace, view.wanted.name)
                yield error(CheckId.SPEC, subject, str(problem), f"{edit}: {problem.path or 'metadata.name'}")


def _where(facts: ClusterFacts) -> str:
    namespaces = facts.settings.namespaces if facts.settings is not None else ()
    return f" in {', '.join(namespaces)}" if namespaces else ""


def check_targets(facts: ClusterFacts) -> Findings:
    """Targets that are missing or can't be scaled."""
    for resource in facts.usable():
        for source in resource.sources:
            found = facts.targets.get((resource.namespace, source.target))
            subject = subject_of(resource.namespace, resource.name)
            fix = f"create it, or name another: {_target_key(resource, source.variant)}"
            if found is None:
                yield warning(CheckId.TARGET, subject, f"{source.target} could not be read", fix)
            elif isinstance(found, TargetProblem):
                told = error if found.lasting else warning
                yield told(CheckId.TARGET, subject, found.detail, fix)
            elif found.refusal is not None:
                told = error if resource.mode is Mode.SCALE else warning
                yield told(CheckId.TARGET, subject, found.refusal, f"see docs/coexistence.md for {found.ref.kind}")
            elif found.selector is None:
                message = f"nothing tells which pods are those of {source.target}"
                path = "spec.versions[].subresources.scale.labelSelectorPath of its definition"
                yield error(CheckId.TARGET, subject, message, f"set {path}")


def _target_key(resource: AutoscalerResource, variant: str) -> str:
    """Where the target of a variant stands in the spec."""
    if len(resource.sources) == 1:
        return "spec.targetRef"
    index = [source.variant for source in resource.sources].index(variant)
    return f"spec.variants[{index}].targetRef"


def check_owners(facts: ClusterFacts) -> Findings:
    """Whoever else writes the replicas of a target, or may."""
    found = list(_scalers(facts))
    scalers = [each for each in found if isinstance(each, ForeignScaler)]
    yield from (each for each in found if isinstance(each, Finding))
    viewed = list(facts.viewed())
    lost = contested([Claim(resource=resource, variant=variant, view=view) for resource, variant, view in viewed])
    asked: dict[ServiceId, int] = {}
    for resource, _, view in viewed:
        asked[resource.service.id] = asked.get(resource.service.id, 0) + view.replicas
    for resource, variant, view in viewed:
        owned = ownership(
            view,
            resource,
            scalers=scalers,
            history=begun(view),
            other_replicas=asked[resource.service.id] - view.replicas,
            contested_by=lost.get((resource.service.id, variant)),
        )
        subject = subject_of(resource.namespace, resource.name)
        if owned.foreign_owner is not None:
            message = f"{owned.foreign_owner} also writes the replicas of {view.scaled}: nothing is done here"
            yield error(CheckId.OWNER, subject, message, _one_owner(resource, lost))
        if owned.suspended is not None:
            yield warning(CheckId.OWNER, subject, owned.suspended, _scale_up(view.namespace, str(view.scaled)))
        for told in owned.warnings:
            yield warning(CheckId.OWNER, subject, told, "see docs/coexistence.md")


def _one_owner(resource: AutoscalerResource, lost: Mapping[tuple[ServiceId, str], str]) -> str:
    if any(service == resource.service.id for service, _ in lost):
        return f"kubectl -n {resource.namespace} delete inferenceautoscaler {resource.name}, or give it another target"
    return "delete the other one, or set spec.mode: Advise and let it follow our number"


def _scale_up(namespace: str, target: str) -> str:
    kind, _, name = target.partition(" ")
    return f"kubectl -n {namespace} scale {kind.lower()} {name} --replicas=1"


def _scalers(facts: ClusterFacts) -> Iterator[ForeignScaler | Finding]:
    """All that can be read; of each kind or object that can't, a finding."""
    kinds: tuple[tuple[str, Listed, Callable[[JsonObject], ForeignScaler]], ...] = (
        ("HorizontalPodAutoscaler", facts.hpas, hpa_of),
        ("ScaledObject", facts.scaled_objects, scaled_object_of),
        ("VerticalPodAutoscaler", facts.vpas, vpa_of),
    )
    for kind, listed, read in kinds:
        try:
            items = named(kind, known_or_none(listed))
        except PortError as failure:
            message = f"who of these scales our targets can't be told: {failure}"
            yield warning(CheckId.OWNER, kind, message, "give the user of the kubeconfig the right to list them")
            continue
        for subject, source in items:
            try:
                yield read(source)
            except PortError as failure:
                yield warning(CheckId.OWNER, subject, f"can't be read: {failure}", f"kubectl edit {subject}")


def check_statuses(facts: ClusterFacts) -> Findings:
    """Whether the controller decides on each of them: its status is there, fresh, and of the present spec."""
    views = [(_view_subject(view), view) for view in known(facts.resources)]
    yield from of_each(CheckId.STATUS, views, lambda subject, view: _status(facts, subject, view))


def _status(facts: ClusterFacts, subject: str, view: ResourceView) -> Findings:
    told, wanted = view.publication, view.wanted
    log = "look whether the controller runs and watches this namespace: kubectl logs, kubernetes.namespaces"
    if not view.status or told.at_s == 0:
        yield error(CheckId.STATUS, subject, "no decision was ever made on it", log)
    elif told.stale(facts.now_s):
        message = f"its last decision is {facts.now_s - told.at_s:.0f} s old: HPA and KEDA get no number any more"
        yield error(CheckId.STATUS, subject, message, log)
    observed = optional_whole(view.status, "observedGeneration")
    if observed is not None and observed < wanted.generation:
        yield warning(CheckId.STATUS, subject, "the controller has not taken in its latest change yet", log)


# What each condition should be, and what to do where it isn't.
_SHOULD: Mapping[ConditionType, tuple[str, str]] = {
    ConditionType.READY: ("True", "put right what the message names"),
    ConditionType.METRICS_KNOWN: ("True", "see the findings on metrics"),
    ConditionType.OWNER_CONFLICT: ("False", "leave the replicas to one of the two (docs/coexistence.md)"),
    ConditionType.TARGET_SCHEDULABLE: ("True", "add nodes, or see the pods' events for what the nodes lack"),
    ConditionType.LIMITED: ("False", "raise what limits it (spec.maxReplicas, quota, nodes), or accept it"),
}
_FAULTS = (ConditionType.READY, ConditionType.OWNER_CONFLICT)


def check_conditions(facts: ClusterFacts) -> Findings:
    """What the controller itself complains of."""
    views = [(_view_subject(view), view) for view in known(facts.resources)]
    yield from of_each(CheckId.CONDITIONS, views, _conditions)


def _conditions(subject: str, view: ResourceView) -> Findings:
    for condition in objects(view.status, "conditions"):
        kind = text(condition, "type")
        if kind not in set(ConditionType) or ConditionType(kind) not in _SHOULD:
            continue
        should, fix = _SHOULD[ConditionType(kind)]
        status = text(condition, "status")
        if status in (should, "Unknown"):
            continue
        reason, message = optional_text(condition, "reason") or "", optional_text(condition, "message") or ""
        told = error if kind in _FAULTS else warning
        yield told(CheckId.CONDITIONS, subject, f"{kind} is {status} ({reason}): {message}", fix)


def _view_subject(view: ResourceView) -> str:
    return subject_of(view.wanted.namespace, view.wanted.name)
