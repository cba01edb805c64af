"""An InferenceAutoscaler as the API server tells it is read as a service of the file is, with the same messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from adapters.local.template import RoutePolicy
from autoscaler.config import Settings
from autoscaler.config.resource_reading import parse_resource
from autoscaler.domain.gateway import GatewayKind
from autoscaler.domain.resource import (
    GATEWAY_LABELS,
    AutoscalerResource,
    GatewayRef,
    MetricsEndpoint,
    Mode,
    RefusedResource,
    Scheme,
    ServedRequests,
    TargetRef,
)
from autoscaler.domain.service import ServiceId, Slo

DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat"}
SMALLEST: Mapping[str, Any] = {"slo": {"ttft": "2s"}, "targetRef": DEPLOYMENT}


def _object(spec: object) -> dict[str, object]:
    metadata = {
        "namespace": "llm",
        "name": "chat",
        "uid": "4f1c",
        "generation": 7,
        "creationTimestamp": "2026-11-30T12:00:00Z",
        "labels": {"team": "b", "app": "chat"},
    }
    return {
        "apiVersion": "gpu-autoscaler.io/v1alpha1",
        "kind": "InferenceAutoscaler",
        "metadata": metadata,
        "spec": spec,
    }


def _read(spec: object) -> AutoscalerResource:
    resource = parse_resource(_object(spec))
    assert isinstance(resource, AutoscalerResource), resource
    return resource


def _problems(spec: object) -> list[str]:
    resource = parse_resource(_object(spec))
    assert isinstance(resource, RefusedResource)
    return [str(problem) for problem in resource.problems]


def test_the_smallest() -> None:
    resource = _read(SMALLEST)
    assert (resource.namespace, resource.name, resource.uid, resource.generation) == ("llm", "chat", "4f1c", 7)
    assert resource.created_s == 1796040000.0
    assert resource.labels == (("app", "chat"), ("team", "b"))
    assert resource.service.id == "llm/chat"
    assert resource.mode is Mode.ADVISE
    assert resource.metrics == MetricsEndpoint(port=None, path="/metrics", scheme=Scheme.HTTP)
    assert [variant.name for variant in resource.service.variants] == ["default"]
    assert resource.target("default") == TargetRef(api_version="apps/v1", kind="Deployment", name="chat")


def test_without_a_gateway_there_is_none() -> None:
    assert (_read(SMALLEST).gateway, _read(SMALLEST).requests) == (None, ServedRequests())


def test_an_empty_gateway_is_the_charts() -> None:
    gateway = _read({**SMALLEST, "gateway": {}}).gateway
    assert gateway == GatewayRef(labels=GATEWAY_LABELS, namespace=None, port="metrics")


def test_the_gateway_and_how_it_treats_requests() -> None:
    resource = _read(
        {
            **SMALLEST,
            "gateway": {"selector": {"matchLabels": {"b": "2", "a.io/x": ""}}, "namespace": "edge", "port": 9100},
            "models": ["llama", "org/llama"],
            "requests": {"maxWaiting": 5, "maxWait": "2m", "timeout": "1h", "port": "serve", "scheme": "https"},
        }
    )
    assert resource.gateway == GatewayRef(labels=(("a.io/x", ""), ("b", "2")), namespace="edge", port=9100)
    assert resource.requests == ServedRequests(
        models=("llama", "org/llama"),
        port="serve",
        scheme=Scheme.HTTPS,
        max_waiting=5,
        max_wait_s=120.0,
        timeout_s=3600.0,
    )


def test_a_gateway_of_others_is_read_at_its_own_place() -> None:
    gateway = {
        "type": "Envoy",
        "selector": {"matchLabels": {"app": "edge"}},
        "port": 15020,
        "path": "/stats/prometheus",
        "matchLabels": {"envoy_cluster_name": "outbound|8000||chat.llm.svc.cluster.local"},
    }
    assert _read({**SMALLEST, "gateway": gateway}).gateway == GatewayRef(
        kind=GatewayKind.ENVOY,
        labels=(("app", "edge"),),
        port=15020,
        path="/stats/prometheus",
        match=(("envoy_cluster_name", "outbound|8000||chat.llm.svc.cluster.local"),),
    )


def test_a_gateway_by_itself_treats_requests_as_one_on_a_machine_does() -> None:
    local = RoutePolicy(service=ServiceId("chat"), models=(), slo=Slo(e2e_s=1.0))
    served = ServedRequests()
    assert (served.max_waiting, served.max_wait_s, served.timeout_s) == (
        local.max_waiting,
        local.max_wait_s,
        local.request_timeout_s,
    )


SHARED = """
    engine: vllm
    slo: {ttft: 2s, itl: 50ms, share: 0.95}
    startup: 90s
    startDeadline: 20m
    minReplicas: 0
    maxReplicas: 7
    spare: 1
    priority: 5
    behavior: {scaleDown: {stabilizationWindowSeconds: 30, policies: [{type: Pods, value: 2, periodSeconds: 60}]}}
    idle: {after: 15m, minUptimeFactor: 3}
    cost: 2.5
    stepTime: {profile: h100_sxm/Meta-Llama-3.1-8B/tp1}
    maxNumSeqs: 64
    kvTokens: 100000
"""


def test_the_keys_mean_what_they_mean_in_the_file(read: Callable[[str], Settings]) -> None:
    variants = "    variants: [{name: whole}, {name: slice, cost: 0.5, stepTime: {c: 1ms, d: 0s, e: 0s, a: 0s}}]\n"
    settings = read(f"services:\n  - name: chat\n    command: x {{port}}\n    devices: {{count: 0}}{SHARED}{variants}")
    spec = yaml.safe_load(SHARED + variants)
    for each in spec["variants"]:
        each["targetRef"] = {**DEPLOYMENT, "name": each["name"]}
    resource = _read(spec)
    (service,) = settings.services
    assert resource.service.variants == service.variants
    for field in ("slo", "engine", "bounds", "behavior", "idle", "priority", "startup_s", "start_deadline_s"):
        assert getattr(resource.service, field) == getattr(service, field), field
    assert resource.target("slice").name == "slice"


def test_where_the_replicas_are() -> None:
    resource = _read(
        {
            "slo": {"queue": "100ms"},
            "mode": "Scale",
            "targetRef": {"apiVersion": "ray.io/v1", "kind": "RayService", "name": "llm", "workerGroup": "gpu"},
            "metrics": {"port": "metrics", "path": "/stats", "scheme": "https"},
            "unschedulableDeadline": "90s",
        }
    )
    assert resource.mode is Mode.SCALE
    assert resource.target("default").worker_group == "gpu"
    assert resource.metrics == MetricsEndpoint(port="metrics", path="/stats", scheme=Scheme.HTTPS)
    assert resource.service.unschedulable_deadline_s == 90.0


def _variant(variant: str, **target: str) -> dict[str, object]:
    return {"name": variant, "targetRef": {**DEPLOYMENT, **target}}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        pytest.param({"slo": {}}, "spec.slo: needs at least one threshold: ttft, itl, queue or e2e", id="no slo"),
        pytest.param(
            {"slo": {"ttft": "2x"}},
            'spec.slo.ttft: must be a duration of more than 0s and at most 1d, such as "500ms", "1m30s" or 0.5 '
            '(seconds); got "2x"',
            id="no duration",
        ),
        pytest.param({"slo": {"ttft": "2s", "itll": "1s"}}, "spec.slo.itll: unknown key; did you mean itl?", id="key"),
        pytest.param({"after": "1m"}, "spec.after: unknown key here; it belongs to spec.idle", id="misplaced"),
        pytest.param(
            {"mode": "scale"},
            'spec.mode: must be one of Advise, Scale; got "scale"; did you mean Scale?',
            id="mode",
        ),
        pytest.param(
            {"minReplicas": 11},
            "spec.minReplicas: must be at most maxReplicas 10 (its default; give maxReplicas too); got 11",
            id="bounds",
        ),
        pytest.param(
            {"startup": "11m"},
            "spec.startup: every start would fail: startDeadline 10m is shorter than startup 11m",
            id="deadline",
        ),
        pytest.param(
            {"stepTime": {"c": "1ms"}},
            "spec.stepTime: needs a profile, or all of c, d, e, a; missing: d, e, a",
            id="half a step time",
        ),
        pytest.param(
            {"targetRef": None},
            "spec: give either targetRef (one kind of replica) or variants (several), one of the two",
            id="no target",
        ),
        pytest.param(
            {"variants": [_variant("a", name="a")]},
            "spec: give either targetRef (one kind of replica) or variants (several), one of the two",
            id="both forms",
        ),
        pytest.param(
            {"targetRef": None, "variants": [_variant("a"), _variant("a", name="other")]},
            "spec.variants[1].name: a is the name of another variant above",
            id="a variant twice",
        ),
        pytest.param(
            {"targetRef": None, "variants": [_variant("a"), _variant("b", apiVersion="apps/v1beta2")]},
            "spec.variants[1].targetRef: Deployment chat is the target of variants[0] too; each needs an object of its "
            "own",
            id="a target twice",
        ),
        pytest.param(
            {"targetRef": {**DEPLOYMENT, "kind": "HorizontalPodAutoscaler"}},
            "spec.targetRef.kind: HorizontalPodAutoscaler runs no replicas that could be counted; name the Deployment "
            "(or other object) that does",
            id="no replicas",
        ),
        pytest.param(
            {"targetRef": {**DEPLOYMENT, "kind": "RayCluster"}},
            "spec.targetRef: of a RayService or RayCluster one worker group is scaled: workerGroup has to name it",
            id="no worker group",
        ),
        pytest.param(
            {"targetRef": {**DEPLOYMENT, "workerGroup": "gpu"}},
            "spec.targetRef.workerGroup: only a RayService or RayCluster has worker groups; leave workerGroup out",
            id="a worker group of nothing",
        ),
        pytest.param(
            {"metrics": {"port": 70000}},
            "spec.metrics.port: must be a port from 1 to 65535, or the name of a container port; got 70000",
            id="port",
        ),
        pytest.param(
            {"gateway": {"selector": {"matchLabels": {}}}},
            "spec.gateway.selector.matchLabels: must be a mapping of labels to their values",
            id="any pod as the gateway",
        ),
        pytest.param(
            {"gateway": {"type": "LiteLLM"}},
            "spec.gateway: of another's gateway the pods have to be named: selector is missing",
            id="a gateway of others without its pods",
        ),
        pytest.param(
            {"gateway": {"matchLabels": {"model_name": "chat"}}},
            "spec.gateway.matchLabels: are for the gateways of others; ours tells its services apart by itself",
            id="labels on the page of our own gateway",
        ),
        pytest.param(
            {"gateway": {"selector": {"matchLabels": {"a": "b c"}}}},
            "spec.gateway.selector.matchLabels.a: ",
            id="no label's value",
        ),
        pytest.param(
            {"models": [""]}, "spec.models[0]: must be text of 1 to 256 characters", id="a model without a name"
        ),
        pytest.param(
            {"stepTime": {"profile": "h900/x/tp1"}},
            "spec.stepTime.profile: no step-time profile for GPU 'h900'",
            id="profile",
        ),
    ],
)
def test_one_mistake(changes: Mapping[str, object], problem: str) -> None:
    spec = {key: value for key, value in {**SMALLEST, **changes}.items() if value is not None}
    (told,) = _problems(spec)
    assert told.startswith(problem)


def test_all_mistakes_are_told_at_once() -> None:
    told = _problems({"slo": {"ttft": 0}, "mode": 3, "minReplicas": 11, "targetRef": {**DEPLOYMENT, "kind": "Pod"}})
    assert {line.split(": ")[0] for line in told} == {
        "spec.slo.ttft",
        "spec.mode",
        "spec.minReplicas",
        "spec.targetRef.kind",
    }


@pytest.mark.parametrize(("length", "problems"), [(63, []), (64, ["metadata.name"])])
def test_a_name_fits_into_a_label(length: int, problems: list[str]) -> None:
    given = _object(SMALLEST)
    resource = parse_resource({**given, "metadata": {"namespace": "llm", "name": "a" * length}})
    told = [problem.path for problem in resource.problems] if isinstance(resource, RefusedResource) else []
    assert told == problems


@pytest.mark.parametrize("spec", [None, 5, [], "x"], ids=repr)
def test_without_a_spec(spec: object) -> None:
    assert _problems(spec) == ["spec: is missing: what is asked of the autoscaler"]


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_KEYS = (
    *("slo", "mode", "targetRef", "variants", "metrics", "stepTime", "behavior", "idle", "startup", "minReplicas"),
    *("gateway", "models", "requests"),
)


@given(changed=st.dictionaries(st.sampled_from(_KEYS), _json, max_size=3), metadata=_json)
def test_whatever_it_says_it_is_read_or_refused(changed: Mapping[str, object], metadata: object) -> None:
    resource = parse_resource({"metadata": metadata, "spec": {**SMALLEST, **changed}})
    assert isinstance(resource, AutoscalerResource) or resource.problems
    if isinstance(resource, RefusedResource):
        assert all(problem.path.startswith(("spec", "metadata.name")) for problem in resource.problems)


def test_examples_can_be_used() -> None:
    examples = sorted(Path("examples/kubernetes").glob("inferenceautoscaler*.yaml"))
    assert examples
    for path in examples:
        for each in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            _read(each["spec"])
