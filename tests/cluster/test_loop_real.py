"""The whole loop on a real control plane: load, engines in pods, the controller, and whoever carries its number out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.api import Json
from tests.cluster.controllers import ControllerProcess, running
from tests.cluster.load import Load
from tests.cluster.processes import wait_for
from tests.cluster.running import Cluster
from tests.cluster.workloads import await_ready_pods, condition, deployment, pod_template

pytestmark = pytest.mark.cluster

GPU = "nvidia.com/gpu"
# About 10 requests/s of 20 tokens in SLO: four sequences at a time, 20 ms a step.
ENGINE = "--model chat --step-base-ms 18 --max-num-seqs 4 --startup-s 1"
SLO = {"ttft": "1s", "itl": "100ms"}
STEP_TIME = {"c": "18ms", "d": "50us", "e": "200ns", "a": "80us"}


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """One of its own for each test, with a node that has eight GPUs."""
    with cluster.namespace() as name, cluster.nodes.added(f"gpu-{name}", resources={GPU: "8"}):
        yield name


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
    template = pod_template("chat", behaviour={"engine": ENGINE}, resources={GPU: "1"})
    cluster.apply([deployment("chat", replicas=replicas, template=template)], namespace=namespace)
    await_ready_pods(cluster, namespace, replicas, app="chat")


def replicas(cluster: Cluster, namespace: str, name: str = "chat") -> int:
    """Those that are asked for."""
    found = cluster.api.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}")
    return int(found["spec"]["replicas"])


def resource(cluster: Cluster, namespace: str, name: str = "chat") -> Json:
    """The InferenceAutoscaler."""
    return cluster.api.get(f"/apis/gpu-autoscaler.io/v1alpha1/namespaces/{namespace}/inferenceautoscalers/{name}")


@pytest.fixture(scope="module")
def kind(cluster: Cluster) -> None:
    """The custom resource is known."""
    cluster.define_kinds(Path(__file__).parents[2] / "charts/gpu-autoscaler/crds")


@pytest.fixture
def controller(cluster: Cluster, kind: None, namespace: str, tmp_path: Path) -> Iterator[ControllerProcess]:
    """A replica of the controller that looks at this namespace alone."""
    with running(
        ControllerProcess(cluster, tmp_path, namespace, cluster.kubeconfig, settings={"namespaces": [namespace]})
    ) as one:
        yield one


def test_it_scales_by_itself_from_one_up_and_back(
    cluster: Cluster, namespace: str, controller: ControllerProcess
) -> None:
    deploy(cluster, namespace)
    cluster.apply([autoscaler(mode="Scale")], namespace=namespace)
    with Load(cluster, namespace, rps=25) as load:
        wait_for(lambda: replicas(cluster, namespace) >= 3, f"three replicas; {controller.log.read_text()[-3000:]}")
        await_ready_pods(cluster, namespace, replicas(cluster, namespace), app="chat")
        settled_s = time.monotonic() + 10
        wait_for(lambda: time.monotonic() > settled_s + 10, "ten seconds after the ramp")
    assert load.failures == []
    assert load.late_share(since_s=settled_s, within_s=1 + 20 * 0.1) <= 0.01
    wait_for(lambda: replicas(cluster, namespace) == 1, "back to one", within_s=240)
    status = resource(cluster, namespace)["status"]
    assert condition({"status": status}, "Ready")["status"] == "True"
    assert len(status["lastDecisions"]) >= 2
    assert "Scaled" in {each["reason"] for each in cluster.events(namespace)}
