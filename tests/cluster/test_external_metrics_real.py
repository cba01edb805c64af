"""External metrics behind a real aggregator: a real HPA, real front proxy, real TokenReview and SubjectAccessReview."""

from __future__ import annotations

import http.client
import json
import ssl
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from adapters.kubernetes.authentication import ApiReviews, TrustWatch
from adapters.kubernetes.connection import KubernetesApi
from adapters.serving.external.server import ExternalMetricsServer
from adapters.serving.external.settings import ExternalMetricsSettings
from autoscaler.domain.publication import Publication
from autoscaler.domain.reading import Unknown, UnknownReason
from tests.cluster.api import Json
from tests.cluster.certificates import KeyPair
from tests.cluster.processes import wait_for
from tests.cluster.running import Cluster
from tests.cluster.workloads import condition, deployment, pod_template
from tests.external_metrics.scene import Shelf

pytestmark = pytest.mark.cluster

SERVICE = "gpu-autoscaler"
RBAC = "rbac.authorization.k8s.io"
TIMEOUT = Unknown(UnknownReason.TIMEOUT, "no answer within 2 s from 4 of 4 replicas")
TRUST = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"


@dataclass(frozen=True)
class Served:
    """Our server, the owner of external metrics, with the rights of a service account of ``namespace`` alone."""

    cluster: Cluster
    namespace: str
    shelf: Shelf
    port: int

    def tell(self, name: str, desired: int | Unknown, *, age_s: float = 0.0) -> None:
        """Decide on a service."""
        self.shelf.put(
            Publication(
                namespace=self.namespace,
                name=name,
                at_s=time.time() - age_s,
                stale_after_s=300.0,
                desired_replicas=desired,
            )
        )

    @property
    def path(self) -> str:
        return f"/apis/external.metrics.k8s.io/v1beta1/namespaces/{self.namespace}/desired_replicas"

    def ask(self, *, client: KeyPair | None = None, headers: Mapping[str, str] | None = None) -> tuple[int, Json]:
        """Directly, past the API server."""
        context = ssl.create_default_context(cafile=str(self.cluster.certificates.ca.certificate))
        if client is not None:
            context.load_cert_chain(client.certificate, client.key)
        connection = http.client.HTTPSConnection("localhost", self.port, context=context, timeout=30)
        try:
            connection.request("GET", f"{self.path}?labelSelector=service%3Dchat", headers=dict(headers or {}))
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    def status(self, *, client: KeyPair | None = None, headers: Mapping[str, str] | None = None) -> int:
        """Of such an answer."""
        return self.ask(client=client, headers=headers)[0]

    def hpa(self, name: str, *, service: str) -> None:
        """A Deployment of pods that wait for a node for ever, and an HPA that does as it is told."""
        template = pod_template(name, spec={"nodeSelector": {"there-is": "none"}})
        policies = [{"type": "Pods", "value": 1000, "periodSeconds": 15}]
        rules = {"stabilizationWindowSeconds": 0, "tolerance": "0", "policies": policies}
        metric = {"name": "desired_replicas", "selector": {"matchLabels": {"service": service}}}
        external = {"metric": metric, "target": {"type": "AverageValue", "averageValue": "1"}}
        hpa = {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": name},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
                "minReplicas": 0,
                "maxReplicas": 50,
                "metrics": [{"type": "External", "external": external}],
                "behavior": {"scaleUp": rules, "scaleDown": rules},
            },
        }
        self.cluster.apply([deployment(name, replicas=1, template=template), hpa], namespace=self.namespace)

    def replicas(self, name: str) -> int:
        """That the Deployment is asked for."""
        found = self.cluster.api.get(f"/apis/apps/v1/namespaces/{self.namespace}/deployments/{name}")
        return int(found["spec"]["replicas"])

    def complaint(self, name: str) -> str:
        """What the HPA says of a metric that it can't read; "" while it can."""
        path = f"/apis/autoscaling/v2/namespaces/{self.namespace}/horizontalpodautoscalers/{name}"
        active = condition(self.cluster.api.get(path), "ScalingActive")
        return str(active["message"]) if active.get("reason") == "FailedGetExternalMetric" else ""


@pytest.fixture(scope="module")
def served(cluster: Cluster) -> Iterator[Served]:
    """One server for all tests of this module."""
    with cluster.namespace() as namespace, _serving(cluster, namespace) as served:
        served.tell("chat", 3)
        yield served


@contextmanager
def _serving(cluster: Cluster, namespace: str) -> Iterator[Served]:
    shelf = Shelf()
    _grant(cluster, namespace)
    pair = cluster.certificates.ca.issue(f"{SERVICE}-{namespace}", hosts=(f"{SERVICE}.{namespace}.svc", "localhost"))
    api = KubernetesApi.of_kubeconfig(cluster.kubeconfig_for_service_account(namespace, SERVICE))
    settings = ExternalMetricsSettings(host="127.0.0.1", port=0, certificate_file=pair.certificate, key_file=pair.key)
    server = ExternalMetricsServer(settings, shelf, ApiReviews(api), now_s=time.time)
    watch = TrustWatch(api, server.set_trust, now_s=time.time)
    server.start()
    watch.start()
    try:
        with cluster.api_service(namespace=namespace, service=SERVICE, port=server.port):
            yield Served(cluster, namespace, shelf, server.port)
    finally:
        watch.close()
        server.stop()
        api.close()


def _grant(cluster: Cluster, namespace: str) -> None:
    """Our account and its two bindings; ``reader`` may read metrics, ``stranger`` nothing."""
    role: Json = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "Role",
        "metadata": {"name": "metrics-reader"},
        "rules": [{"apiGroups": ["external.metrics.k8s.io"], "resources": ["*"], "verbs": ["get", "list"]}],
    }
    cluster.apply(
        [
            *[
                {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
                for name in (SERVICE, "reader", "stranger")
            ],
            role,
            _binding("RoleBinding", "reader", "Role", "metrics-reader", namespace, "reader"),
            _binding(
                "ClusterRoleBinding",
                f"delegator-{namespace}",
                "ClusterRole",
                "system:auth-delegator",
                namespace,
                SERVICE,
            ),
        ],
        namespace=namespace,
    )
    reader = "extension-apiserver-authentication-reader"
    cluster.apply(
        [_binding("RoleBinding", f"trust-{namespace}", "Role", reader, namespace, SERVICE)], namespace="kube-system"
    )


def _binding(kind: str, name: str, role_kind: str, role: str, namespace: str, account: str) -> Json:  # noqa: PLR0917
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": kind,
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": role_kind, "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }


def _bearer(served: Served, account: str, *, audiences: tuple[str, ...] = ()) -> dict[str, str]:
    return {"Authorization": f"Bearer {served.cluster.token(served.namespace, account, audiences=audiences)}"}


def test_an_hpa_does_as_it_is_told(served: Served) -> None:
    served.tell("steps", 1)
    served.hpa("steps", service="steps")
    for desired in (3, 7, 2, 20, 21, 20, 0, 3):
        served.tell("steps", desired)
        wait_for(lambda told=desired: served.replicas("steps") == told, f"{desired} replicas")  # type: ignore[misc]


def test_an_hpa_holds_and_says_why(served: Served) -> None:
    served.tell("blind", 4)
    served.hpa("blind", service="blind")
    wait_for(lambda: served.replicas("blind") == 4, "4 replicas")
    for desired, age_s, says in (
        (TIMEOUT, 0.0, "desired_replicas of service blind in namespace"),
        (0, 301.0, "after 300 s a decision counts as stale"),
    ):
        served.tell("blind", desired, age_s=age_s)
        wait_for(lambda words=says: words in served.complaint("blind"), says)  # type: ignore[misc]
        assert served.replicas("blind") == 4
        served.tell("blind", 4)
        wait_for(lambda: served.complaint("blind") == "", "the HPA reads the metric again")
    served.tell("blind", 5)
    wait_for(lambda: served.replicas("blind") == 5, "5 replicas")


def test_an_hpa_that_asks_for_a_service_that_is_not_there_is_told_which_are(served: Served) -> None:
    served.hpa("wrong", service="caht")
    wait_for(lambda: "there is no InferenceAutoscaler caht" in served.complaint("wrong"), "the HPA says so")
    assert "chat" in served.complaint("wrong")
    described = served.cluster.kubectl("describe", "hpa", "wrong", "--namespace", served.namespace)
    assert "NAME being one of" in " ".join(described.split())


def test_it_is_found_and_read_through_the_api_server(served: Served) -> None:
    listed = served.cluster.kubectl("api-resources", "--api-group=external.metrics.k8s.io", "--output=name")
    assert listed.split() == ["desired_replicas.external.metrics.k8s.io"]
    answer = json.loads(served.cluster.kubectl("get", "--raw", f"{served.path}?labelSelector=service%3Dchat"))
    assert [(each["metricLabels"], each["value"]) for each in answer["items"]] == [({"service": "chat"}, "3")]


def test_the_api_server_lets_only_those_through_who_may(served: Served) -> None:
    reader = served.cluster.api_as(served.namespace, "reader")
    assert reader.get(served.path, labelSelector="service=chat")["items"][0]["value"] == "3"
    config = str(served.cluster.kubeconfig_for_service_account(served.namespace, "stranger"))
    with pytest.raises(subprocess.CalledProcessError):
        served.cluster.kubectl(f"--kubeconfig={config}", "get", "--raw", served.path)


@pytest.mark.parametrize(
    ("account", "audiences", "status"),
    [
        pytest.param("reader", (), 200, id="who may"),
        pytest.param("stranger", (), 403, id="who may not"),
        pytest.param("reader", ("vault",), 401, id="meant for another"),
    ],
)
def test_direct_callers_with_a_token(served: Served, account: str, audiences: tuple[str, ...], status: int) -> None:
    headers = _bearer(served, account, audiences=audiences)
    assert served.status(headers=headers) == status
    forged = {**headers, "X-Remote-User": "admin", "X-Remote-Group": "system:masters"}
    assert served.status(headers=forged) == status


def test_direct_callers_with_a_certificate(served: Served) -> None:
    certificates = served.cluster.certificates
    forged = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}
    assert served.status(client=certificates.admin) == 200
    assert served.status(client=certificates.plain_user) == 403
    assert served.status(client=certificates.plain_user, headers=forged) == 403
    assert served.status(client=certificates.front_proxy, headers=forged) == 200
    assert served.status(client=certificates.front_proxy) == 401
    assert served.status(client=certificates.front_proxy_ca.issue("other-proxy"), headers=forged) == 401
    assert served.status(headers=forged) == 401
    assert served.status(headers={"Authorization": "Bearer invented"}) == 401
    foreign = certificates.foreign_ca.issue("foreign-proxy", common_name="front-proxy-client")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        served.ask(client=foreign, headers=forged)


def test_names_of_the_front_proxy_are_followed(served: Served) -> None:
    api, proxy = served.cluster.api, served.cluster.certificates.front_proxy
    headers = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}
    api.patch(TRUST, {"data": {"requestheader-allowed-names": '["other"]'}})
    wait_for(lambda: served.status(client=proxy, headers=headers) == 401, "the old name is refused")
    api.patch(TRUST, {"data": {"requestheader-allowed-names": '["front-proxy-client"]'}})
    wait_for(lambda: served.status(client=proxy, headers=headers) == 200, "the name is taken again")


def test_nobody_new_gets_in_while_the_api_server_is_down(served: Served) -> None:
    headers = _bearer(served, "reader")
    with served.cluster.api_server_down():
        status, answer = served.ask(headers=headers)
        assert (status, answer["reason"]) == (500, "InternalError")
        assert "nobody is let in" in answer["message"]
        assert served.status(client=served.cluster.certificates.admin) == 200
    wait_for(lambda: served.status(headers=headers) == 200, "the reader gets in again")


def test_namespaces_can_be_deleted(served: Served) -> None:
    with served.cluster.namespace() as name:
        path = f"/api/v1/namespaces/{name}"
    wait_for(lambda: served.cluster.api.find(path) is None, "the namespace is gone")
