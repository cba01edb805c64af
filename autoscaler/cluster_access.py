"""How a process of ours reaches its cluster, and where in it it runs."""

from __future__ import annotations

import os
from pathlib import Path

from adapters.kubernetes.connection import KubernetesApi
from autoscaler.config.kubernetes_settings import KubernetesSettings

_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def connect(settings: KubernetesSettings) -> KubernetesApi:
    """As a pod where this is one, unless a kubeconfig is named. Raises PortError."""
    in_cluster = "KUBERNETES_SERVICE_HOST" in os.environ
    if settings.kubeconfig is None and settings.context is None and in_cluster:
        return KubernetesApi.in_cluster()
    return KubernetesApi.of_kubeconfig(settings.kubeconfig, context=settings.context)


def own_namespace() -> str | None:
    """Where this process runs, by POD_NAMESPACE or as a pod is told; None where it is no pod."""
    named = os.environ.get("POD_NAMESPACE")
    if named:
        return named
    try:
        return _NAMESPACE_FILE.read_text().strip() or None
    except OSError:
        return None
