"""The kinds of object that we know how to scale, one row each: where they are served and how they are read.

A kind without a row is scaled by its scale subresource alone (``custom_kinds.py``).
"""

from __future__ import annotations

from adapters.kubernetes.operator_kinds import inference_service, nim_service, ray_cluster, ray_service
from adapters.kubernetes.scalable import TargetKind
from adapters.kubernetes.workload_kinds import deployment, leader_worker_set, stateful_set

TARGET_KINDS = (
    TargetKind(group="apps", version="v1", plural="deployments", kind="Deployment", read=deployment),
    TargetKind(group="apps", version="v1", plural="statefulsets", kind="StatefulSet", read=stateful_set),
    TargetKind(
        group="leaderworkerset.x-k8s.io",
        version="v1",
        plural="leaderworkersets",
        kind="LeaderWorkerSet",
        read=leader_worker_set,
    ),
    TargetKind(
        group="serving.kserve.io",
        version="v1beta1",
        plural="inferenceservices",
        kind="InferenceService",
        read=inference_service,
    ),
    TargetKind(group="ray.io", version="v1", plural="rayservices", kind="RayService", read=ray_service),
    TargetKind(group="ray.io", version="v1", plural="rayclusters", kind="RayCluster", read=ray_cluster),
    TargetKind(group="apps.nvidia.com", version="v1alpha1", plural="nimservices", kind="NIMService", read=nim_service),
)
