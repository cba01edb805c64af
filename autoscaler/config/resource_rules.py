"""Rules of an InferenceAutoscaler that join several keys, said twice: to the API server and to the controller.

The API server refuses by expressions (CEL, ``x-kubernetes-validations``). What it has let through under an older
schema, or where it validates nothing, the controller refuses in the same words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from autoscaler.config.document import Path
from autoscaler.config.fields import default_of
from autoscaler.config.resource_schema import GatewayRefSection, ResourceSection, ResourceSpecSection, TargetRefSection
from autoscaler.config.scaling_rules import Finding, ReadScaling, scaling_findings
from autoscaler.config.scaling_schema import SloSection, StepTimeSection
from autoscaler.domain.gateway import GatewayKind
from autoscaler.domain.resource import TargetRef
from autoscaler.domain.service import Bounds

ReadResource = ReadScaling[ResourceSpecSection]

GROUPED_KINDS = ("RayCluster", "RayService")
NO_TARGETS = ("HorizontalPodAutoscaler", "InferenceAutoscaler", "Pod", "ScaledJob", "ScaledObject")
_MAX_REPLICAS = default_of(Bounds, "max_replicas")
_LONGEST_NAME = 63  # of a label's value
_NAME = f"may have at most {_LONGEST_NAME} characters, so that label selectors can ask for it"
_ONE_FORM = "give either targetRef (one kind of replica) or variants (several), one of the two"
_NEEDS_GROUP = "of a RayService or RayCluster one worker group is scaled: workerGroup has to name it"
_NO_GROUP = "only a RayService or RayCluster has worker groups; leave workerGroup out"
_WHICH_PODS = "of another's gateway the pods have to be named: selector is missing"
_OURS_TELLS = "are for the gateways of others; ours tells its services apart by itself"
_NO_TARGET = "runs no replicas that could be counted; name the Deployment (or other object) that does"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """One rule for the API server: ``rule`` (CEL) has to be true, else ``message`` is told at ``field``.

    ``told``: a CEL expression for a message with the values in it, where ``message`` alone says too little.
    """

    rule: str
    message: str
    field: str | None = None
    told: str | None = None


def expressions() -> Mapping[str, tuple[Expression, ...]]:
    """The rules by the name of the section on which they stand."""
    terms = ("c", "d", "e", "a")
    any_term = " || ".join(f"has(self.{term})" for term in terms)
    all_terms = " && ".join(f"has(self.{term})" for term in terms)
    thresholds = " || ".join(f"has(self.{key})" for key in ("ttft", "itl", "queue", "e2e"))
    grouped = f"self.kind in {list(GROUPED_KINDS)}"
    return {
        ResourceSection.__name__: (
            Expression(rule=f"size(self.metadata.name) <= {_LONGEST_NAME}", message=f"metadata.name {_NAME}"),
        ),
        SloSection.__name__: (
            Expression(rule=thresholds, message="needs at least one threshold: ttft, itl, queue or e2e"),
        ),
        StepTimeSection.__name__: (
            Expression(
                rule=f"!has(self.profile) || !({any_term})",
                message="give either a profile or the terms c, d, e, a; not both",
            ),
            Expression(rule=f"has(self.profile) || ({all_terms})", message="needs a profile, or all of c, d, e, a"),
            Expression(
                rule="!has(self.c) || duration(self.c) > duration('0s')", message="must be more than 0s", field=".c"
            ),
        ),
        GatewayRefSection.__name__: (
            Expression(rule=f"self.type == '{GatewayKind.GPU_AUTOSCALER}' || has(self.selector)", message=_WHICH_PODS),
            Expression(
                rule=f"self.type != '{GatewayKind.GPU_AUTOSCALER}' || size(self.matchLabels) == 0",
                message=_OURS_TELLS,
                field=".matchLabels",
            ),
        ),
        TargetRefSection.__name__: (
            Expression(rule=f"!({grouped}) || has(self.workerGroup)", message=_NEEDS_GROUP),
            Expression(rule=f"{grouped} || !has(self.workerGroup)", message=_NO_GROUP, field=".workerGroup"),
            Expression(
                rule=f"!(self.kind in {list(NO_TARGETS)})",
                message=_NO_TARGET,
                told=f"self.kind + ' {_NO_TARGET}'",
                field=".kind",
            ),
        ),
        ResourceSpecSection.__name__: (
            Expression(rule="has(self.targetRef) != has(self.variants)", message=_ONE_FORM),
            Expression(
                rule="self.minReplicas <= self.maxReplicas",
                message=f"must be at most maxReplicas ({_MAX_REPLICAS} unless given)",
                field=".minReplicas",
            ),
            Expression(
                rule="duration(self.startDeadline) >= duration(self.startup)",
                message="every start would fail: startDeadline is shorter than startup",
                told="'every start would fail: startDeadline ' + self.startDeadline + ' is shorter than startup ' "
                "+ self.startup",
                field=".startDeadline",
            ),
            Expression(
                rule="!has(self.variants) || self.variants.all(one, self.variants.exists_one(other, "
                + " && ".join(_same("one.targetRef", "other.targetRef"))
                + "))",
                message="two variants have the same target; each needs an object of its own",
                field=".variants",
            ),
        ),
    }


def name_findings(name: str) -> Iterator[Finding]:
    """What is wrong with a resource's name."""
    if len(name) > _LONGEST_NAME:
        yield ("metadata", "name"), f"{_NAME}; got {len(name)}"


def resource_findings(read: ReadResource) -> Iterator[Finding]:
    """What is wrong within one resource."""
    section = read.section
    variants = section.variants or []
    yield from scaling_findings(read, variants)
    if read.reads("gateway") and section.gateway is not None:
        yield from _gateway(section.gateway, read.path("gateway"))
    if not read.reads("targetRef", "variants"):
        return
    if (section.target_ref is None) == (section.variants is None):
        yield read.path(), _ONE_FORM
    if section.target_ref is not None:
        yield from _target(section.target_ref, read.path("targetRef"))
    seen: dict[tuple[str, str, str, str], int] = {}
    for index, variant in enumerate(variants):
        path = read.path("variants", index, "targetRef")
        yield from _target(variant.target_ref, path)
        target = target_of(variant.target_ref)
        first = seen.setdefault(target.identity, index)
        if first != index:
            yield path, f"{target} is the target of variants[{first}] too; each needs an object of its own"


def _gateway(section: GatewayRefSection, path: Path) -> Iterator[Finding]:
    ours = section.type is GatewayKind.GPU_AUTOSCALER
    if not ours and section.selector is None:
        yield path, _WHICH_PODS
    if ours and section.match_labels:
        yield (*path, "matchLabels"), _OURS_TELLS


def _target(section: TargetRefSection, path: Path) -> Iterator[Finding]:
    grouped = section.kind in GROUPED_KINDS
    if grouped and section.worker_group is None:
        yield path, _NEEDS_GROUP
    if not grouped and section.worker_group is not None:
        yield (*path, "workerGroup"), _NO_GROUP
    if section.kind in NO_TARGETS:
        yield (*path, "kind"), f"{section.kind} {_NO_TARGET}"


def target_of(section: TargetRefSection) -> TargetRef:
    """The object that a section names."""
    return TargetRef(
        api_version=section.api_version, kind=section.kind, name=section.name, worker_group=section.worker_group
    )


def _same(one: str, other: str) -> Iterator[str]:
    """CEL: both name the same replicas, whatever the versions of their group."""
    yield f"{one}.name == {other}.name"
    yield f"{one}.kind == {other}.kind"
    yield f"{one}.apiVersion.split('/')[0] == {other}.apiVersion.split('/')[0]"
    group = "(has({0}.workerGroup) ? {0}.workerGroup : '')".format
    yield f"{group(one)} == {group(other)}"
