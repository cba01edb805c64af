"""The whole loop on a real control plane: load, engines in pods, the controller, and whoever carries its number out."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.api import Json
from tests.cluster.chat import (
    GPU,
    autoscaler,
    deploy,
    holder_of,
    hpa_condition,
    lowest,
    manifests,
    member,
    replicas,
    resource,
    serving_external_metrics,
    write_replicas,
)
from tests.cluster.controllers import ControllerProcess, running
from tests.cluster.load import Load
from tests.cluster.processes import free_port, wait_for
from tests.cluster.running import Cluster
from tests.cluster.workloads import ask, await_ready_pods, condition

pytestmark = pytest.mark.cluster


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """One of its own for each test, with a node that has eight GPUs."""
    with cluster.namespace() as name, cluster.nodes.added(f"gpu-{name}", resources={GPU: "8"}):
        yield name


@pytest.fixture(scope="module")
def kind(cluster: Cluster) -> None:
    """The custom resource is known."""
    cluster.define_kinds(Path(__file__).parents[2] / "charts/gpu-autoscaler/crds")


@pytest.fixture
def controller(cluster: Cluster, kind: None, namespace: str, tmp_path: Path) -> Iterator[ControllerProcess]:
    """One replica of the controller."""
    with running(member(cluster, namespace, tmp_path)) as one:
        yield one


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
    with cluster.keda_serving(), running(member(cluster, namespace, tmp_path, **settings)) as controller:
        deploy(cluster, namespace)
        cluster.apply([autoscaler(mode="Advise")], namespace=namespace)
        cluster.apply(manifests("keda", namespace, tmp_path, "--scaler-address", f"localhost:{port}"))
        wait_for(
            lambda: hpa_condition(cluster, namespace, "keda-hpa-chat").get("status") == "True", "KEDA reads the number"
        )
        ramp(cluster, namespace, controller.log)


@pytest.mark.parametrize(
    "way",
    [pytest.param("hpa", id="through an HPA"), pytest.param("direct", id="directly")],
)
def test_lost_metrics_and_a_killed_leader_take_no_replica_away(
    cluster: Cluster, kind: None, namespace: str, tmp_path: Path, way: str
) -> None:
    settings = serving_external_metrics(cluster, tmp_path)
    port = settings["externalMetrics"]["port"]
    leader = member(cluster, namespace, tmp_path, number=0, **settings)
    other = member(cluster, namespace, tmp_path, number=1)
    with (
        running(leader),
        running(other),
        cluster.api_service(namespace="autoscaler", service="metrics", port=port),
        Load(cluster, namespace, rps=25),
    ):
        deploy(cluster, namespace)
        cluster.apply([autoscaler(mode="Advise" if way == "hpa" else "Scale")], namespace=namespace)
        if way == "hpa":
            cluster.apply(manifests("hpa", namespace, tmp_path))
        wait_for(lambda: replicas(cluster, namespace) >= 3, f"three replicas; see {leader.log}", within_s=120)
        pods = await_ready_pods(cluster, namespace, replicas(cluster, namespace), app="chat")
        before = replicas(cluster, namespace)
        with lowest(cluster, namespace) as least:
            holder = holder_of(cluster, namespace)
            _break_pages(pods[: len(pods) // 2], {"page": {"kind": "error"}})
            _await_condition(cluster, namespace, "MetricsKnown", reason="PartialCoverage")
            _break_pages(pods, {"page": {"kind": "error"}})
            _await_condition(cluster, namespace, "MetricsKnown", status="False")
            (leader if holder.startswith("controller-0") else other).kill()
            killed_s = time.monotonic()
            wait_for(lambda: holder_of(cluster, namespace) != holder, "another one leads", within_s=60)
            took_s = time.monotonic() - killed_s
            for pod in pods:
                ask(pod, "/faults", method="DELETE")
            _await_condition(cluster, namespace, "MetricsKnown", status="True")
        assert least() >= before
        assert took_s < 15.0


def _break_pages(pods: Sequence[Json], faults: Json) -> None:
    for pod in pods:
        status, body = ask(pod, "/faults", faults)
        assert status == 200, body


def _await_condition(cluster: Cluster, namespace: str, kind: str, **wanted: str) -> None:
    def holds() -> bool:
        found = condition(resource(cluster, namespace), kind)
        return all(found.get(key) == value for key, value in wanted.items())

    wait_for(holds, f"condition {kind} with {wanted}", within_s=60)


def test_two_resources_on_one_target_do_not_fight(
    cluster: Cluster, namespace: str, controller: ControllerProcess
) -> None:
    deploy(cluster, namespace)
    cluster.apply([autoscaler(mode="Scale", minReplicas=2)], namespace=namespace)
    wait_for(lambda: replicas(cluster, namespace) == 2, "the first one has its minimum")
    cluster.apply([autoscaler("rival", mode="Scale", minReplicas=5)], namespace=namespace)

    def refused() -> bool:
        found = condition(resource(cluster, namespace, "rival"), "OwnerConflict")
        return found.get("status") == "True" and "InferenceAutoscaler chat" in found["message"]

    with lowest(cluster, namespace) as least:
        wait_for(refused, "the younger one is refused, and told by whom")
        cluster.api.delete(f"/apis/gpu-autoscaler.io/v1alpha1/namespaces/{namespace}/inferenceautoscalers/chat")
        wait_for(lambda: replicas(cluster, namespace) == 5, "the younger one takes over when the older one goes")
    assert least() == 2


def test_an_hpa_beside_us_stops_us(cluster: Cluster, namespace: str, controller: ControllerProcess) -> None:
    deploy(cluster, namespace)
    hpa = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "by-cpu"},
        "spec": {
            "minReplicas": 1,
            "maxReplicas": 3,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat"},
            "metrics": [
                {
                    "type": "Resource",
                    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
                }
            ],
        },
    }
    cluster.apply([hpa, autoscaler(mode="Scale", minReplicas=4)], namespace=namespace)

    def refused() -> bool:
        found = condition(resource(cluster, namespace), "OwnerConflict")
        return found.get("status") == "True" and "HorizontalPodAutoscaler by-cpu" in found["message"]

    wait_for(refused, "the HPA is named")
    assert replicas(cluster, namespace) == 1
    cluster.api.delete(f"/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers/by-cpu")
    wait_for(lambda: replicas(cluster, namespace) == 4, "without it we go on")


def test_a_hand_is_followed_and_its_zero_is_respected(
    cluster: Cluster, namespace: str, controller: ControllerProcess
) -> None:
    deploy(cluster, namespace)
    cluster.apply([autoscaler(mode="Scale", minReplicas=2)], namespace=namespace)
    wait_for(lambda: replicas(cluster, namespace) == 2, "the minimum")
    write_replicas(cluster, namespace, 0)

    def suspended() -> bool:
        return bool(resource(cluster, namespace).get("status", {}).get("reason") == "Suspended")

    wait_for(suspended, "the zero is taken for what it is")
    assert replicas(cluster, namespace) == 0
    write_replicas(cluster, namespace, 1)
    wait_for(lambda: replicas(cluster, namespace) == 2, "handed back")
