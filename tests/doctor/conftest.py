"""A scripted API server, and the real connection to it through a kubeconfig."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from adapters.kubernetes.connection import KubernetesApi
from tests.adapters_kubernetes.scripted_server import ScriptedServer


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """One that is told what to answer."""
    scripted = ScriptedServer()
    scripted.start()
    yield scripted
    scripted.stop()


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Callable[[str], Path]:
    """Writes a kubeconfig for the server at an address."""

    def write(url: str) -> Path:
        path = tmp_path / "kubeconfig"
        cluster = {"name": "c", "cluster": {"server": url}}
        context = {"name": "main", "context": {"cluster": "c", "user": "u"}}
        user = {"name": "u", "user": {"token": "secret"}}
        whole = {"current-context": "main", "contexts": [context], "clusters": [cluster], "users": [user]}
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **whole}))
        return path

    return write


@pytest.fixture
def api(server: ScriptedServer, kubeconfig: Callable[[str], Path]) -> Iterator[KubernetesApi]:
    """Connected to ``server``."""
    connected = KubernetesApi.of_kubeconfig(kubeconfig(server.url))
    yield connected
    connected.close()
