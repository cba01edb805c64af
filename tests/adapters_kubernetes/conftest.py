"""A scripted server, and the real connection to it through a kubeconfig."""

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
def write_kubeconfig(tmp_path: Path) -> Callable[..., Path]:
    """Writes a kubeconfig with one context named ``main``."""

    def write(url: str, user: object) -> Path:
        path = tmp_path / "kubeconfig"
        path.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "main",
                    "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u"}}],
                    "clusters": [{"name": "c", "cluster": {"server": url}}],
                    "users": [{"name": "u", "user": user}],
                }
            )
        )
        return path

    return write


@pytest.fixture
def api(server: ScriptedServer, write_kubeconfig: Callable[..., Path]) -> Iterator[KubernetesApi]:
    """Connected to ``server`` with a token."""
    connected = KubernetesApi.of_kubeconfig(write_kubeconfig(server.url, {"token": "first"}))
    yield connected
    connected.close()
