"""A service at zero replicas behind a gateway that is not ours: woken by the requests that its page shows."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.chat import GPU, autoscaler, deploy, member, replicas, resource
from tests.cluster.controllers import running
from tests.cluster.endpoint_picker import LABELS, EndpointPicker, endpoint_picker
from tests.cluster.processes import wait_for
from tests.cluster.running import Cluster
from tests.cluster.workloads import ask, await_ready_pods, condition

pytestmark = pytest.mark.cluster

BODY = {"model": "chat", "prompt": "one two three four", "max_tokens": 20}


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """One of its own for each test, with a node that has eight GPUs."""
    with cluster.namespace() as name, cluster.nodes.added(f"gpu-{name}", resources={GPU: "8"}):
        yield name


@pytest.fixture(scope="module", autouse=True)
def kind(cluster: Cluster) -> None:
    """The custom resource is known."""
    cluster.define_kinds(Path(__file__).parents[2] / "charts/gpu-autoscaler/crds")


def behind(namespace: str, **gateway: Any) -> dict[str, Any]:
    """The service chat, which may be at zero, behind an endpoint picker."""
    named = {"type": "EndpointPicker", "namespace": namespace, "selector": {"matchLabels": LABELS}, "port": "pages"}
    return autoscaler(
        mode="Scale", minReplicas=0, idle={"after": "3s", "minUptimeFactor": 0}, gateway={**named, **gateway}
    )


def known(cluster: Cluster, namespace: str) -> dict[str, Any]:
    """What is said of the demand."""
    return condition(resource(cluster, namespace), "MetricsKnown")


def wake_and_sleep(cluster: Cluster, namespace: str, picker: EndpointPicker) -> None:
    """Requests to the service at zero are answered by the replica that they start; then it stops again."""
    assert replicas(cluster, namespace) == 0
    asked = {"status": {"podIP": picker.address}}
    with ThreadPoolExecutor(3) as clients:
        answers = [clients.submit(ask, asked, "/v1/completions", BODY, port=9090, timeout_s=90) for _ in range(3)]
        assert [each.result()[0] for each in answers] == [200] * 3
    assert replicas(cluster, namespace) >= 1
    wait_for(lambda: replicas(cluster, namespace) == 0, "back to zero", within_s=120)
    await_ready_pods(cluster, namespace, 0, app="chat")


def test_its_queue_wakes_a_service_from_zero(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    deploy(cluster, namespace, replicas=0)
    cluster.apply([behind(namespace)], namespace=namespace)
    controller = member(cluster, namespace, tmp_path)
    with running(controller), endpoint_picker(cluster, namespace, model="chat") as picker:
        wait_for(lambda: known(cluster, namespace).get("status") == "True", f"the demand is known; {controller.log}")
        wake_and_sleep(cluster, namespace, picker)
        wake_and_sleep(cluster, namespace, picker)
        picker.page = "process_open_fds 3\n"
        wait_for(lambda: known(cluster, namespace).get("status") == "False", "a page of something else is not a demand")
        assert "EndpointPicker" in known(cluster, namespace)["message"]
        assert replicas(cluster, namespace) == 0
        picker.page = None
        wait_for(lambda: known(cluster, namespace).get("status") == "True", "the demand is known again")
        wake_and_sleep(cluster, namespace, picker)
