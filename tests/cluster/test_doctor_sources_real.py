"""``doctor`` asks a real Prometheus and a gateway's page, as the controller would, and tells what they lack."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cluster.api import Json
from tests.cluster.chat import GPU, autoscaler, deploy
from tests.cluster.endpoint_picker import LABELS, endpoint_picker
from tests.cluster.processes import free_port, wait_for
from tests.cluster.running import Cluster
from tests.cluster.test_doctor_real import CHART, doctor
from tests.cluster.test_prometheus_real import scraping

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module", autouse=True)
def kind(cluster: Cluster) -> None:
    """The custom resource is known."""
    cluster.define_kinds(CHART / "crds")


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """One of its own for each test, with the service chat."""
    with cluster.namespace() as name, cluster.nodes.added(f"gpu-{name}", resources={GPU: "8"}):
        deploy(cluster, name)
        yield name


def configuration(cluster: Cluster, namespace: str, folder: Path, **more: object) -> str:
    """A file as the controller would have."""
    file = folder / "doctor.yaml"
    kubernetes = {"kubeconfig": str(cluster.kubeconfig), "namespaces": [namespace]}
    file.write_text(yaml.safe_dump({"stateDir": str(folder / "state"), "kubernetes": kubernetes, **more}))
    return str(file)


def told(cluster: Cluster, namespace: str, check: str, *arguments: str) -> list[tuple[str, str]]:
    """Severity and message of each finding of a check."""
    findings: list[Json] = doctor(cluster, namespace, *arguments)[1]
    return [(each["severity"], each["message"]) for each in findings if each["check"] == check]


def test_a_prometheus_is_judged_by_what_it_has_of_ready_pods(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    cluster.apply([autoscaler()], namespace=namespace)
    (pod,) = cluster.pods(namespace, "app=chat")
    name, page = pod["metadata"]["name"], f"{pod['status']['podIP']}:8000"

    def asked(url: str) -> list[tuple[str, str]]:
        config = configuration(cluster, namespace, tmp_path, prometheus={"url": url})
        return told(cluster, namespace, "prometheus", "--config", config)

    with scraping(tmp_path, page, namespace=namespace, pod=name) as prometheus:
        url = f"http://127.0.0.1:{prometheus.port}"
        well = [("ok", f"{url} has the series of all 1 ready pods")]
        wait_for(lambda: asked(url) == well, "it has been scraped", within_s=60)
    ((severity, message),) = asked(f"http://127.0.0.1:{free_port()}")
    assert severity == "error"
    assert "tells nothing of any ready pod" in message
    assert "refused" in message
    other = tmp_path / "other"
    other.mkdir()
    with scraping(other, f"127.0.0.1:{free_port()}", namespace="elsewhere", pod=name) as prometheus:
        wait_for(lambda: bool(prometheus.query("up == 0")), "it has tried to scrape another")
        ((severity, message),) = asked(f"http://127.0.0.1:{prometheus.port}")
    assert severity == "error"
    assert f"{namespace}/{name}" in message


def test_a_gateway_of_others_is_judged_by_its_pods_and_its_page(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    named = {"type": "EndpointPicker", "namespace": namespace, "selector": {"matchLabels": LABELS}, "port": "pages"}
    cluster.apply([autoscaler(gateway=named)], namespace=namespace)
    config = configuration(cluster, namespace, tmp_path)
    ((severity, message),) = told(cluster, namespace, "gateway", "--config", config)
    assert severity == "error"
    assert "no pod in namespace" in message
    with endpoint_picker(cluster, namespace, model="chat"):
        ((severity, message),) = told(cluster, namespace, "gateway", "--config", config)
    assert (severity, "1 of its gateways are ready" in message) == ("ok", True), message
