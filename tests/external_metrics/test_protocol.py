"""The API as its clients know it: paths, methods, media types, discovery, probes."""

from __future__ import annotations

import http.client
import json

import pytest

from tests.external_metrics.authorities import NOW
from tests.external_metrics.scene import API, START_S, Headers, Scene, a_publication

V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
V2BETA1 = V2.replace("v=v2", "v=v2beta1")
PROTOBUF = "application/vnd.kubernetes.protobuf,application/json"
MASTER = {"user": "system:kube-aggregator", "groups": ("system:masters",)}


@pytest.mark.parametrize(
    ("path", "status"),
    [
        pytest.param("/", 404, id="root"),
        pytest.param("/apis/", 404, id="slash after apis"),
        pytest.param("/api", 404, id="core API"),
        pytest.param("/apis/metrics.k8s.io/v1beta1", 404, id="another group"),
        pytest.param("/apis/external.metrics.k8s.io/v1", 404, id="another version"),
        pytest.param(f"{API}/desired_replicas", 404, id="metric without a namespace"),
        pytest.param(f"{API}/namespaces", 404, id="namespaces"),
        pytest.param(f"{API}/namespaces/prod", 404, id="namespace without a metric"),
        pytest.param(f"{API}/namespaces/prod/", 404, id="empty metric"),
        pytest.param(f"{API}/namespaces//desired_replicas", 404, id="empty namespace"),
        pytest.param(f"{API}/namespaces/prod/group/desired_replicas", 404, id="slash in the metric"),
        pytest.param(f"{API}/namespaces/prod/group%2Fdesired_replicas", 404, id="encoded slash in the metric"),
        pytest.param(f"{API}/namespaces/prod/desired_replicas/", 404, id="slash at the end"),
        pytest.param(f"{API}/namespaces/prod/status", 404, id="part of the namespace"),
        pytest.param(f"{API}/namespaces/prod/../prod/desired_replicas", 404, id="dots"),
        pytest.param(f"/{API}/namespaces/prod/desired_replicas", 404, id="two slashes first"),
        pytest.param(f"{API}/namespaces/prod/unknown", 404, id="unknown metric"),
        pytest.param(f"{API}/namespaces/empty/desired_replicas", 404, id="namespace without services"),
        pytest.param(f"{API}/namespaces/prod/desired_replicas", 200, id="metric"),
        pytest.param(f"{API}/namespaces/prod/desired%5Freplicas", 200, id="metric, percent-encoded"),
        pytest.param(f"{API}/namespaces/prod/desired_replicas?labelSelector=", 200, id="empty selector"),
        pytest.param(f"{API}/namespaces/prod/desired_replicas?labelSelector=service%3Dchat", 200, id="selector"),
        pytest.param(f"{API}/namespaces/prod/desired_replicas?limit=500&resourceVersion=0", 200, id="list options"),
        pytest.param(f"{API}/namespaces/prod/desired_replicas?labelSelector=a%3D%3D%3Db", 400, id="no selector"),
        pytest.param(f"{API}/namespaces/prod/desired_replicas?labelSelector=%FF", 400, id="selector is no text"),
        pytest.param(f"{API}/namespaces/prod/desired_replicas?fieldSelector=metadata.name%3Dx", 400, id="fields"),
        pytest.param(f"{API}/namespaces/prod/desired_replicas?watch=true", 405, id="watch"),
        pytest.param(f"{API}/namespaces/prod/desired_replicas?{'a=1&' * 40}", 400, id="40 parameters"),
        pytest.param(f"{API}/namespaces/prod/%FF", 400, id="path is no text"),
        pytest.param(f"{API}/namespaces/prod/a%00b", 400, id="NUL in the path"),
    ],
)
def test_paths(scene: Scene, path: str, status: int) -> None:
    reply = scene.as_proxy(path)
    assert (reply.status, reply.headers["content-type"]) == (status, "application/json")
    assert reply.document["kind"] == ("ExternalMetricValueList" if status == 200 else "Status")


def test_a_list_of_values(scene: Scene) -> None:
    scene.shelf.put(a_publication("chat", 7, labels={"model": "llama"}, at_s=START_S + 0.7))
    assert scene.metric(selector="service%3Dchat").document == {
        "kind": "ExternalMetricValueList",
        "apiVersion": "external.metrics.k8s.io/v1beta1",
        "metadata": {},
        "items": [
            {
                "metricName": "desired_replicas",
                "metricLabels": {"model": "llama", "service": "chat"},
                "timestamp": NOW.isoformat().replace("+00:00", "Z"),
                "value": "7",
            }
        ],
    }


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "PROPFIND"])
@pytest.mark.parametrize("path", ["/apis", API, f"{API}/namespaces/prod/desired_replicas", "/nothing"])
def test_nothing_but_reading(scene: Scene, method: str, path: str) -> None:
    reply = scene.as_proxy(path, method=method)
    assert (reply.status, reply.headers["allow"]) == (405, "GET")
    assert method == "HEAD" or reply.document["reason"] == "MethodNotAllowed"


@pytest.mark.parametrize("accept", ["", "*/*", PROTOBUF, "application/vnd.kubernetes.protobuf", "text/html", ";;,,"])
@pytest.mark.parametrize("path", ["/apis", API, f"{API}/namespaces/prod/desired_replicas", "/nothing"])
def test_json_whatever_is_accepted(scene: Scene, accept: str, path: str) -> None:
    reply = scene.as_proxy(path, headers=[("Accept", accept)])
    assert reply.headers["content-type"] == "application/json"
    assert reply.status == (404 if path == "/nothing" else 200)
    assert json.loads(reply.body)


def test_discovery_of_old(scene: Scene) -> None:
    group = {
        "name": "external.metrics.k8s.io",
        "versions": [{"groupVersion": "external.metrics.k8s.io/v1beta1", "version": "v1beta1"}],
        "preferredVersion": {"groupVersion": "external.metrics.k8s.io/v1beta1", "version": "v1beta1"},
    }
    assert scene.as_proxy("/apis").document == {"kind": "APIGroupList", "apiVersion": "v1", "groups": [group]}
    assert scene.as_proxy("/apis/external.metrics.k8s.io").document == {
        "kind": "APIGroup",
        "apiVersion": "v1",
        **group,
    }
    resources = scene.as_proxy(API).document
    assert (resources["kind"], resources["groupVersion"]) == ("APIResourceList", "external.metrics.k8s.io/v1beta1")
    assert [(each["name"], each["namespaced"], each["verbs"]) for each in resources["resources"]] == [
        ("desired_replicas", True, ["get"])
    ]


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        pytest.param([("Accept", V2)], V2, id="v2"),
        pytest.param([("Accept", V2BETA1)], V2BETA1, id="v2beta1"),
        pytest.param([("Accept", f"{V2BETA1},{V2},application/json")], V2, id="both"),
        pytest.param([("Accept", V2BETA1), ("Accept", V2)], V2, id="both, in two headers"),
        pytest.param([("Accept", V2.replace(";", "; ") + ";profile=nopeer")], V2, id="spaces and a further parameter"),
        pytest.param([("Accept", "application/json")], "application/json", id="plain"),
        pytest.param([("Accept", V2.replace("v=v2", "v=v3"))], "application/json", id="a version to come"),
        pytest.param([], "application/json", id="nothing"),
    ],
)
def test_discovery_in_one_document(scene: Scene, accept: Headers, content_type: str) -> None:
    reply = scene.as_proxy("/apis", headers=accept, **MASTER)  # type: ignore[arg-type]
    assert (reply.headers["content-type"], reply.headers["vary"]) == (content_type, "Accept")
    assert ("etag" in reply.headers) == (content_type != "application/json")
    if "etag" not in reply.headers:
        return
    version = "v2beta1" if "v2beta1" in content_type else "v2"
    assert reply.document["apiVersion"] == f"apidiscovery.k8s.io/{version}"
    (item,) = reply.document["items"]
    assert item["versions"][0]["resources"][0]["scope"] == "Namespaced"
    again = scene.as_proxy("/apis", headers=[*accept, ("If-None-Match", f'"x", {reply.headers["etag"]}')])
    assert (again.status, again.body, again.headers["etag"]) == (304, b"", reply.headers["etag"])
    assert scene.as_proxy("/apis", headers=[*accept, ("If-None-Match", '"x"')]).status == 200


def test_discovery_needs_no_authorizer_but_somebody(scene: Scene) -> None:
    scene.cluster.down = {"access"}
    for path in ("/apis", "/apis/external.metrics.k8s.io", API):
        assert scene.as_proxy(path, user="system:kube-aggregator").status == 200
        assert scene.ask(path).status == 401
    assert scene.cluster.asked == []


@pytest.mark.parametrize("path", ["/openapi/v2", "/openapi/v3", "/openapi/v3/apis/external.metrics.k8s.io/v1beta1"])
def test_openapi_is_not_found_rather_than_forbidden(scene: Scene, path: str) -> None:
    assert scene.as_proxy(path, user="system:aggregator").status == 404
    assert scene.ask(path).status == 404
    assert scene.cluster.asked == []


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/readyz?verbose"])
def test_probes_ask_nobody_who_they_are(scene: Scene, path: str) -> None:
    assert (scene.ask(path).status, scene.ask(path).body) == (200, b"ok")
    assert scene.ask(path, method="HEAD").status == 200
    assert scene.ask(path, method="POST").status == 401


def test_ready_once_services_are_known_whatever_their_metrics(scene: Scene) -> None:
    scene.shelf.known = False
    assert scene.ask("/livez").status == 200
    reply = scene.ask("/readyz")
    assert reply.status == 503
    assert b"no list of InferenceAutoscalers came yet" in reply.body
    assert scene.metric().status == 503
    scene.shelf.known = True
    scene.now_s += 1000.0
    assert scene.metric().status == 503
    assert scene.ask("/readyz").status == 200


def test_one_connection_takes_many_requests(scene: Scene) -> None:
    with scene.connected(scene.proxy) as connection:
        sockets = set()
        for number in range(50):
            scene.shelf.put(a_publication("chat", number))
            connection.request("GET", f"{API}/namespaces/prod/desired_replicas", headers={"X-Remote-User": "monitor"})
            sockets.add(id(connection.sock))
            response: http.client.HTTPResponse = connection.getresponse()
            assert json.loads(response.read())["items"][0]["value"] == str(number)
    assert len(sockets) == 1
