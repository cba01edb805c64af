"""How a process of ours reaches its cluster, and where in it it runs."""

from __future__ import annotations

import os
from pathlib import Path

from adapters.kubernetes.connection import KubernetesApi
from adapters.kubernetes.kubeconfig import namespace_of_context
from autoscaler.config.kubernetes_settings import KubernetesSettings

_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_DEFAULT_NAMESPACE = "default"


def connect(settings: KubernetesSettings) -> KubernetesApi:
    """As a pod where this is one, unless a kubeconfig is named. Raises PortError."""
    return reach(settings.kubeconfig, context=settings.context)


def reach(kubeconfig: Path | None, *, context: str | None) -> KubernetesApi:
    """By a kubeconfig where one or a context of one is named, else as a pod where this is one, else by the usual one.

    Raises PortError.
    """
    if _as_a_pod(kubeconfig, context):
        return KubernetesApi.in_cluster()
    return KubernetesApi.of_kubeconfig(kubeconfig, context=context)


def usual_namespace(kubeconfig: Path | None, *, context: str | None) -> str:
    """The namespace that is meant where none is named, as kubectl chooses it. Raises PortError."""
    if _as_a_pod(kubeconfig, context):
        return own_namespace() or _DEFAULT_NAMESPACE
    return namespace_of_context(kubeconfig, context=context) or _DEFAULT_NAMESPACE


def own_namespace() -> str | None:
    """Where this process runs, by POD_NAMESPACE or as a pod is told; None where it is no pod."""
    named = os.environ.get("POD_NAMESPACE")
    if named:
        return named
    try:
        return _NAMESPACE_FILE.read_text().strip() or None
    except OSError:
        return None


def _as_a_pod(kubeconfig: Path | None, context: str | None) -> bool:
    return kubeconfig is None and context is None and "KUBERNETES_SERVICE_HOST" in os.environ
