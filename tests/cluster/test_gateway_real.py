"""A service at zero replicas, woken by its first request through a gateway, on a real control plane."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from autoscaler.domain.resource import TargetRef, VariantSource
from autoscaler.manifests import KedaOptions, ScaledService, keda_manifests
from tests.cluster.chat import GPU, autoscaler, deploy, member, replicas, resource
from tests.cluster.controllers import running
from tests.cluster.gateways import GatewayProcess, gateway
from tests.cluster.processes import free_port, wait_for
from tests.cluster.running import Cluster
from tests.cluster.workloads import condition

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
    cluster.start_keda()
    deploy(cluster, namespace, replicas=0)
    cluster.apply([at_zero(namespace, mode="Advise")], namespace=namespace)
    with (
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
    cluster.stop_keda()
