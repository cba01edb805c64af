"""Where ``gpu-autoscaler manifests`` finds a service: in a file, or in the cluster that runs it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from adapters.kubernetes.api_errors import NotFoundError
from adapters.kubernetes.connection import KubernetesApi
from adapters.kubernetes.raw_json import objects, text
from adapters.kubernetes.resources import RESOURCES
from autoscaler.cluster_access import reach, usual_namespace
from autoscaler.config.resource_reading import parse_resource
from autoscaler.domain.resource import AutoscalerResource, Mode
from autoscaler.manifests import KubernetesVersion, ManifestError, ScaledService
from autoscaler.ports import PortError, RefusedError

KIND = "InferenceAutoscaler"
_MOST_NAMED = 20
_INSTALL = "kubectl apply --server-side -f charts/gpu-autoscaler/crds/"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterService:
    """A service as the cluster has it, and the cluster's version."""

    service: ScaledService
    kubernetes: KubernetesVersion


def service_of_file(file: Path, name: str, *, namespace: str) -> ScaledService:
    """From YAML; ``file`` "-" reads standard input. ``namespace`` is for a manifest that names none.

    Raises ManifestError.
    """
    resources = [_usable(document, where=str(file)) for document in _documents(file)]
    if not resources:
        raise ManifestError(f"{file} holds no {KIND}")
    found = [each for each in resources if each.name == name]
    if len(found) != 1:
        raise ManifestError(f"{file} holds {len(found)} {KIND}s that are called {name}, where one is needed")
    return _followed(found[0], namespace=found[0].namespace or namespace)


def service_of_cluster(
    name: str, *, namespace: str | None, kubeconfig: Path | None, context: str | None
) -> ClusterService:
    """From the cluster; ``namespace`` None: the context's. Raises ManifestError."""
    with _asking():
        chosen = namespace if namespace is not None else usual_namespace(kubeconfig, context=context)
        api = reach(kubeconfig, context=context)
    try:
        with _asking():
            resource = _usable(_read(api, chosen, name), where=f"namespace {chosen}")
            version = text(api.get("/version"), "gitVersion")
    finally:
        api.close()
    try:
        kubernetes = KubernetesVersion.parse(version)
    except ValueError as error:
        raise ManifestError(f"the cluster's version can't be read; name it by --kubernetes: {error}") from error
    return ClusterService(service=_followed(resource, namespace=chosen), kubernetes=kubernetes)


@contextmanager
def _asking() -> Iterator[None]:
    try:
        yield
    except PortError as error:
        raise ManifestError(
            f"the cluster can't be asked: {error}\n"
            "Name another one by --kubeconfig or --context, or give the manifest of the "
            f"{KIND} by --file"
        ) from error


def _read(api: KubernetesApi, namespace: str, name: str) -> Mapping[str, object]:
    try:
        return api.get(RESOURCES.within(namespace).item(name))
    except NotFoundError as error:
        present = _present(api, namespace)
        if present is None:
            said = f"the cluster knows no kind {KIND}; install the chart, or its definition alone: {_INSTALL}"
        elif present:
            said = f"no {KIND} {namespace}/{name} in the cluster; there are {', '.join(present[:_MOST_NAMED])}"
            said += f" and {len(present) - _MOST_NAMED} more" if len(present) > _MOST_NAMED else ""
        else:
            said = f"no {KIND} {namespace}/{name} in the cluster, nor any other one"
        raise ManifestError(said) from error


def _present(api: KubernetesApi, namespace: str) -> Sequence[str] | None:
    """Those that may be seen, as namespace/name; None where the kind is not there."""
    try:
        try:
            listed = api.get(RESOURCES.path)
        except NotFoundError:
            return None
        except RefusedError:  # not allowed to look everywhere
            listed = api.get(RESOURCES.within(namespace).path)
    except NotFoundError:
        return None
    return sorted(
        f"{text(each, 'metadata', 'namespace')}/{text(each, 'metadata', 'name')}" for each in objects(listed, "items")
    )


def _usable(document: Mapping[str, object], *, where: str) -> AutoscalerResource:
    parsed = parse_resource(document)
    if not isinstance(parsed, AutoscalerResource):
        raise ManifestError("\n".join(f"{where}: {parsed.name}: {problem}" for problem in parsed.problems))
    return parsed


def _followed(resource: AutoscalerResource, *, namespace: str) -> ScaledService:
    if resource.mode is Mode.SCALE:
        raise ManifestError(
            f"{resource.name} has mode: Scale, so the autoscaler itself changes the replicas, and would stop at the "
            "sight of an HPA beside it; set mode: Advise"
        )
    return ScaledService(
        namespace=namespace,
        name=resource.name,
        min_replicas=resource.service.bounds.min_replicas,
        max_replicas=resource.service.bounds.max_replicas,
        sources=resource.sources,
    )


def _documents(file: Path) -> list[Mapping[str, object]]:
    """Its InferenceAutoscalers, unread."""
    try:
        source = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
        documents = list(yaml.safe_load_all(source))
    except (OSError, UnicodeDecodeError) as error:
        raise ManifestError(f"{file} can't be read: {error}") from error
    except yaml.YAMLError as error:
        raise ManifestError(f"{file} is no YAML: {error}") from error
    return [each for each in documents if isinstance(each, Mapping) and each.get("kind") == KIND]
