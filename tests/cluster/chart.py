"""The chart as a release on the test cluster."""

from __future__ import annotations

import os
import subprocess
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.charts.rendering import CHART, RefusedByHelm
from tests.cluster.api import Json
from tests.cluster.build import program
from tests.cluster.running import Cluster


@dataclass
class Release:
    """One release in a namespace of its own; its pods never run, as there is no image here."""

    cluster: Cluster
    namespace: str
    folder: Path
    name: str = "gpu-autoscaler"

    def install(self, values: Mapping[str, Any] | None = None, *flags: str) -> str:
        """Install or upgrade it; what helm prints. Raises RefusedByHelm with what it complains of."""
        file = self.folder / "values.yaml"
        # The pods ask for a node that isn't there.
        file.write_text(yaml.safe_dump({"nodeSelector": {"there-is": "none"}, **(values or {})}))
        return self._helm(
            "upgrade", "--install", self.name, str(CHART), "--namespace", self.namespace, f"--values={file}", *flags
        )

    def uninstall(self) -> None:
        self._helm("uninstall", self.name, "--namespace", self.namespace, "--ignore-not-found")

    def get(self, path: str) -> Json:
        """An object of the release's namespace, such as ``api/v1/secrets/NAME``."""
        root, version, rest = path.split("/", 2) if path.startswith("api/") else _group(path)
        return self.cluster.api.get(f"/{root}/{version}/namespaces/{self.namespace}/{rest}")

    def secret(self, name: str) -> dict[str, bytes]:
        return {key: b64decode(text) for key, text in self.get(f"api/v1/secrets/{self.name}-{name}")["data"].items()}

    def note(self, secret: str, **annotations: str) -> None:
        """Change annotations of a Secret of the release."""
        path = f"/api/v1/namespaces/{self.namespace}/secrets/{self.name}-{secret}"
        told = {f"gpu-autoscaler.io/{key}": value for key, value in annotations.items()}
        self.cluster.api.patch(path, {"metadata": {"annotations": told}})

    def _helm(self, *arguments: str) -> str:
        command = (str(program("helm")), f"--kubeconfig={self.cluster.kubeconfig}", *arguments)
        homes = {f"HELM_{each}_HOME": str(self.folder / each) for each in ("CACHE", "CONFIG", "DATA")}
        done = subprocess.run(command, env={**os.environ, **homes}, check=False, capture_output=True, text=True)
        if done.returncode:
            raise RefusedByHelm(done.stderr)
        return done.stdout


def _group(path: str) -> tuple[str, str, str]:
    _, group, version, rest = path.split("/", 3)
    return "apis", f"{group}/{version}", rest


@contextmanager
def release_in(cluster: Cluster, folder: Path) -> Iterator[Release]:
    """A release in a namespace of its own, not installed yet; uninstalled at the end."""
    with cluster.namespace() as namespace:
        made = Release(cluster, namespace, folder)
        try:
            yield made
        finally:
            made.uninstall()
