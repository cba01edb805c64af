"""The service ``chat`` on the test cluster: its engines, its InferenceAutoscaler, and who scales it."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.api import ApiError, Json
from tests.cluster.controllers import ControllerProcess
from tests.cluster.processes import free_port
from tests.cluster.running import Cluster
from tests.cluster.workloads import await_ready_pods, condition, deployment, pod_template

GPU = "nvidia.com/gpu"
# About 10 requests/s of 20 tokens in SLO: four sequences at a time, 20 ms a step.
ENGINE = "--model chat --step-base-ms 18 --max-num-seqs 4 --startup-s 1"
SLO = {"ttft": "1s", "itl": "100ms"}
STEP_TIME = {"c": "18ms", "d": "50us", "e": "200ns", "a": "80us"}


def autoscaler(name: str = "chat", **spec: Any) -> Json:
    """An InferenceAutoscaler on the Deployment chat."""
    return {
        "apiVersion": "gpu-autoscaler.io/v1alpha1",
        "kind": "InferenceAutoscaler",
        "metadata": {"name": name},
        "spec": {
            "slo": SLO,
            "engine": "vllm",
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat"},
            "startup": "3s",
            "stepTime": STEP_TIME,
            "maxNumSeqs": 4,
            "maxReplicas": 6,
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 10}},
            **spec,
        },
    }


def deploy(cluster: Cluster, namespace: str, *, replicas: int = 1) -> None:
    """The engines."""
    # As with a preStop sleep: whoever has not heard yet that a pod ends may still send it a request.
    template = pod_template("chat", behaviour={"engine": ENGINE, "stop-s": "3"}, resources={GPU: "1"})
    cluster.apply([deployment("chat", replicas=replicas, template=template)], namespace=namespace)
    await_ready_pods(cluster, namespace, replicas, app="chat")


def replicas(cluster: Cluster, namespace: str, name: str = "chat") -> int:
    """Those that are asked for."""
    found = cluster.api.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}")
    return int(found["spec"]["replicas"])


def write_replicas(cluster: Cluster, namespace: str, count: int) -> None:
    """As ``kubectl scale`` does."""
    cluster.kubectl("scale", "deployment", "chat", f"--replicas={count}", f"--namespace={namespace}")


def resource(cluster: Cluster, namespace: str, name: str = "chat") -> Json:
    """The InferenceAutoscaler."""
    return cluster.api.get(f"/apis/gpu-autoscaler.io/v1alpha1/namespaces/{namespace}/inferenceautoscalers/{name}")


def member(cluster: Cluster, namespace: str, folder: Path, *, number: int = 0, **settings: Any) -> ControllerProcess:
    """A replica of the controller that looks at this namespace alone."""
    return ControllerProcess(
        cluster,
        folder,
        namespace,
        cluster.kubeconfig,
        name=f"controller-{number}",
        settings={"namespaces": [namespace], **settings},
    )


def serving_external_metrics(cluster: Cluster, folder: Path) -> dict[str, Any]:
    """Settings with which a controller is the cluster's source of external metrics."""
    pair = cluster.certificates.ca.issue(f"external-{free_port()}", hosts=("metrics.autoscaler.svc", "localhost"))
    return {
        "externalMetrics": {
            "enabled": True,
            "host": "127.0.0.1",
            "port": free_port(),
            "certificateFile": str(pair.certificate),
            "keyFile": str(pair.key),
        }
    }


def hpa_condition(cluster: Cluster, namespace: str, name: str = "chat") -> Json:
    """What the HPA says of its metric."""
    path = f"/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers/{name}"
    return condition(cluster.api.find(path) or {"status": {}}, "ScalingActive")


def manifests(kind: str, namespace: str, folder: Path, *options: str) -> str:
    """What ``gpu-autoscaler manifests`` prints for the resource chat."""
    file = folder / "chat.yaml"
    file.write_text(yaml.safe_dump({**autoscaler(), "metadata": {"name": "chat", "namespace": namespace}}))
    command = (sys.executable, "-m", "autoscaler.cli", "manifests", kind, "chat", "--file", str(file), *options)
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


@contextmanager
def lowest(cluster: Cluster, namespace: str) -> Iterator[Callable[[], int]]:
    """The smallest number of replicas that was asked for during a block."""
    seen: list[int] = []
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.1):
            with suppress(ApiError, OSError):
                seen.append(replicas(cluster, namespace))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield lambda: min(seen)
    finally:
        ended.set()
        thread.join()


def holder_of(cluster: Cluster, namespace: str) -> str:
    """Who holds the controllers' Lease."""
    lease = cluster.api.get(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/gpu-autoscaler")
    return str(lease["spec"].get("holderIdentity", ""))
