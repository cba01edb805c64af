"""Objects of inference operators as targets: KServe, KubeRay and the NIM operator."""

from __future__ import annotations

from dataclasses import replace

from adapters.kubernetes.field_writers import writers_of
from adapters.kubernetes.label_matching import equal_labels
from adapters.kubernetes.pod_templates import needs_of
from adapters.kubernetes.raw_json import (
    JsonObject,
    flag,
    found,
    inner,
    objects,
    optional_text,
    optional_whole,
    strings,
    text,
)
from adapters.kubernetes.scalable import Scalable, TargetKind, controller_of, scalable, view_of
from adapters.kubernetes.target_view import PodGroup
from autoscaler.domain.resource import TargetRef


def inference_service(kind: TargetKind, source: JsonObject) -> Scalable:
    """KServe in standard (raw deployment) mode: the Deployment ``NAME-predictor`` has the count.

    Only the class ``external`` leaves the count to others. With ``none`` KServe sets it back to its minReplicas, with
    the others it makes an HPA or ScaledObject (kserve, pkg/controller/v1beta1/inferenceservice/reconcilers/deployment,
    checkDeploymentExist: "for none scaler, we should not ignore Replicas").
    """
    annotations, name = strings(source, "metadata", "annotations"), text(source, "metadata", "name")
    chosen = annotations.get("serving.kserve.io/autoscalerClass", "")
    mode = optional_text(source, "status", "deploymentMode") or annotations.get("serving.kserve.io/deploymentMode")
    refusal = None
    if mode not in (None, "RawDeployment", "Standard"):
        refusal = (
            f"InferenceService {name} runs in mode {mode}, in which Knative scales it; "
            "annotate it with serving.kserve.io/deploymentMode: Standard (RawDeployment before KServe 0.16)"
        )
    elif chosen != "external":
        refusal = (
            f"KServe owns the replica count of InferenceService {name} (autoscalerClass {chosen or 'hpa, the default'}"
            "); annotate it with serving.kserve.io/autoscalerClass: external"
        )
    return Scalable(
        ref=kind.ref(source),
        uid=text(source, "metadata", "uid"),
        runs=TargetRef(api_version="apps/v1", kind="Deployment", name=f"{name}-predictor"),
        controller=controller_of(source),
        refusal=refusal,
        leaves_count=True,
    )


def ray_service(kind: TargetKind, source: JsonObject) -> Scalable:
    """The worker groups of the cluster that serves now.

    KubeRay starts no new cluster for a change of replicas alone (label
    ray.io/hash-without-replicas-and-workers-to-delete in ray-operator/controllers/ray/utils/constant.go).
    """
    serving = optional_text(source, "status", "activeServiceStatus", "rayClusterName")
    return _worker_groups(kind, source, ("spec", "rayClusterConfig"), cluster=serving)


def ray_cluster(kind: TargetKind, source: JsonObject) -> Scalable:
    """The worker groups of a cluster of its own."""
    return _worker_groups(kind, source, ("spec",), cluster=text(source, "metadata", "name"))


def _worker_groups(kind: TargetKind, source: JsonObject, at: tuple[str, ...], *, cluster: str | None) -> Scalable:
    """Groups of replicas of ``numOfHosts`` pods each; ``at``: where the cluster's spec is.

    Labels: ray-operator/controllers/ray/utils/constant.go; those of groups of several hosts since KubeRay 1.5.
    """
    name, config = text(source, "metadata", "name"), inner(source, *at)
    refusal = None
    if flag(config, "enableInTreeAutoscaling"):
        refusal = f"Ray's own autoscaler scales {kind.kind} {name}; set enableInTreeAutoscaling to false"
    views = {}
    for index, group in enumerate(objects(config, "workerGroupSpecs")):
        group_name = text(group, "groupName")
        hosts = optional_whole(group, "numOfHosts") or 1
        labels = {"ray.io/cluster": cluster, "ray.io/group": group_name} if cluster else None
        view = view_of(
            kind,
            source,
            selector=equal_labels(labels) if labels else None,
            leader=equal_labels({**labels, "ray.io/replica-host-index": "0"}) if labels and hosts > 1 else None,
            group_label="ray.io/worker-group-replica-name" if hosts > 1 else None,
            groups=[PodGroup(needs=needs_of(inner(group, "template")), pods=hosts)],
            replicas=1 if (asked := optional_whole(group, "replicas")) is None else asked,
            scale=False,
            refusal=refusal,
        )
        ref = replace(view.ref, worker_group=group_name)
        element: tuple[str | int, ...] = (*at, "workerGroupSpecs", index)
        views[group_name] = replace(
            view,
            ref=ref,
            scaled=ref,
            status_replicas=None,
            writers=writers_of(source, *at, "workerGroupSpecs"),
            write=replace(view.write, pointer=(*element, "replicas"), guard=((*element, "groupName"), group_name)),
        )
    return Scalable(
        ref=kind.ref(source), uid=text(source, "metadata", "uid"), views=views, controller=controller_of(source)
    )


def nim_service(kind: TargetKind, source: JsonObject) -> Scalable:
    """``spec.replicas``; its operator makes a Deployment of the same name and would set that one back.

    Selector: the label ``app`` (k8s-nim-operator, api/apps/v1alpha1/nimservice_types.go, GetStandardSelectorLabels).
    """
    name = text(source, "metadata", "name")
    refusal = None
    if flag(source, "spec", "scale", "enabled"):
        refusal = f"NIMService {name} has an HPA of its own; set spec.scale.enabled to false"
    elif found(source, "spec", "multiNode") is not None:
        refusal = f"NIMService {name} is multi-node, and its groups can't be scaled through it; run it on one node"
    container = {"resources": inner(source, "spec", "resources")}
    pod = {name: found(source, "spec", name) for name in ("nodeSelector", "tolerations", "affinity")}
    view = view_of(
        kind,
        source,
        selector=equal_labels({"app": name}),
        groups=[PodGroup(needs=needs_of({"spec": {**pod, "containers": [container]}}))],
        scale=False,
        status_replicas=optional_whole(source, "status", "availableReplicas"),
        refusal=refusal,
    )
    return scalable(source, view)
