"""The whole loop on a real control plane: load, engines in pods, the controller, and whoever carries its number out."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.api import Json
from tests.cluster.controllers import ControllerProcess, running
from tests.cluster.load import Load
from tests.cluster.processes import free_port, wait_for
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


def write_replicas(cluster: Cluster, namespace: str, count: int) -> None:
    """As ``kubectl scale`` does."""
    cluster.kubectl("scale", "deployment", "chat", f"--replicas={count}", f"--namespace={namespace}")


def resource(cluster: Cluster, namespace: str, name: str = "chat") -> Json:
    """The InferenceAutoscaler."""
    return cluster.api.get(f"/apis/gpu-autoscaler.io/v1alpha1/namespaces/{namespace}/inferenceautoscalers/{name}")


@pytest.fixture(scope="module")
def kind(cluster: Cluster) -> None:
    """The custom resource is known."""
    cluster.define_kinds(Path(__file__).parents[2] / "charts/gpu-autoscaler/crds")


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


@pytest.fixture
def controller(cluster: Cluster, kind: None, namespace: str, tmp_path: Path) -> Iterator[ControllerProcess]:
    """One replica of the controller."""
    with running(member(cluster, namespace, tmp_path)) as one:
        yield one


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


def ramp(cluster: Cluster, namespace: str, log: Path) -> None:
    """Load that needs three replicas or four; they come, hold the SLO, and go again when it ends."""
    with Load(cluster, namespace, rps=25) as load:
        wait_for(lambda: replicas(cluster, namespace) >= 3, f"three replicas; see {log}", within_s=120)
        await_ready_pods(cluster, namespace, replicas(cluster, namespace), app="chat")
        settled_s = time.monotonic() + 10
        wait_for(lambda: time.monotonic() > settled_s + 10, "ten seconds after the ramp")
        most = replicas(cluster, namespace)
    assert load.failures == []
    assert load.late_share(since_s=settled_s, within_s=1 + 20 * 0.1) <= 0.01
    assert most in (3, 4)
    wait_for(lambda: replicas(cluster, namespace) == 1, "back to one", within_s=240)


def test_directly(cluster: Cluster, namespace: str, controller: ControllerProcess) -> None:
    deploy(cluster, namespace)
    cluster.apply([autoscaler(mode="Scale")], namespace=namespace)
    ramp(cluster, namespace, controller.log)
    status = resource(cluster, namespace)["status"]
    assert condition({"status": status}, "Ready")["status"] == "True"
    assert len(status["lastDecisions"]) >= 2
    assert "Scaled" in {each["reason"] for each in cluster.events(namespace)}


def test_through_an_hpa(cluster: Cluster, kind: None, namespace: str, tmp_path: Path) -> None:
    settings = serving_external_metrics(cluster, tmp_path)
    port = settings["externalMetrics"]["port"]
    with (
        running(member(cluster, namespace, tmp_path, **settings)) as controller,
        cluster.api_service(namespace="autoscaler", service="metrics", port=port),
    ):
        deploy(cluster, namespace)
        cluster.apply([autoscaler(mode="Advise")], namespace=namespace)
        cluster.apply(manifests("hpa", namespace, tmp_path))
        wait_for(lambda: hpa_condition(cluster, namespace).get("status") == "True", "the HPA reads the number")
        ramp(cluster, namespace, controller.log)


def test_through_keda(cluster: Cluster, kind: None, namespace: str, tmp_path: Path) -> None:
    port = free_port()
    settings: dict[str, Any] = {"externalScaler": {"enabled": True, "host": "127.0.0.1", "port": port}}
    cluster.start_keda()
    with running(member(cluster, namespace, tmp_path, **settings)) as controller:
        deploy(cluster, namespace)
        cluster.apply([autoscaler(mode="Advise")], namespace=namespace)
        cluster.apply(manifests("keda", namespace, tmp_path, "--scaler-address", f"localhost:{port}"))
        wait_for(
            lambda: hpa_condition(cluster, namespace, "keda-hpa-chat").get("status") == "True", "KEDA reads the number"
        )
        ramp(cluster, namespace, controller.log)
    cluster.stop_keda()
