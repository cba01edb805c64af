"""What the controller has to be allowed to do, by mode; the same as the chart's roles give."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from adapters.kubernetes.target_kinds import TARGET_KINDS
from adapters.kubernetes.target_view import TargetView
from adapters.kubernetes.targets import Targeted, TargetProblem
from autoscaler.config.kubernetes_settings import KubernetesSettings
from autoscaler.doctor.finding import CheckId, Findings, error, warning
from autoscaler.domain.resource import AutoscalerResource, Mode, TargetRef
from autoscaler.ports import PortError

_DEFAULT_LEASE = "gpu-autoscaler"
_AUTHENTICATION = "extension-apiserver-authentication"


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """What is to be allowed. ``namespace`` None: in all. ``name``: of the one object, "" for any. ``why``: what for."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    why: str
    namespace: str | None = None
    name: str = ""

    @property
    def rule(self) -> str:
        """The rule that gives it, as YAML."""
        names = f", resourceNames: [{self.name}]" if self.name else ""
        group = self.group or '""'
        return f"- {{apiGroups: [{group}], resources: [{self.resource}]{names}, verbs: [{', '.join(self.verbs)}]}}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A right and the answer of the API server for each verb that it refused. ``account``: for whom it was asked;
    ``failure``: why it could not be asked.
    """

    right: Right
    account: str
    refused: tuple[str, ...] = ()
    failure: PortError | None = None


def needed_rights(
    resources: Sequence[AutoscalerResource],
    targets: Targeted,
    settings: KubernetesSettings | None,
    *,
    lease_namespace: str | None,
    external_metrics: bool,
) -> list[Right]:
    """All rights that these resources and settings take, one for each kind of object and place."""
    served = (settings.namespaces if settings is not None else ()) or (None,)
    found = [*_read(resources, targets)]
    found += [replace(right, namespace=namespace) for namespace in served for right in _SERVED]
    if lease_namespace is not None:
        election = settings.election if settings is not None else None
        name = election.lease_name if election is not None else _DEFAULT_LEASE
        lease = Right(
            group="coordination.k8s.io",
            resource="leases",
            verbs=("create",),
            why="replicas elect their leader",
            namespace=lease_namespace,
        )
        found += [lease, replace(lease, verbs=("get", "update"), name=name)]
    if external_metrics:
        found += _EXTERNAL
    found += _write([each for each in resources if each.mode is Mode.SCALE], targets)
    return list(dict.fromkeys(found))


_LOOKED_AT = (
    ("", "pods", "whose pods serve"),
    ("", "nodes", "what nodes offer"),
    ("", "resourcequotas", "what a namespace may have"),
    ("", "limitranges", "what a namespace may have"),
    ("scheduling.k8s.io", "priorityclasses", "which pods make room"),
    ("autoscaling", "horizontalpodautoscalers", "who else scales a target"),
    ("keda.sh", "scaledobjects", "who else scales a target"),
    ("autoscaling.k8s.io", "verticalpodautoscalers", "who else changes a target"),
)
_SERVED = (
    Right(
        group="gpu-autoscaler.io",
        resource="inferenceautoscalers",
        verbs=("list", "watch"),
        why="what is asked of the controller",
    ),
    Right(
        group="gpu-autoscaler.io",
        resource="inferenceautoscalers/status",
        verbs=("patch",),
        why="what was decided; HPA and KEDA are answered from it",
    ),
    Right(group="events.k8s.io", resource="events", verbs=("create", "patch"), why="an event for each change"),
)
_EXTERNAL = (
    Right(
        group="",
        resource="configmaps",
        verbs=("get", "list", "watch"),
        why="whose certificates the API server shows",
        namespace="kube-system",
        name=_AUTHENTICATION,
    ),
    Right(group="authentication.k8s.io", resource="tokenreviews", verbs=("create",), why="who asks"),
    Right(group="authorization.k8s.io", resource="subjectaccessreviews", verbs=("create",), why="whether they may"),
)


def _read(resources: Sequence[AutoscalerResource], targets: Targeted) -> Iterator[Right]:
    for group, resource, why in _LOOKED_AT:
        yield Right(group=group, resource=resource, verbs=("list", "watch"), why=why)
    for ref in _targeted_kinds(resources, targets):
        if (plural := _plural(ref)) is not None:
            yield Right(group=ref.group, resource=plural, verbs=("list", "watch"), why="targets and their owners")


def _targeted_kinds(resources: Sequence[AutoscalerResource], targets: Targeted) -> Iterable[TargetRef]:
    for resource in resources:
        for source in resource.sources:
            found = targets.get((resource.namespace, source.target))
            yield from found.chain if isinstance(found, TargetView) else (source.target,)


def _plural(ref: TargetRef) -> str | None:
    return next((kind.plural for kind in TARGET_KINDS if (kind.group, kind.kind) == (ref.group, ref.kind)), None)


def _write(resources: Sequence[AutoscalerResource], targets: Targeted) -> Iterator[Right]:
    for resource in resources:
        for source in resource.sources:
            found = targets.get((resource.namespace, source.target))
            view = found.last if isinstance(found, TargetProblem) else found
            if view is None:
                continue
            plural = view.write.object_path.split("/")[-2]
            by_scale = view.write.scale_path is not None
            yield Right(
                group=view.scaled.group,
                resource=f"{plural}/scale" if by_scale else plural,
                verbs=("get", "update") if by_scale else ("get", "patch"),
                why=f"mode Scale writes the replicas of {view.scaled.kind}s",
                namespace=resource.namespace,
            )
            if view.honours_deletion_cost:
                yield Right(
                    group="",
                    resource="pods",
                    verbs=("patch",),
                    why="idle pods are marked to go before busy ones",
                    namespace=resource.namespace,
                )


def check_rights(asked: Sequence[Asked]) -> Findings:
    """Rights that are missing, each with the rule that gives it."""
    for each in asked:
        right = each.right
        where = "in all namespaces" if right.namespace is None else f"in namespace {right.namespace}"
        subject = f"{right.resource}{f'.{right.group}' if right.group else ''}"
        if each.failure is not None:
            yield warning(CheckId.RIGHTS, subject, f"it can't be asked whether this is allowed: {each.failure}")
        elif each.refused:
            yield error(
                CheckId.RIGHTS,
                subject,
                f"{each.account} may not {', '.join(each.refused)} {right.resource} {where} ({right.why})",
                f"add to its {'ClusterRole' if right.namespace is None else 'Role'}: {right.rule}",
            )
