"""A replica of the controller against an API server: elected, started, and out of the way where it can't begin."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

import pytest
import yaml

from autoscaler.config import ConfigFile
from autoscaler.kubernetes_run import KubernetesRun
from tests.adapters_kubernetes.resource_server import Json, ResourceServer
from tests.adapters_kubernetes.scripted_server import Exchange, ScriptedServer, told
from tests.adapters_kubernetes.target_objects import deployment
from tests.adapters_kubernetes.test_leadership import LeaseStore


def until(true: Callable[[], bool], what: str) -> None:
    """Wait for an effect of another thread."""
    ends_s = monotonic() + 60.0
    while not true():
        assert monotonic() < ends_s, what
        sleep(0.01)


class ApiServer:
    """Leases, InferenceAutoscalers, and Deployments at rest. ``forbidden``: what may not be read, as parts of paths.

    ``deployments``: those of namespace "shop". ``holders``: who held the Lease, one after the other.
    """

    def __init__(self) -> None:
        self.leases, self.resources = LeaseStore(), ResourceServer()
        self.deployments: list[Json] = []
        self.forbidden: set[str] = set()
        self.holders: list[object] = []

    def __call__(self, exchange: Exchange) -> None:
        path, query = exchange.request.path, exchange.request.query
        if "/leases" in path:
            self.leases(exchange)
            holder = self.leases.spec().get("holderIdentity") if self.leases.lease is not None else None
            if not self.holders or self.holders[-1] != holder:
                self.holders.append(holder)
        elif any(part in path for part in self.forbidden):
            told(403, f"{path} is forbidden")(exchange)
        elif "/inferenceautoscalers" in path:
            self.resources(exchange)
        elif "watch" in query:
            exchange.begin_chunks()
            exchange.hold()
        else:
            items = self.deployments if path.endswith("/deployments") else []
            exchange.whole(200, json.dumps({"metadata": {"resourceVersion": "1"}, "items": items}).encode())


@pytest.fixture
def cluster(server: ScriptedServer) -> ApiServer:
    made = ApiServer()
    server.otherwise = made
    return made


@pytest.fixture
def config(server: ScriptedServer, write_kubeconfig: Callable[..., Path], tmp_path: Path) -> ConfigFile:
    """With a short lease, so that the test is."""
    file = tmp_path / "config.yaml"
    election = {"namespace": "ns", "leaseDurationSeconds": 1, "renewDeadline": "700ms", "retryPeriod": "100ms"}
    document = {
        "stateDir": str(tmp_path / "state"),
        "api": {"host": "127.0.0.1", "port": 0, "open": True},
        "kubernetes": {"kubeconfig": str(write_kubeconfig(server.url, {})), "leaderElection": election},
    }
    file.write_text(yaml.safe_dump(document))
    return ConfigFile(file)


@contextmanager
def running(config: ConfigFile) -> Iterator[KubernetesRun]:
    settings = config.settings.kubernetes
    assert settings is not None
    with KubernetesRun(config, settings) as replica:
        thread = threading.Thread(target=replica.run)
        thread.start()
        try:
            yield replica
        finally:
            replica.stop()
            thread.join(timeout=60)
            assert not thread.is_alive()


def decides(replica: KubernetesRun) -> bool:
    with urllib.request.urlopen(f"{replica.api.url}api/v1/services", timeout=5) as answer:
        listed = json.load(answer)
    return listed["decided_by"] is None and isinstance(listed["at_s"], float)


def test_the_elected_one_decides_and_gives_the_lease_back_at_the_end(cluster: ApiServer, config: ConfigFile) -> None:
    with running(config) as replica:
        until(lambda: decides(replica), "it decides")
        assert cluster.leases.spec()["holderIdentity"]
    assert cluster.leases.spec()["holderIdentity"] == ""


def test_one_that_can_not_begin_lets_another_in_and_begins_once_it_can(
    cluster: ApiServer, config: ConfigFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autoscaler.kubernetes_run._SYNC_S", 0.05)
    cluster.forbidden.add("/api/v1/pods")
    with running(config) as replica:
        until(lambda: len(cluster.holders) > 2 and "" in cluster.holders[2:], "it lets another replica in")
        assert not decides(replica)
        cluster.forbidden.clear()
        until(lambda: decides(replica), "it decides")


def asking(name: str, **spec: object) -> Json:
    """A spec with a Deployment of this name as its target."""
    ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    return {"targetRef": ref, "slo": {"ttft": "2s"}, **spec}


def test_each_resource_gets_a_status_with_a_number_or_the_reason_for_none(
    cluster: ApiServer, config: ConfigFile
) -> None:
    cluster.deployments.append(deployment("llm", replicas=3))
    cluster.resources.apply("llm", spec=asking("llm", minReplicas=3, maxReplicas=3))
    cluster.resources.apply("lost", spec=asking("gone"))
    cluster.resources.apply("wrong", spec={"slo": {}})

    def status(name: str) -> Json:
        return cluster.resources.status(name)

    with running(config) as replica:
        until(lambda: all("reason" in status(name) for name in ("llm", "lost", "wrong")), "each has a status")
        until(lambda: decides(replica), "it decides")
        assert status("lost")["reason"] == status("wrong")["reason"] == "InvalidSpec"
        told = [condition["message"] for condition in status("lost")["conditions"]]
        assert any("gone" in message for message in told)
        assert "desiredReplicas" not in status("lost")
        assert status("llm")["reason"] != "InvalidSpec"
        found = replica.api.url + "api/v1/services/shop%2Fllm"
        with urllib.request.urlopen(found, timeout=5) as answer:
            assert json.load(answer)["summary"]["service"] == "shop/llm"
