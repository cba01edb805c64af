"""The controller in a cluster, with a real Prometheus between the pods and it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.adapters_prometheus.prometheus_process import RealPrometheus
from tests.cluster.api import ApiError
from tests.cluster.chat import GPU, autoscaler, deploy, replicas, resource
from tests.cluster.controllers import ControllerProcess, running
from tests.cluster.load import Load
from tests.cluster.processes import Processes, wait_for
from tests.cluster.running import Cluster
from tests.cluster.workloads import condition

pytestmark = pytest.mark.cluster


@dataclass
class ThroughPrometheus(ControllerProcess):
    """A controller that reads the pods through this one."""

    url: str = ""

    def document(self) -> dict[str, Any]:
        return {**super().document(), "prometheus": {"url": self.url}}


@contextmanager
def told_of_pods(cluster: Cluster, namespace: str, prometheus: RealPrometheus) -> Iterator[None]:
    """Prometheus knows the pods that have an address, with the labels of service discovery."""
    ended = threading.Event()

    def tell() -> None:
        known: dict[str, dict[str, str]] = {}
        while not ended.wait(0.2):
            try:
                pods = cluster.pods(namespace, "app=chat")
            except (ApiError, OSError):
                continue
            there = {
                f"{pod['status']['podIP']}:{pod['spec']['containers'][0]['ports'][0]['containerPort']}": {
                    "namespace": namespace,
                    "pod": str(pod["metadata"]["name"]),
                }
                for pod in pods
                if pod["status"].get("podIP")
            }
            if there != known:
                prometheus.know(there)
                known = there

    teller = threading.Thread(target=tell)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()


def test_load_makes_replicas_come_and_go(cluster: Cluster, tmp_path: Path, processes: Processes) -> None:
    """And while Prometheus is away they stay, idle or not."""
    cluster.define_kinds(Path(__file__).parents[2] / "charts/gpu-autoscaler/crds")
    prometheus = RealPrometheus(processes, tmp_path, interval="500ms")
    prometheus.know({})
    prometheus.start()
    with cluster.namespace() as namespace, cluster.nodes.added(f"gpu-{namespace}", resources={GPU: "8"}):
        controller = ThroughPrometheus(
            cluster,
            tmp_path,
            namespace,
            cluster.kubeconfig,
            settings={"namespaces": [namespace]},
            url=prometheus.url,
        )
        with told_of_pods(cluster, namespace, prometheus), running(controller):
            deploy(cluster, namespace)
            cluster.apply([autoscaler(mode="Scale")], namespace=namespace)
            with Load(cluster, namespace, rps=25) as load:
                wait_for(lambda: replicas(cluster, namespace) >= 3, f"three replicas; {controller.log}", within_s=120)
                most = replicas(cluster, namespace)
                prometheus.kill()
                wait_for(lambda: not metrics_known(cluster, namespace), "it is said that nothing is known")
            assert load.failures == []
            # The load is over, and nobody knows.
            settled_s = time.monotonic() + 20
            wait_for(lambda: time.monotonic() > settled_s, "twice the time after which they would go")
            assert replicas(cluster, namespace) >= most
            prometheus.start()
            wait_for(lambda: replicas(cluster, namespace) == 1, "back to one", within_s=240)


def metrics_known(cluster: Cluster, namespace: str) -> bool:
    """As the resource says."""
    status = resource(cluster, namespace)["status"]
    return bool(condition({"status": status}, "MetricsKnown")["status"] == "True")
