"""Checks of KEDA's ScaledObjects that ask our external scaler."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from adapters.kubernetes.contents import key_of
from adapters.kubernetes.foreign_scalers import scaled_object_of
from adapters.kubernetes.raw_json import (
    JsonObject,
    found,
    inner,
    objects,
    optional_text,
    optional_whole,
    strings,
    text,
    whole,
)
from adapters.kubernetes.target_view import TargetView
from adapters.serving.keda.trigger import MetadataError, Trigger, trigger_of
from adapters.serving.keda.wire import ScaledObjectRef
from autoscaler.doctor.facts import ClusterFacts, known_or_none, named
from autoscaler.doctor.finding import CheckId, Findings, error, of_each, warning
from autoscaler.doctor.followers import judged_behavior, judged_bounds
from autoscaler.domain.publication import DESIRED_REPLICAS
from autoscaler.ports import PortError

_EXTERNAL = ("external", "external-push")
_OWN_NAME = "gpu-autoscaler"
# KEDA's defaults: docs, "ScaledObject specification".
_POLLING_S, _COOLDOWN_S, _LOWEST, _HIGHEST = 30, 300, 0, 100
_MOST_POLLING_S = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalerAddress:
    """``scalerAddress`` of a trigger: the Service that it names, where it is a name within the cluster."""

    host: str
    port: int | None

    @property
    def service(self) -> str | None:
        """The Service as "namespace/name"; None for another host."""
        parts = self.host.split(".")
        return f"{parts[1]}/{parts[0]}" if len(parts) >= 3 and parts[2] == "svc" else None


def address_of(written: str) -> ScalerAddress:
    """ "gpu-autoscaler.gpu-autoscaler.svc:9090" in parts."""
    host, _, port = written.rpartition(":")
    return ScalerAddress(host=host or written, port=int(port) if host and port.isdecimal() else None)


def addressed(scaled_objects: Sequence[JsonObject]) -> Iterator[ScalerAddress]:
    """The scalers that ScaledObjects name; what can't be read is left out."""
    for source in scaled_objects:
        try:
            for trigger in _triggers(source):
                yield address_of(strings(trigger, "metadata").get("scalerAddress", ""))
        except PortError:
            continue


def check_scaled_objects(facts: ClusterFacts) -> Findings:
    """Those with a trigger of ours."""
    items = named("ScaledObject", known_or_none(facts.scaled_objects))
    yield from of_each(CheckId.SCALED_OBJECT, items, lambda subject, source: _scaled_object(facts, subject, source))


def _triggers(source: JsonObject) -> Iterator[JsonObject]:
    """Those of ours: external ones that name us, or the service of one of our resources."""
    for trigger in objects(source, "spec", "triggers"):
        metadata = strings(trigger, "metadata")
        if text(trigger, "type") in _EXTERNAL and (
            _OWN_NAME in metadata.get("scalerAddress", "") or "service" in metadata
        ):
            yield trigger


def _scaled_object(facts: ClusterFacts, subject: str, source: JsonObject) -> Findings:
    ours = list(_triggers(source))
    if not ours:
        return
    if len(objects(source, "spec", "triggers")) > 1:
        message = "it has other triggers too, and the largest number wins: ours is only a lower bound"
        yield warning(CheckId.SCALED_OBJECT, subject, message, "leave spec.triggers with ours alone")
    for trigger in ours:
        yield from _trigger(facts, subject, source, trigger)
    yield from _pace(subject, source, push=all(text(each, "type") == "external-push" for each in ours))
    yield from judged_behavior(
        CheckId.SCALED_OBJECT, subject, source, "spec", "advanced", "horizontalPodAutoscalerConfig"
    )
    if not scaled_object_of(source).writes_replicas:
        yield warning(
            CheckId.SCALED_OBJECT,
            subject,
            "it is paused, so nobody carries our number out",
            "remove its annotation autoscaling.keda.sh/paused",
        )
    for condition in objects(source, "status", "conditions"):
        if text(condition, "type") == "Ready" and text(condition, "status") == "False":
            told = f"{optional_text(condition, 'reason')}: {optional_text(condition, 'message')}"
            log = f"kubectl -n {key_of(source).namespace} describe scaledobject {key_of(source).name}"
            yield error(CheckId.SCALED_OBJECT, subject, f"KEDA says that it is not ready, {told}", log)


def _trigger(facts: ClusterFacts, subject: str, source: JsonObject, trigger: JsonObject) -> Findings:
    metadata = strings(trigger, "metadata")
    kind = optional_text(trigger, "metricType") or "AverageValue"
    if kind != "AverageValue":
        message = f"metricType {kind} relates our number to the replicas that are there"
        yield error(CheckId.SCALED_OBJECT, subject, message, "spec.triggers[].metricType: AverageValue")
    yield from _reached(facts, subject, metadata)
    try:
        asked = trigger_of(
            ScaledObjectRef(name=key_of(source).name, namespace=key_of(source).namespace, metadata=dict(metadata))
        )
    except MetadataError as failure:
        yield error(CheckId.SCALED_OBJECT, subject, str(failure), "spec.triggers[].metadata")
        return
    if asked.question.metric == DESIRED_REPLICAS:
        yield from _fits(facts, subject, source, asked)


def _reached(facts: ClusterFacts, subject: str, metadata: Mapping[str, str]) -> Findings:
    written = metadata.get("scalerAddress", "")
    address = address_of(written)
    fix = "spec.triggers[].metadata.scalerAddress: SERVICE.NAMESPACE.svc:9090 of the chart's Service"
    if address.port is None:
        yield error(CheckId.SCALED_OBJECT, subject, f"scalerAddress {written!r} has no port", fix)
        return
    if address.service is None or address.service not in facts.services:
        return
    service = facts.services[address.service]
    if isinstance(service, PortError):
        yield warning(CheckId.SCALED_OBJECT, subject, f"its scaler's Service can't be read: {service}")
    elif service is None:
        yield error(CheckId.SCALED_OBJECT, subject, f"scalerAddress names a Service that is not there: {written}", fix)
    elif optional_text(service, "spec", "type") != "ExternalName":
        ports = [whole(each, "port") for each in objects(service, "spec", "ports")]
        if address.port not in ports:
            has = ", ".join(map(str, ports)) or "none"
            message = f"Service {address.service} has no port {address.port} (it has {has})"
            yield error(CheckId.SCALED_OBJECT, subject, message, fix)


def _fits(facts: ClusterFacts, subject: str, source: JsonObject, asked: Trigger) -> Findings:
    question = asked.question
    resource = next(
        (each for each in facts.usable() if (each.namespace, each.name) == (question.namespace, question.name)), None
    )
    if resource is None:
        message = f"there is no InferenceAutoscaler {question.name} in namespace {question.namespace} to be followed"
        yield error(CheckId.SCALED_OBJECT, subject, message, "spec.triggers[].metadata.service")
        return
    if asked.target_size != 1.0:
        message = f"targetSize is {asked.target_size:g}, so it sets another number than ours"
        yield error(CheckId.SCALED_OBJECT, subject, message, "leave spec.triggers[].metadata.targetSize out")
    scaled = scaled_object_of(source).target
    targets = {
        ref.identity
        for each in resource.sources
        if question.variant in (None, each.variant)
        for view in (facts.targets.get((resource.namespace, each.target)),)
        for ref in (view.chain if isinstance(view, TargetView) else (each.target,))
    }
    if scaled is not None and scaled.identity not in targets:
        message = f"it scales {scaled} on the number of {resource.name}, which has another target"
        yield error(CheckId.SCALED_OBJECT, subject, message, "spec.scaleTargetRef, or metadata.service")
    highest = optional_whole(source, "spec", "maxReplicaCount")
    yield from judged_bounds(
        CheckId.SCALED_OBJECT,
        subject,
        resource,
        lowest=optional_whole(source, "spec", "minReplicaCount"),
        default_lowest=_LOWEST,
        highest=_HIGHEST if highest is None else highest,
        keys=("spec.minReplicaCount", "spec.maxReplicaCount"),
        whole=question.variant is None and len(resource.sources) == 1,
    )


def _pace(subject: str, source: JsonObject, *, push: bool) -> Findings:
    """How soon KEDA follows, and what it does while our number is not known."""
    polling_s = optional_whole(source, "spec", "pollingInterval")
    polling_s = _POLLING_S if polling_s is None else polling_s
    lowest = optional_whole(source, "spec", "minReplicaCount") or _LOWEST
    if not push and lowest == 0 and polling_s >= _MOST_POLLING_S:
        message = f"a service at zero is woken only at the next poll, every {polling_s} s"
        yield warning(CheckId.SCALED_OBJECT, subject, message, "spec.triggers[].type: external-push")
    cooldown_s = optional_whole(source, "spec", "cooldownPeriod")
    cooldown_s = _COOLDOWN_S if cooldown_s is None else cooldown_s
    if lowest == 0 and cooldown_s > 0:
        message = f"KEDA waits {cooldown_s} s more before it goes to zero, on top of spec.idle"
        yield warning(CheckId.SCALED_OBJECT, subject, message, "spec.cooldownPeriod: 0")
    if found(source, "spec", "fallback") is not None:
        replicas = optional_whole(inner(source, "spec", "fallback"), "replicas")
        message = f"while our number is not known it falls back to {replicas} replicas, instead of keeping them"
        yield warning(CheckId.SCALED_OBJECT, subject, message, "leave spec.fallback out")
    if optional_whole(source, "spec", "idleReplicaCount") is not None:
        message = "idleReplicaCount sets a count that is not ours"
        yield warning(CheckId.SCALED_OBJECT, subject, message, "leave spec.idleReplicaCount out")
