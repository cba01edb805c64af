"""Objects as the API server gives them, in the parts that matter to whoever scales them."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]
CREATED = "2026-11-30T12:00:00Z"


def wrote(
    manager: str,
    *,
    operation: str = "Update",
    time: str | None = CREATED,
    subresource: str = "",
    fields: Mapping[str, object] | None = None,
) -> Json:
    """An entry of managedFields; the count alone unless ``fields`` says more."""
    entry: Json = {
        "apiVersion": "apps/v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:replicas": {}}} if fields is None else dict(fields),
        "manager": manager,
        "operation": operation,
    }
    if time is not None:  # writes through /scale have none
        entry["time"] = time
    if subresource:
        entry["subresource"] = subresource
    return entry


def metadata(name: str, *, uid: str = "", version: str = "100", **more: object) -> Json:
    """Of an object in namespace "shop"."""
    return {
        "name": name,
        "namespace": "shop",
        "uid": uid or f"uid-{name}",
        "resourceVersion": version,
        "generation": 1,
        "creationTimestamp": CREATED,
        **more,
    }


def made_by(api_version: str, kind: str, name: str) -> Json:
    """More of metadata: the controller that made the object."""
    owner = {"apiVersion": api_version, "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}
    return {"ownerReferences": [{**owner, "blockOwnerDeletion": True}]}


def gpu_template(gpus: int = 1, *, app: str = "llm", resource: str = "nvidia.com/gpu") -> Json:
    """A pod template whose one container holds devices."""
    limits = {resource: str(gpus), "cpu": "8", "memory": "64Gi"}
    return {
        "metadata": {"labels": {"app": app}},
        "spec": {
            "containers": [{"name": "vllm", "image": "vllm/vllm-openai", "resources": {"limits": limits}}],
            "terminationGracePeriodSeconds": 120,
        },
    }


def deployment(name: str = "llm", replicas: int = 3, **meta: Any) -> Json:
    """One that is at rest."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(name, **meta),
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": gpu_template(app=name),
            "strategy": {"type": "RollingUpdate"},
        },
        "status": {
            "observedGeneration": 1,
            "replicas": replicas,
            "updatedReplicas": replicas,
            "readyReplicas": replicas,
        },
    }


def stateful_set(name: str = "llm", replicas: int = 3) -> Json:
    """One that is at rest."""
    whole = deployment(name, replicas)
    whole["kind"] = "StatefulSet"
    whole["spec"]["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
    whole["status"].update(currentRevision="llm-1", updateRevision="llm-1")
    return whole


def leader_worker_set(*, size: int = 4, leader_gpus: int | None = None) -> Json:
    """Two groups."""
    template: Json = {"size": size, "workerTemplate": gpu_template(8)}
    if leader_gpus is not None:
        template["leaderTemplate"] = gpu_template(leader_gpus)
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": metadata("big"),
        "spec": {"replicas": 2, "leaderWorkerTemplate": template},
        "status": {
            "replicas": 2,
            "updatedReplicas": 2,
            "hpaPodSelector": "leaderworkerset.sigs.k8s.io/name=big,leaderworkerset.sigs.k8s.io/worker-index=0",
        },
    }


def inference_service(name: str = "llm", **annotations: str) -> Json:
    """``annotations``: without the prefix serving.kserve.io/."""
    noted = {f"serving.kserve.io/{key}": value for key, value in annotations.items()}
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": metadata(name, annotations=noted),
        "spec": {"predictor": {"model": {"modelFormat": {"name": "huggingface"}}}},
    }


def ray_service(*, in_tree: bool = False) -> Json:
    """Two worker groups, the second of two hosts a replica."""
    groups = [
        {"groupName": "small", "replicas": 2, "minReplicas": 1, "maxReplicas": 8, "template": gpu_template(1)},
        {"groupName": "pair", "replicas": 3, "numOfHosts": 2, "template": gpu_template(8)},
    ]
    config = {"enableInTreeAutoscaling": in_tree, "headGroupSpec": {}, "workerGroupSpecs": groups}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayService",
        "metadata": metadata("ray"),
        "spec": {"serveConfigV2": "", "rayClusterConfig": config},
        "status": {"activeServiceStatus": {"rayClusterName": "ray-xk2v9"}},
    }


def ray_cluster(name: str = "ray-xk2v9", **meta: Any) -> Json:
    """What a RayService makes, or a user."""
    service = ray_service()
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": metadata(name, **meta),
        "spec": service["spec"]["rayClusterConfig"],
        "status": {},
    }


def nim_service(**spec: object) -> Json:
    """One with two replicas."""
    resources = {"limits": {"nvidia.com/gpu": "2"}}
    return {
        "apiVersion": "apps.nvidia.com/v1alpha1",
        "kind": "NIMService",
        "metadata": metadata("nim"),
        "spec": {"replicas": 2, "resources": resources, "nodeSelector": {"pool": "h100"}, **spec},
        "status": {"state": "Ready", "availableReplicas": 2},
    }


def custom(name: str = "engine", replicas: int = 2, **meta: Any) -> Json:
    """An object of a kind that we have never heard of."""
    return {
        "apiVersion": "example.org/v1",
        "kind": "EngineSet",
        "metadata": metadata(name, **meta),
        "spec": {"replicas": replicas},
        "status": {"replicas": replicas, "selector": f"engine={name}"},
    }


def scaler(kind: str, name: str, target: Mapping[str, object], **spec: object) -> Json:
    """An object with a target."""
    versions = {
        "HorizontalPodAutoscaler": "autoscaling/v2",
        "ScaledObject": "keda.sh/v1alpha1",
        "VerticalPodAutoscaler": "autoscaling.k8s.io/v1",
    }
    key = "targetRef" if kind == "VerticalPodAutoscaler" else "scaleTargetRef"
    return {
        "apiVersion": versions[kind],
        "kind": kind,
        "metadata": metadata(name),
        "spec": {key: dict(target), **copy.deepcopy(spec)},
    }
