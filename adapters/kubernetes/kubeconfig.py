"""What a kubeconfig says beside how the API server is reached."""

from __future__ import annotations

from pathlib import Path

from kubernetes.config import list_kube_config_contexts

from autoscaler.ports import RefusedError


def namespace_of_context(path: Path | None, *, context: str | None) -> str | None:
    """The namespace that a context (None: the current one) is for; None where it names none.

    ``path`` None: $KUBECONFIG or ~/.kube/config. Raises RefusedError where it can't be read or lacks the context.
    """
    try:
        contexts, current = list_kube_config_contexts(None if path is None else str(path))  # type: ignore[no-untyped-call]
        named = {str(each["name"]): each["context"].get("namespace") for each in contexts}
        namespace = named[context if context is not None else str(current["name"])]
    except Exception as error:  # whatever YAML makes of it
        where = path if path is not None else "($KUBECONFIG, or else ~/.kube/config)"
        raise RefusedError(f"kubeconfig {where} can't be used: {error}") from error
    return str(namespace) if namespace else None
