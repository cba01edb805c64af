"""A service at zero replicas, woken by its first request through a gateway, on a real control plane."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from autoscaler.domain.resource import GATEWAY_LABELS, TargetRef, VariantSource
from autoscaler.manifests import KedaOptions, ScaledService, keda_manifests
from tests.cluster.chart import Release
from tests.cluster.chat import GPU, autoscaler, deploy, member, replicas, resource, write_replicas
from tests.cluster.controllers import running
from tests.cluster.gateways import GatewayProcess, gateway
from tests.cluster.processes import free_port, wait_for
from tests.cluster.running import Cluster
from tests.cluster.workloads import await_pods, await_ready_pods, condition

pytestmark = pytest.mark.cluster

BODY = {"model": "chat", "prompt": "one two three four", "max_tokens": 20}
TARGET = TargetRef(api_version="apps/v1", kind="Deployment", name="chat")
TO_ZERO: dict[str, Any] = {
    "minReplicas": 0,
    "idle": {"after": "3s", "minUptimeFactor": 0},
    "requests": {"maxWait": "2m"},
}


def at_zero(namespace: str, **spec: Any) -> dict[str, Any]:
    """The service chat, which may be at zero and has a gateway."""
    return autoscaler(**{**TO_ZERO, "gateway": {"namespace": namespace}, **spec})


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """One of its own for each test, with a node that has eight GPUs."""
    with cluster.namespace() as name, cluster.nodes.added(f"gpu-{name}", resources={GPU: "8"}):
        yield name


@pytest.fixture(scope="module", autouse=True)
def kind(cluster: Cluster) -> None:
    """The custom resource is known."""
    cluster.define_kinds(Path(__file__).parents[2] / "charts/gpu-autoscaler/crds")


def known(cluster: Cluster, namespace: str) -> bool:
    """The controller knows the demand."""
    return condition(resource(cluster, namespace), "MetricsKnown").get("status") == "True"


def burst(one: GatewayProcess, number: int) -> list[tuple[int, float]]:
    """Status and time of so many requests that come at once."""

    def ask() -> tuple[int, float]:
        began_s = time.monotonic()
        status, _ = one.ask(BODY)
        return status, time.monotonic() - began_s

    with ThreadPoolExecutor(number) as clients:
        asked: list[Future[tuple[int, float]]] = [clients.submit(ask) for _ in range(number)]
        return [each.result() for each in asked]


def wake_and_sleep(cluster: Cluster, namespace: str, one: GatewayProcess) -> None:
    """Requests to the service at zero are held, and answered by the replica that they start; then it stops again."""
    assert replicas(cluster, namespace) == 0
    answers = burst(one, 5)
    print("first answers from zero, s:", sorted(round(took_s, 2) for _, took_s in answers))
    assert [status for status, _ in answers] == [200] * 5
    assert replicas(cluster, namespace) >= 1
    wait_for(lambda: replicas(cluster, namespace) == 0, "back to zero", within_s=120)
    # A replica that ends still answers for a moment.
    await_ready_pods(cluster, namespace, 0, app="chat")


def test_the_first_request_starts_the_service_and_is_answered(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    deploy(cluster, namespace, replicas=0)
    cluster.apply([at_zero(namespace, mode="Scale")], namespace=namespace)
    with (
        running(member(cluster, namespace, tmp_path)),
        gateway(cluster, tmp_path / "g", namespace) as one,
    ):
        wait_for(lambda: known(cluster, namespace), "the demand is known")
        wake_and_sleep(cluster, namespace, one)
        wake_and_sleep(cluster, namespace, one)


def test_through_keda_the_first_request_is_pushed(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    port = free_port()
    scaler: dict[str, Any] = {"externalScaler": {"enabled": True, "host": "127.0.0.1", "port": port}}
    deploy(cluster, namespace, replicas=0)
    cluster.apply([at_zero(namespace, mode="Advise")], namespace=namespace)
    with (
        cluster.keda_serving(),
        running(member(cluster, namespace, tmp_path, **scaler)),
        gateway(cluster, tmp_path / "g", namespace) as one,
    ):
        scaled = ScaledService(
            namespace=namespace,
            name="chat",
            min_replicas=0,
            max_replicas=6,
            sources=(VariantSource(variant="default", target=TARGET),),
        )
        cluster.apply(keda_manifests(scaled, KedaOptions(scaler_address=f"localhost:{port}")))
        wait_for(lambda: known(cluster, namespace), "the demand is known")
        wake_and_sleep(cluster, namespace, one)
        wake_and_sleep(cluster, namespace, one)


@pytest.fixture
def release(cluster: Cluster, namespace: str, tmp_path: Path) -> Iterator[Release]:
    """The chart with a gateway, for this namespace alone and in it."""
    made = Release(cluster, namespace, tmp_path)
    made.install({"gateway": {"enabled": True}, "namespaces": [namespace], "replicaCount": 0})
    yield made
    made.uninstall()


def test_the_charts_pods_are_those_that_a_resource_means(cluster: Cluster, release: Release) -> None:
    await_pods(cluster, release.namespace, lambda found: len(found) == 2, "both replicas are made")
    for pod in cluster.pods(release.namespace):
        assert dict(GATEWAY_LABELS).items() <= pod["metadata"]["labels"].items()
    for name, expected in ((f"{release.name}-gateway", 2), (f"{release.name}-api", 0)):
        selector = release.get(f"api/v1/services/{name}")["spec"]["selector"]
        chosen = ",".join(f"{key}={value}" for key, value in selector.items())
        assert len(cluster.pods(release.namespace, chosen)) == expected


def test_routes_follow_the_pods_and_no_request_is_lost(
    cluster: Cluster, namespace: str, release: Release, tmp_path: Path
) -> None:
    """With no rights but those of the chart's account."""
    deploy(cluster, namespace, replicas=2)
    cluster.apply([at_zero(namespace)], namespace=namespace)
    account = cluster.kubeconfig_for_service_account(namespace, f"{release.name}-gateway")
    statuses: list[int] = []
    with gateway(cluster, tmp_path / "g", namespace, kubeconfig=account) as one:
        ended = threading.Event()

        def ask_on() -> None:
            while not ended.is_set():
                statuses.append(one.ask(BODY)[0])

        clients = [threading.Thread(target=ask_on, daemon=True) for _ in range(4)]
        for client in clients:
            client.start()
        wait_for(lambda: len(statuses) > 20, "requests are answered")
        for pod in cluster.pods(namespace, "app=chat"):
            cluster.api.delete(f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}")
        wait_for(lambda: "deletionTimestamp" not in str(cluster.pods(namespace, "app=chat")), "the old ones are gone")
        await_ready_pods(cluster, namespace, 2, app="chat")
        with cluster.api_server_down():
            before = len(statuses)
            wait_for(lambda: len(statuses) > before + 50, "requests are answered without an API server")
        before = len(statuses)
        wait_for(lambda: len(statuses) > before + 50, "requests are answered")
        ended.set()
        for client in clients:
            client.join()
        told = one.told()
    assert set(statuses) == {200}
    assert told["gpu_autoscaler_gateway_requests_total"] == len(statuses)
    assert told["gpu_autoscaler_gateway_failed_total"] == told["gpu_autoscaler_gateway_refused_total"] == 0


def test_a_gateway_that_ends_waits_for_those_whose_request_it_holds(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    deploy(cluster, namespace, replicas=0)
    cluster.apply([at_zero(namespace)], namespace=namespace)
    with gateway(cluster, tmp_path / "g", namespace) as one, ThreadPoolExecutor(1) as client:
        wait_for(lambda: "gpu_autoscaler_gateway_waiting" in one.told(), "the service is routed")
        asked = client.submit(one.ask, BODY)
        wait_for(lambda: one.told()["gpu_autoscaler_gateway_waiting"] == 1, "the request is held")
        one.terminate()
        write_replicas(cluster, namespace, 1)
        status, _ = asked.result(timeout=60)
        assert status == 200
        assert one.process is not None
        assert one.process.wait(timeout=30) == 0
