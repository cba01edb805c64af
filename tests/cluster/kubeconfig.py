"""kubeconfig files of a test cluster."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cluster.certificates import KeyPair


def write_kubeconfig(
    path: Path,
    *,
    server: str,
    ca: Path,
    client: KeyPair | None = None,
    token: str | None = None,
    namespace: str = "default",
) -> Path:
    """Write a kubeconfig of one context for a client certificate or a token; answers its path."""
    user: dict[str, str] = {}
    if client is not None:
        user |= {"client-certificate": str(client.certificate), "client-key": str(client.key)}
    if token is not None:
        user["token"] = token
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": server, "certificate-authority": str(ca)}}],
        "users": [{"name": "user", "user": user}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "user", "namespace": namespace}}],
        "current-context": "test",
    }
    # JSON is YAML.
    path.write_text(json.dumps(config, indent=1))
    path.chmod(0o600)
    return path
