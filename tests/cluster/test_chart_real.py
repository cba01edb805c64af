"""The chart installed by the real helm on a real API server: upgraded, refused where it must be, removed."""

from __future__ import annotations

import re
import textwrap
from base64 import b64decode
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509

from tests.charts.rendering import CHART, RefusedByHelm
from tests.cluster.chart import Release, release_in
from tests.cluster.external_metrics import API_SERVICE
from tests.cluster.running import Cluster
from tests.cluster.workloads import await_pods

pytestmark = pytest.mark.cluster

API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
HPA: dict[str, Any] = {"externalMetrics": {"enabled": True, "apiService": {"create": True}}}
# Fields that somebody else has set, the tests here among them, are set all the same.
FORCE = "--force-conflicts"
SCALES: dict[str, Any] = {"mode": "Scale", "targets": {"rayServices": True, "nimServices": True}}


@pytest.fixture
def release(cluster: Cluster, tmp_path: Path) -> Iterator[Release]:
    """Not installed yet; uninstalled at the end."""
    with release_in(cluster, tmp_path) as made:
        yield made


def may(
    release: Release, verb: str, group: str, resource: str, *, namespace: str = "elsewhere", name: str = ""
) -> bool:
    """What the authorizer says of the release's service account."""
    resource, _, subresource = resource.partition("/")
    asked = {
        "user": f"system:serviceaccount:{release.namespace}:{release.name}",
        "groups": ["system:serviceaccounts", f"system:serviceaccounts:{release.namespace}", "system:authenticated"],
        "resourceAttributes": {
            **{"verb": verb, "group": group, "resource": resource, "subresource": subresource},
            **{"namespace": namespace, "name": name},
        },
    }
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": asked}
    answer = release.cluster.api.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
    return bool(answer["status"]["allowed"])


WRITES = [
    ("update", "apps", "deployments/scale"),
    ("update", "apps", "statefulsets/scale"),
    ("update", "leaderworkerset.x-k8s.io", "leaderworkersets/scale"),
    ("patch", "ray.io", "rayservices"),
    ("patch", "apps.nvidia.com", "nimservices"),
    ("patch", "", "pods"),
]
NEVER = [
    *((verb, "apps", "deployments") for verb in ("create", "update", "patch", "delete")),
    *((verb, "", "pods") for verb in ("create", "update", "delete")),
    ("create", "", "pods/eviction"),
    ("create", "", "pods/exec"),
    *((verb, "", "secrets") for verb in ("get", "list", "watch", "create")),
    ("get", "", "configmaps"),
    ("update", "gpu-autoscaler.io", "inferenceautoscalers"),
    ("patch", "", "nodes"),
    ("create", "rbac.authorization.k8s.io", "clusterrolebindings"),
    ("escalate", "rbac.authorization.k8s.io", "clusterroles"),
    ("patch", "apiregistration.k8s.io", "apiservices"),
]


@pytest.mark.parametrize(
    ("values", "allowed"),
    [
        pytest.param({}, set(), id="Advise"),
        pytest.param({**HPA}, set(), id="Advise for HPA"),
        pytest.param({"mode": "Scale"}, {*WRITES[:3], WRITES[5]}, id="Scale"),
        pytest.param(SCALES, set(WRITES), id="Scale whole objects"),
    ],
)
def test_what_the_service_account_may(
    release: Release, values: Mapping[str, Any], allowed: set[tuple[str, str, str]]
) -> None:
    release.install(values)
    assert {each for each in WRITES if may(release, *each)} == allowed
    assert [each for each in NEVER if may(release, *each)] == []
    assert may(release, "patch", "gpu-autoscaler.io", "inferenceautoscalers/status")
    lease = {"namespace": release.namespace, "name": release.name}
    assert may(release, "update", "coordination.k8s.io", "leases", **lease)
    assert not may(release, "update", "coordination.k8s.io", "leases", namespace=release.namespace, name="another")
    assert not may(release, "create", "coordination.k8s.io", "leases", namespace="kube-system")
    reviews = may(release, "create", "authentication.k8s.io", "tokenreviews")
    assert reviews == ("externalMetrics" in values)


def test_a_list_of_namespaces_bounds_what_may_be_written(release: Release) -> None:
    with release.cluster.namespace() as chat:
        release.install({**SCALES, "namespaces": [chat]})
        assert [each for each in WRITES if may(release, *each)] == []
        assert [each for each in WRITES if not may(release, *each, namespace=chat)] == []
        for verb, group, resource in (
            ("list", "gpu-autoscaler.io", "inferenceautoscalers"),
            ("create", "events.k8s.io", "events"),
        ):
            assert may(release, verb, group, resource, namespace=chat)
            assert not may(release, verb, group, resource)
        assert may(release, "list", "", "pods"), "devices that others hold"


def test_everything_is_taken_by_a_strict_server(release: Release) -> None:
    """Unknown and doubled fields are refused."""
    release.install()
    # Kinds of other projects are not defined here.
    values = {**SCALES, **HPA, "externalScaler": {"enabled": True}, "networkPolicy": {"enabled": True}}
    gateway = {"gateway": {"enabled": True}}
    in_one = {"namespaces": [release.namespace]}
    for more in ({}, {"state": {"kind": "volume"}}, in_one, gateway, {**gateway, **in_one}):
        manifests = release.folder / "manifests.yaml"
        values_file = release.folder / "all.yaml"
        values_file.write_text(yaml.safe_dump({**values, **more}))
        manifests.write_text(
            release.cluster.helm(
                "template", release.name, str(CHART), "-n", release.namespace, f"--values={values_file}"
            )
        )
        told = release.cluster.kubectl(
            "apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "-f", str(manifests)
        )
        assert "(server dry run)" in told


def test_pods_are_let_into_a_restricted_namespace(release: Release) -> None:
    labels = {
        "pod-security.kubernetes.io/enforce": "restricted",
        "pod-security.kubernetes.io/enforce-version": "latest",
    }
    release.cluster.api.patch(f"/api/v1/namespaces/{release.namespace}", {"metadata": {"labels": labels}})
    release.install({**HPA, "replicaCount": 2, "gateway": {"enabled": True}})
    await_pods(release.cluster, release.namespace, lambda found: len(found) == 4, "all replicas are made")


def test_files_are_for_the_processes_group_alone(release: Release) -> None:
    release.install({**HPA})
    volumes = release.get(f"apis/apps/v1/deployments/{release.name}")["spec"]["template"]["spec"]["volumes"]
    assert [each["projected"]["defaultMode"] for each in volumes if "projected" in each] == [0o440]


@pytest.mark.parametrize("values", [pytest.param({}, id="Advise"), pytest.param(SCALES, id="Scale")])
def test_the_notes_tell_what_works(release: Release, values: Mapping[str, Any]) -> None:
    told = release.install(values)
    (resource,) = re.findall(r"<<EOF\n(.*?)\n\s*EOF$", told, flags=re.MULTILINE | re.DOTALL)
    file = release.folder / "resource.yaml"
    file.write_text(textwrap.dedent(resource))
    made = release.cluster.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", str(file))
    assert "inferenceautoscaler.gpu-autoscaler.io/chat created" in made
    (service,) = re.findall(r"service/(\S+)", told)
    assert release.get(f"api/v1/services/{service}")["spec"]["ports"][0]["port"] == 8090
    (secret,) = re.findall(r"get secret --namespace \S+ (\S+)", told)
    assert release.get(f"api/v1/secrets/{secret}")["data"]["token"]
    assert f"helm test {release.name} --namespace {release.namespace}" in told


def test_an_upgrade_keeps_what_was_made(release: Release) -> None:
    release.install(HPA)
    before = {name: release.secret(name) for name in ("token", "tls", "ca")}
    service = release.cluster.api.get(f"{API_SERVICES}/{API_SERVICE}")
    release.install({**HPA, "replicaCount": 3})
    assert {name: release.secret(name) for name in before} == before
    after = release.cluster.api.get(f"{API_SERVICES}/{API_SERVICE}")
    assert after["spec"] == service["spec"]
    assert release.get(f"apis/apps/v1/deployments/{release.name}")["spec"]["replicas"] == 3


def test_an_upgrade_renews_a_certificate_that_is_due(release: Release) -> None:
    """By the same authority, so that whoever trusts it goes on."""
    release.install(HPA)
    before, authority = release.secret("tls"), release.secret("ca")
    release.note("tls", renews="1")
    release.install(HPA, FORCE)
    after = release.secret("tls")
    assert after["tls.crt"] != before["tls.crt"]
    assert after["tls.key"] != before["tls.key"]
    assert release.secret("ca") == authority
    certificate = x509.load_pem_x509_certificate(after["tls.crt"])
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority["ca.crt"]))


def test_an_authority_that_ends_is_followed_by_another_beside_it(release: Release) -> None:
    release.install(HPA)
    before = release.secret("ca")["ca.crt"]
    release.note("ca", ends="1")
    release.install(HPA, FORCE)
    bundle = b64decode(release.cluster.api.get(f"{API_SERVICES}/{API_SERVICE}")["spec"]["caBundle"])
    new, former = x509.load_pem_x509_certificates(bundle)
    assert former == x509.load_pem_x509_certificate(before)
    x509.load_pem_x509_certificate(release.secret("tls")["tls.crt"]).verify_directly_issued_by(new)


def test_another_owner_of_external_metrics_is_named_and_left(release: Release) -> None:
    cluster = release.cluster
    cluster.register_api_service(namespace="keda", service="keda-operator-metrics-apiserver", port=443)
    owner = cluster.api.get(f"{API_SERVICES}/{API_SERVICE}")["spec"]["service"]
    try:
        with pytest.raises(RefusedByHelm, match="belongs to Service keda/keda-operator-metrics-apiserver"):
            release.install(HPA)
        assert cluster.api.get(f"{API_SERVICES}/{API_SERVICE}")["spec"]["service"] == owner
        taken = {"externalMetrics": {"enabled": True, "apiService": {"create": True, "takeOver": True}}}
        release.install(taken, "--take-ownership", FORCE)
        mine = cluster.api.get(f"{API_SERVICES}/{API_SERVICE}")["spec"]["service"]
        assert (mine["namespace"], mine["name"]) == (release.namespace, f"{release.name}-metrics")
        # Ours by now: no word is needed any more.
        release.install(HPA)
    finally:
        cluster.remove_api_service()


def test_nothing_is_left(release: Release) -> None:
    api, named = release.cluster.api, f"{release.namespace}:{release.name}"
    release.install({**HPA, **SCALES, "gateway": {"enabled": True}})
    roles = "/apis/rbac.authorization.k8s.io/v1"
    places = [
        f"{API_SERVICES}/{API_SERVICE}",
        f"{roles}/clusterroles/{named}",
        f"{roles}/clusterrolebindings/{named}",
        f"{roles}/clusterroles/{named}-gateway",
        f"{roles}/clusterrolebindings/{named}-gateway",
        f"{roles}/clusterrolebindings/{named}:auth-delegator",
        f"{roles}/namespaces/kube-system/rolebindings/{named}",
    ]
    assert [place for place in places if api.find(place) is None] == []
    release.uninstall()
    assert [place for place in places if api.find(place) is not None] == []
    for kind in ("secrets", "configmaps", "services", "serviceaccounts"):
        names = [each["metadata"]["name"] for each in api.items(f"/api/v1/namespaces/{release.namespace}/{kind}")]
        assert [name for name in names if name.startswith(release.name)] == []
    definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/inferenceautoscalers.gpu-autoscaler.io"
    assert api.find(definition) is not None, "users' resources are not deleted with the release"
