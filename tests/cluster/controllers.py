"""The controller as a process on the test cluster, as a pod would run it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.processes import free_port, wait_for
from tests.cluster.running import Cluster


@dataclass
class ControllerProcess:
    """One replica of the controller.

    ``kubeconfig``: whose rights it has. ``settings``: the key ``kubernetes`` of its file, beyond the kubeconfig.
    """

    cluster: Cluster
    folder: Path
    namespace: str
    kubeconfig: Path
    name: str = "controller-0"
    interval_s: float = 1.0
    settings: Mapping[str, Any] = field(default_factory=dict)
    api_port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        """What it says."""
        return self.folder / f"{self.name}.log"

    def document(self) -> dict[str, Any]:
        """Its configuration."""
        return {
            "intervalSeconds": self.interval_s,
            "stateDir": str(self.folder / f"{self.name}-state"),
            "api": {"port": self.api_port},
            "kubernetes": {"kubeconfig": str(self.kubeconfig), **self.settings},
        }

    def start(self) -> None:
        """Start it; returns at once."""
        config = self.folder / f"{self.name}.yaml"
        config.write_text(yaml.safe_dump(self.document()))
        environ = {**os.environ, "POD_NAME": self.name, "POD_NAMESPACE": self.namespace}
        command = (sys.executable, "-m", "autoscaler.cli", "run", "--config", str(config))
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environ, start_new_session=True
            )

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, to it alone."""
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        """kill -9."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.process = None

    def stop(self) -> None:
        """Let it end by itself, or kill it where it doesn't. Does nothing if it isn't running."""
        if self.process is None:
            return
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def get(self, path: str) -> tuple[int, Any]:
        """Status and JSON of one request to its API; 0 where it does not answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.api_port}{path}", timeout=5) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())
        except OSError:
            return 0, None

    def await_ready(self) -> None:
        """Until it says that it is ready. Raises NotReadyError."""
        wait_for(lambda: self.get("/readyz")[0] == 200, f"{self.name} is ready; see {self.log}")


@contextmanager
def running(controller: ControllerProcess) -> Iterator[ControllerProcess]:
    """It runs and is ready, for the length of a block."""
    controller.start()
    try:
        controller.await_ready()
        yield controller
    finally:
        controller.stop()
