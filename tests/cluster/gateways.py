"""Gateways on the test cluster: a pod for its address, and the command that would run in it as a process there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml
from prometheus_client.parser import text_string_to_metric_families

from autoscaler.domain.resource import GATEWAY_LABELS
from tests.cluster.api import Json
from tests.cluster.processes import wait_for
from tests.cluster.running import Cluster
from tests.cluster.workloads import ask, await_ready_pods

CLIENTS, PAGES = 8080, 8081


@dataclass
class GatewayProcess:
    """One replica of the gateway. ``folder``: its state and log; its path has to be short, for the sake of a socket.

    ``kubeconfig``: whose rights it has.
    """

    cluster: Cluster
    folder: Path
    namespace: str
    pod: Json
    kubeconfig: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        """What it says."""
        return self.folder / "gateway.log"

    @property
    def address(self) -> str:
        """Of its pod."""
        return str(self.pod["status"]["podIP"])

    def start(self) -> None:
        """Start it; returns when it is ready."""
        config = self.folder / "gateway.yaml"
        listening = {"host": self.address, "metricsHost": self.address, "gracePeriod": "20s"}
        kubernetes = {"kubeconfig": str(self.kubeconfig), "namespaces": [self.namespace], "gateway": listening}
        config.write_text(yaml.safe_dump({"stateDir": str(self.folder / "s"), "kubernetes": kubernetes}))
        command = (sys.executable, "-m", "autoscaler.cli", "gateway", "--config", str(config))
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=os.environ, start_new_session=True
            )
        wait_for(self.is_ready, f"the gateway is ready; see {self.log}")

    def is_ready(self) -> bool:
        """As its readiness probe finds it."""
        try:
            return ask(self.pod, "/readyz", port=PAGES)[0] == 200
        except OSError:
            return False

    def ask(self, body: object, *, timeout_s: float = 120.0) -> tuple[int, bytes]:
        """One request of a client."""
        return ask(self.pod, "/v1/completions", body, port=CLIENTS, timeout_s=timeout_s)

    def told(self) -> dict[str, float]:
        """Its own page: the samples of all services by name, added up."""
        status, page = ask(self.pod, "/metrics", port=PAGES)
        assert status == 200
        found: defaultdict[str, float] = defaultdict(float)
        for family in text_string_to_metric_families(page.decode()):
            for each in family.samples:
                found[each.name] += each.value
        return dict(found)

    def terminate(self) -> None:
        """Tell it to end; returns at once."""
        assert self.process is not None
        self.process.terminate()

    def stop(self) -> None:
        """End it."""
        if self.process is None:
            return
        self.terminate()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.process = None


@contextmanager
def gateway(
    cluster: Cluster,
    folder: Path,
    namespace: str,
    *,
    number: int = 0,
    kubeconfig: Path | None = None,
    serves: str | None = None,
) -> Iterator[GatewayProcess]:
    """One that runs and is ready, for the length of a block; with the administrator's rights unless told else.

    ``serves``: the namespace of its services, unless they are in its own.
    """
    folder.mkdir(exist_ok=True)
    name = f"gateway-{number}"
    ports = [{"name": "http", "containerPort": CLIENTS}, {"name": "metrics", "containerPort": PAGES}]
    container = {"name": "gateway", "image": "gateway:test", "ports": ports}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {**dict(GATEWAY_LABELS), "app": name}},
        "spec": {"containers": [container]},
    }
    cluster.apply([pod], namespace=namespace)
    (found,) = await_ready_pods(cluster, namespace, 1, app=name)
    running = GatewayProcess(cluster, folder, serves or namespace, found, kubeconfig or cluster.kubeconfig)
    try:
        running.start()
        yield running
    finally:
        running.stop()
