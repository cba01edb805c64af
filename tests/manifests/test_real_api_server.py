"""A real API server takes the printed HPAs as they are written, and fills in nothing that would change them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from autoscaler.domain.resource import TargetRef, VariantSource
from autoscaler.manifests import KubernetesVersion, ScaledService, hpa_manifests
from tests.cluster.api import APPLY, ApiError, Json
from tests.cluster.running import Cluster

pytestmark = pytest.mark.cluster


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    with cluster.namespace() as name:
        yield name


def a_service(namespace: str, *, variants: int, min_replicas: int = 1) -> ScaledService:
    sources = [
        VariantSource(
            variant=f"v{index}", target=TargetRef(api_version="apps/v1", kind="Deployment", name=f"chat-{index}")
        )
        for index in range(variants)
    ]
    return ScaledService(
        namespace=namespace, name="chat", min_replicas=min_replicas, max_replicas=40, sources=tuple(sources)
    )


def create_strictly(cluster: Cluster, hpa: Json) -> Json:
    """Field by field: one that the server does not know is an error, as with kubectl."""
    return cluster.api.request(
        "PATCH",
        cluster.api.path_of(hpa),
        hpa,
        content_type=APPLY,
        fieldManager="test",
        fieldValidation="Strict",
    )


@pytest.mark.parametrize("version", ["1.30", "1.34", "1.36"])
@pytest.mark.parametrize("variants", [1, 3])
def test_an_hpa_is_taken_as_written(cluster: Cluster, namespace: str, *, version: str, variants: int) -> None:
    service = a_service(namespace, variants=variants)
    for hpa in yaml.safe_load_all(hpa_manifests(service, kubernetes=KubernetesVersion.parse(version))):
        assert create_strictly(cluster, hpa)["spec"] == hpa["spec"]


def test_an_hpa_of_a_service_that_may_go_to_zero_is_taken(cluster: Cluster, namespace: str) -> None:
    service = a_service(namespace, variants=1, min_replicas=0)
    (hpa,) = yaml.safe_load_all(hpa_manifests(service, kubernetes=KubernetesVersion(1, 36)))
    assert create_strictly(cluster, hpa)["spec"]["minReplicas"] == 1


def test_unknown_fields_would_be_noticed(cluster: Cluster, namespace: str) -> None:
    (hpa,) = yaml.safe_load_all(hpa_manifests(a_service(namespace, variants=1)))
    hpa["spec"]["behavior"]["scaleUp"]["patience"] = 1
    with pytest.raises(ApiError, match="patience"):
        create_strictly(cluster, hpa)
