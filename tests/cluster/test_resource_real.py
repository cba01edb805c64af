"""A real API server takes the custom resource definition, and refuses, fills in, shows and keeps what it should."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from adapters.kubernetes.status import publication_of, refused_status, status_of
from adapters.kubernetes.status_conditions import Circumstances
from autoscaler.config.resource_reading import parse_resource
from autoscaler.domain.plan import Reason
from autoscaler.domain.publishing import published
from autoscaler.domain.reading import Unknown, UnknownReason
from autoscaler.domain.resource import AutoscalerResource, RefusedResource
from tests.adapters_kubernetes.decisions import DEMAND, NOW_S, decided, holding
from tests.cluster.api import ApiError, Json
from tests.cluster.running import Cluster

pytestmark = pytest.mark.cluster

DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat"}
SMALLEST: Mapping[str, object] = {"slo": {"ttft": "2s"}, "targetRef": DEPLOYMENT}
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/inferenceautoscalers.gpu-autoscaler.io"


@pytest.fixture(scope="module")
def namespace(cluster: Cluster) -> Iterator[str]:
    """One for all of these tests, in a cluster that knows the kind."""
    cluster.define_kinds(Path("charts/gpu-autoscaler/crds"))
    with cluster.namespace() as name:
        yield name


def _path(namespace: str, name: str = "") -> str:
    path = f"/apis/gpu-autoscaler.io/v1alpha1/namespaces/{namespace}/inferenceautoscalers"
    return f"{path}/{name}" if name else path


def _object(spec: Mapping[str, object], *, name: str | None = None) -> Json:
    metadata = {"name": name} if name else {"generateName": "test-"}
    return {
        "apiVersion": "gpu-autoscaler.io/v1alpha1",
        "kind": "InferenceAutoscaler",
        "metadata": {**metadata, "labels": {"app": "chat"}},
        "spec": spec,
    }


def _variant(variant: str, **target: str) -> Json:
    return {"name": variant, "targetRef": {**DEPLOYMENT, **target}}


def _without_target(*variants: Json) -> Json:
    return {"targetRef": None, "variants": list(variants)}


@pytest.mark.usefixtures("namespace")
def test_the_definition_is_taken_as_structural(cluster: Cluster) -> None:
    conditions = {each["type"]: each["status"] for each in cluster.api.get(DEFINITION)["status"]["conditions"]}
    assert conditions["Established"] == conditions["NamesAccepted"] == "True"
    assert "NonStructuralSchema" not in conditions


def test_defaults_are_filled_in(cluster: Cluster, namespace: str) -> None:
    given = _object(SMALLEST)
    kept = cluster.api.post(_path(namespace), given)
    assert kept["spec"] == {
        "slo": {"ttft": "2s", "share": 0.99},
        "targetRef": DEPLOYMENT,
        "mode": "Advise",
        "engine": "auto",
        "metrics": {"path": "/metrics", "scheme": "http"},
        "models": [],
        "requests": {"maxWait": "15m", "maxWaiting": 1000, "scheme": "http"},
        "unschedulableDeadline": "5m",
        "startup": "2m",
        "startDeadline": "10m",
        "minReplicas": 1,
        "maxReplicas": 10,
        "spare": 0,
        "priority": 0,
        "cost": 1,
        "idle": {"after": "5m", "minUptimeFactor": 2},
        "behavior": {
            "scaleUp": {"policies": [], "selectPolicy": "Max", "tolerance": 0},
            "scaleDown": {"policies": [], "selectPolicy": "Max", "tolerance": 0},
        },
    }
    with_defaults = parse_resource(kept)
    without = parse_resource({**kept, "spec": given["spec"]})
    assert isinstance(with_defaults, AutoscalerResource)
    assert with_defaults == without


GOOD = [
    pytest.param({"metrics": {"port": 8000}}, id="port number"),
    pytest.param({"metrics": {"port": "http"}}, id="port name"),
    pytest.param({"slo": {"ttft": "1m30s", "itl": "0.5ms", "share": 0.5}}, id="durations"),
    pytest.param({"slo": {"itl": "50ms", "ttft": None}}, id="null is absent"),
    pytest.param({"stepTime": {"c": "6.4ms", "d": "10us", "e": "41ns", "a": "24us"}}, id="step time"),
    pytest.param({"stepTime": {"profile": "h100_sxm/Meta-Llama-3.1-8B/tp1"}}, id="profile"),
    pytest.param(
        {"targetRef": {"apiVersion": "ray.io/v1", "kind": "RayService", "name": "llm", "workerGroup": "gpu"}}, id="ray"
    ),
    pytest.param(_without_target(*(_variant(f"v{each}", name=f"d{each}") for each in range(32))), id="32 variants"),
    pytest.param(
        _without_target(_variant("a"), _variant("b", kind="StatefulSet"), _variant("c", apiVersion="x.io/v1")),
        id="one name, three objects",
    ),
]


@pytest.mark.parametrize("changes", GOOD)
def test_what_is_allowed_is_kept_and_read(cluster: Cluster, namespace: str, changes: Json) -> None:
    kept = cluster.api.post(_path(namespace), _object({**SMALLEST, **changes}))
    assert isinstance(parse_resource(kept), AutoscalerResource)


_RAY = {"apiVersion": "ray.io/v1", "kind": "RayService", "name": "llm"}
BAD = [
    pytest.param({"slo": None}, "spec.slo", "Required value", id="slo missing"),
    pytest.param({"slo": {}}, "spec.slo", "needs at least one threshold: ttft, itl, queue or e2e", id="no threshold"),
    pytest.param({"slo": {"ttft": "0s"}}, "spec.slo.ttft", "more than 0s and at most 24h", id="no time at all"),
    pytest.param({"slo": {"ttft": "25h"}}, "spec.slo.ttft", "more than 0s and at most 24h", id="too long"),
    pytest.param({"slo": {"ttft": "2 s"}}, "spec.slo.ttft", "should match", id="no duration"),
    pytest.param({"slo": {"ttft": "9" * 15 + "h"}}, "spec.slo.ttft", "at most 24h", id="longer than Go counts"),
    pytest.param({"slo": {"ttft": "1s", "share": 1}}, "spec.slo.share", "should be less than 1", id="all requests"),
    pytest.param({"mode": "scale"}, "spec.mode", 'supported values: "Advise", "Scale"', id="mode"),
    pytest.param({"engine": "other"}, "spec.engine", 'supported values: "auto", "vllm"', id="engine"),
    pytest.param({"minReplicas": 11}, "spec.minReplicas", "at most maxReplicas (10 unless given)", id="bounds"),
    pytest.param({"minReplicas": -1}, "spec.minReplicas", "greater than or equal to 0", id="negative"),
    pytest.param(
        {"startup": "11m"},
        "spec.startDeadline",
        "every start would fail: startDeadline 10m is shorter than startup 11m",
        id="deadline",
    ),
    pytest.param(
        {"stepTime": {"profile": "h100_sxm/Meta-Llama-3.1-8B/tp1", "c": "1ms"}},
        "spec.stepTime",
        "give either a profile or the terms c, d, e, a; not both",
        id="profile and terms",
    ),
    pytest.param({"stepTime": {"c": "1ms"}}, "spec.stepTime", "needs a profile, or all of c, d, e, a", id="a term"),
    pytest.param(
        {"stepTime": {"c": "0s", "d": "0s", "e": "0s", "a": "0s"}}, "spec.stepTime.c", "more than 0s", id="free steps"
    ),
    pytest.param({"targetRef": None}, "spec", "give either targetRef", id="no target"),
    pytest.param({"variants": [_variant("a", name="a")]}, "spec", "give either targetRef", id="both forms"),
    pytest.param(_without_target(), "spec.variants", "should have at least 1 items", id="no variants"),
    pytest.param(
        _without_target(_variant("a"), _variant("a", name="b")), "spec.variants[1]", "Duplicate value", id="names"
    ),
    pytest.param(
        _without_target(_variant("a"), _variant("b", apiVersion="apps/v1beta2")),
        "spec.variants",
        "two variants have the same target; each needs an object of its own",
        id="targets",
    ),
    pytest.param(
        {"targetRef": {**DEPLOYMENT, "kind": "ScaledObject"}},
        "spec.targetRef.kind",
        "ScaledObject runs no replicas that could be counted",
        id="no replicas",
    ),
    pytest.param({"targetRef": _RAY}, "spec.targetRef", "workerGroup has to name it", id="no worker group"),
    pytest.param(
        {"targetRef": {**DEPLOYMENT, "workerGroup": "gpu"}},
        "spec.targetRef.workerGroup",
        "leave workerGroup out",
        id="a worker group of nothing",
    ),
    pytest.param(
        {"gateway": {"type": "Envoy"}},
        "spec.gateway",
        "of another's gateway the pods have to be named: selector is missing",
        id="a gateway of others without its pods",
    ),
    pytest.param(
        {"gateway": {"matchLabels": {"model_name": "chat"}}},
        "spec.gateway.matchLabels",
        "are for the gateways of others; ours tells its services apart by itself",
        id="labels on the page of our own gateway",
    ),
    pytest.param({"metrics": {"port": 0}}, "spec.metrics.port", "greater than or equal to 1", id="port number"),
    pytest.param({"metrics": {"port": "HTTP"}}, "spec.metrics.port", "should match", id="port name"),
    pytest.param({"unschedulableDeadline": "0s"}, "spec.unschedulableDeadline", "more than 0s", id="no deadline"),
]


@pytest.mark.parametrize(("changes", "field", "words"), BAD)
def test_what_is_wrong_is_refused_where_it_stands(
    cluster: Cluster, namespace: str, changes: Json, field: str, words: str
) -> None:
    spec = {**SMALLEST, **changes}
    with pytest.raises(ApiError) as caught:
        cluster.api.post(_path(namespace), _object(spec))
    assert caught.value.status == 422
    body = caught.value.body
    assert isinstance(body, dict)
    causes = [each for each in body["details"]["causes"] if each["field"] == field]
    assert any(words in each["message"] for each in causes), body["message"]
    # An older definition may have let it through.
    given = {key: value for key, value in spec.items() if value is not None}
    assert isinstance(parse_resource(_object(given, name="chat")), RefusedResource)


def test_a_name_fits_into_a_label(cluster: Cluster, namespace: str) -> None:
    cluster.api.post(_path(namespace), _object(SMALLEST, name="a" * 63))
    with pytest.raises(ApiError, match="may have at most 63 characters"):
        cluster.api.post(_path(namespace), _object(SMALLEST, name="a" * 64))


def test_unknown_keys_are_refused_where_the_client_asks_for_it(cluster: Cluster, namespace: str) -> None:
    with pytest.raises(ApiError, match="unknown field"):
        cluster.api.request(
            "POST", _path(namespace), _object({**SMALLEST, "command": "vllm"}), fieldValidation="Strict"
        )


@pytest.mark.usefixtures("namespace")
def test_every_expression_has_been_seen_to_refuse(cluster: Cluster) -> None:
    """Of those that join keys; those of durations are all alike."""
    version = cluster.api.get(DEFINITION)["spec"]["versions"][0]
    told = ["may have at most 63 characters", *(str(each.values[2]) for each in BAD)]
    unseen = [
        rule["message"]
        for rule in _rules(version["schema"]["openAPIV3Schema"])
        if "must be a duration" not in rule["message"] and not any(_says(words, rule["message"]) for words in told)
    ]
    assert unseen == []


def _says(words: str, message: str) -> bool:
    """Whether the words are of the message, values in either left out."""
    return words in message or message[:30] in words


def _rules(schema: Json) -> Iterator[Json]:
    yield from schema.get("x-kubernetes-validations", ())
    for child in schema.get("properties", {}).values():
        yield from _rules(child)
    if "items" in schema:
        yield from _rules(schema["items"])


@pytest.fixture
def kept(cluster: Cluster, namespace: str) -> Iterator[Json]:
    """A resource on the server."""
    resource = cluster.api.post(_path(namespace), _object({**SMALLEST, "mode": "Scale", "maxReplicas": 7}))
    yield resource
    cluster.api.delete(_path(namespace, resource["metadata"]["name"]))


def _put_status(cluster: Cluster, resource: Json, status: Mapping[str, object]) -> Json:
    path = _path(resource["metadata"]["namespace"], resource["metadata"]["name"])
    return cluster.api.put(f"{path}/status", {**resource, "status": status})


DECISIONS = [
    pytest.param(decided(5), id="plan"),
    pytest.param(decided(0), id="zero"),
    pytest.param(holding(Reason.FOREIGN_OWNER, "HorizontalPodAutoscaler chat also writes"), id="hold"),
    pytest.param(
        decided(2, demand=Unknown(UnknownReason.UNREACHABLE, "chat-1: connection refused"), lead_s=1 / 3), id="unknown"
    ),
    pytest.param(decided(10_000, demand=replace(DEMAND, short_rps=1e-9, backlog=1e15 / 3)), id="odd numbers"),
]


@pytest.mark.parametrize("decision", DECISIONS)
def test_a_status_comes_back_as_it_was_written(cluster: Cluster, kept: Json, decision: object) -> None:
    resource = parse_resource(kept)
    assert isinstance(resource, AutoscalerResource)
    publication = published(
        decision,  # type: ignore[arg-type]
        namespace=resource.namespace,
        name=resource.name,
        labels=resource.labels,
        stale_after_s=45.0,
    )
    status = status_of(
        resource,
        decision,  # type: ignore[arg-type]
        publication,
        circumstances=Circumstances(),
        previous={},
        now_s=NOW_S,
    )
    answer = _put_status(cluster, kept, status)
    assert answer["status"] == status, "nothing is dropped, filled in or rounded"
    assert publication_of(answer) == publication
    assert answer["metadata"]["generation"] == kept["metadata"]["generation"]


def test_a_refusal_can_be_written(cluster: Cluster, kept: Json) -> None:
    refused = parse_resource({**kept, "spec": {}})
    assert isinstance(refused, RefusedResource)
    status = refused_status(refused, previous={}, stale_after_s=45.0, now_s=NOW_S)
    assert _put_status(cluster, kept, status)["status"] == status


def test_status_and_spec_are_written_apart(cluster: Cluster, kept: Json) -> None:
    path = _path(kept["metadata"]["namespace"], kept["metadata"]["name"])
    changed = {**kept, "spec": {**kept["spec"], "maxReplicas": 9}, "status": {"desiredReplicas": 3}}
    assert "status" not in cluster.api.put(path, changed)
    current = cluster.api.get(path)
    answer = _put_status(cluster, {**current, "spec": kept["spec"]}, {"desiredReplicas": 3})
    assert (answer["spec"]["maxReplicas"], answer["status"]["desiredReplicas"]) == (9, 3)


def test_it_can_not_be_scaled_by_others(cluster: Cluster, kept: Json) -> None:
    with pytest.raises(ApiError) as caught:
        cluster.api.get(_path(kept["metadata"]["namespace"], kept["metadata"]["name"]) + "/scale")
    assert caught.value.status == 404


def test_what_kubectl_shows(cluster: Cluster, kept: Json) -> None:
    resource = parse_resource(kept)
    assert isinstance(resource, AutoscalerResource)
    decision = decided(5, ready=3)
    publication = published(decision, namespace=resource.namespace, name=resource.name, stale_after_s=45.0)
    status = status_of(resource, decision, publication, circumstances=Circumstances(), previous={}, now_s=NOW_S)
    _put_status(cluster, kept, status)
    heading, line = cluster.kubectl("get", "ia", "-n", resource.namespace, resource.name).splitlines()
    assert " ".join(heading.split()) == "NAME MODE DESIRED CURRENT READY MIN MAX VALID KNOWN REASON AGE"
    shown = line.split()
    assert shown[1:-1] == ["Scale", "5", "3", "3", "1", "7", "True", "True", "MeasuredLoad"]
    wide = cluster.kubectl("get", "inferenceautoscalers", "-n", resource.namespace, resource.name, "-o", "wide")
    assert "12.5 req/s need it" in wide
    assert "Time to first token" in cluster.kubectl("explain", "inferenceautoscaler.spec.slo")
