"""Which pods count as the gateway of a service, and where requests to a service may go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from adapters.kubernetes.gateways import GatewayPods
from adapters.kubernetes.serving_pods import Serving, ServingPods
from autoscaler.domain.gateway import GatewayKind, GatewayPage
from autoscaler.domain.reading import Unknown, UnknownReason
from autoscaler.domain.resource import (
    GATEWAY_LABELS,
    AutoscalerResource,
    GatewayRef,
    Mode,
    Scheme,
    ServedRequests,
    TargetRef,
    VariantSource,
)
from autoscaler.domain.service import Service, ServiceId, Slo, Variant
from autoscaler.ports import UnavailableError
from benchmarks.stored_cluster import StoredCluster, deployment, pod, ready_status, written

NOW_S = 1_790_000_000.0
CHARTS = GatewayRef()
PORTS = [{"name": "http", "containerPort": 8080}, {"name": "metrics", "containerPort": 8081}]


def resource(
    name: str, *targets: str, gateway: GatewayRef | None = None, requests: ServedRequests | None = None
) -> AutoscalerResource:
    """For the Deployments of these names, or of its own."""
    names = targets or (name,)
    return AutoscalerResource(
        namespace="models",
        name=name,
        uid=f"uid-{name}",
        generation=1,
        created_s=NOW_S,
        labels=(),
        mode=Mode.SCALE,
        service=Service(
            id=ServiceId(f"models/{name}"),
            slo=Slo(ttft_s=2.0),
            variants=tuple(Variant(name=each) for each in names),
        ),
        sources=tuple(
            VariantSource(variant=each, target=TargetRef(api_version="apps/v1", kind="Deployment", name=each))
            for each in names
        ),
        gateway=gateway,
        requests=requests or ServedRequests(),
    )


def status(**changes: object) -> dict[str, object]:
    return {**ready_status(NOW_S - 1000), **changes}


def not_ready() -> dict[str, object]:
    """A readiness probe that fails, after it had not."""
    condition = {"type": "Ready", "status": "False", "lastTransitionTime": written(NOW_S - 5)}
    return status(conditions=[condition])


def starting() -> dict[str, object]:
    waiting = {"name": "engine", "ready": False, "restartCount": 0, "state": {"waiting": {"reason": "PodInitializing"}}}
    return {"phase": "Pending", "podIP": "10.1.0.9", "conditions": [], "containerStatuses": [waiting]}


def going(at_s: float) -> dict[str, object]:
    return {"deletionTimestamp": written(at_s)}


def gateway_pod(
    name: str = "gw-0",
    *,
    namespace: str = "system",
    labels: Mapping[str, str] = dict(GATEWAY_LABELS),
    ports: Sequence[Mapping[str, object]] = PORTS,
    state: Mapping[str, object] | None = None,
    metadata: Mapping[str, object] | None = None,
) -> dict[str, object]:
    return pod(
        name,
        namespace=namespace,
        labels=labels,
        node="n",
        created_s=NOW_S - 1000,
        status=state,
        spec={"containers": [{"name": "gateway", "image": "gw", "ports": list(ports)}]},
        metadata=metadata,
    )


def pages(
    *pods: Mapping[str, object], gateway: GatewayRef = CHARTS, own: str | None = "system"
) -> tuple[GatewayPage, ...] | Unknown:
    cluster = StoredCluster(now_s=NOW_S)
    cluster.put(*pods)
    asked = [resource("chat", gateway=gateway), resource("other")]
    found = GatewayPods(resources=lambda: asked, pods=cluster.pods, namespace=own, now_s=lambda: NOW_S).pages()
    assert set(found) == {"models/chat"}
    return found[ServiceId("models/chat")]


PAGE = GatewayPage(name="system/gw-0", url="http://10.1.0.7:8081/metrics")


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        pytest.param(gateway_pod(), (PAGE,), id="ready"),
        pytest.param(gateway_pod(state=not_ready()), (PAGE,), id="not ready any more, it still counts"),
        pytest.param(gateway_pod(metadata=going(NOW_S + 30)), (PAGE,), id="ending, it still counts"),
        pytest.param(gateway_pod(metadata=going(NOW_S - 1)), (), id="should be gone: its node is"),
        pytest.param(gateway_pod(state=starting()), (), id="starting, it has taken nothing"),
        pytest.param(gateway_pod(state=status(phase="Succeeded")), (), id="ended"),
        pytest.param(gateway_pod(namespace="elsewhere"), (), id="in another namespace"),
        pytest.param(gateway_pod(labels={"app": "gw"}), (), id="with other labels"),
    ],
)
def test_which_pods_count(made: Mapping[str, object], expected: tuple[GatewayPage, ...]) -> None:
    assert pages(made) == expected


def test_labels_namespace_and_port_can_be_said() -> None:
    told = GatewayRef(labels=(("app", "edge"),), namespace="edge", port=9000)
    made = [gateway_pod(name, namespace="edge", labels={"app": "edge", "x": "y"}) for name in ("b", "a")]
    assert pages(*made, gateway=told) == (
        GatewayPage(name="edge/a", url="http://10.1.0.7:9000/metrics"),
        GatewayPage(name="edge/b", url="http://10.1.0.7:9000/metrics"),
    )


def test_a_gateway_of_others_is_read_where_it_tells() -> None:
    match = (("model_name", "chat-v1"),)
    told = GatewayRef(kind=GatewayKind.ENDPOINT_PICKER, labels=(("app", "epp"),), port=9090, path="/stats", match=match)
    assert pages(gateway_pod("epp-0", labels={"app": "epp"}), gateway=told) == (
        GatewayPage(
            name="system/epp-0", url="http://10.1.0.7:9090/stats", kind=GatewayKind.ENDPOINT_PICKER, match=match
        ),
    )


def test_one_without_the_port_is_not_left_out_in_silence() -> None:
    found = pages(gateway_pod(), gateway_pod("gw-1", ports=[{"name": "http", "containerPort": 8080}]))
    assert isinstance(found, Unknown)
    assert found.reason is UnknownReason.UNREACHABLE
    assert found.detail.startswith("gateway system/gw-1: its containers have no port named metrics")


def test_a_namespace_that_nobody_knows_is_asked_for() -> None:
    found = pages(gateway_pod(), own=None)
    assert isinstance(found, Unknown)
    assert "spec.gateway.namespace" in found.detail


def test_an_outage_makes_known_services_unknown_and_raises_nothing() -> None:
    cluster = StoredCluster(now_s=NOW_S)
    down = False

    def resources() -> list[AutoscalerResource]:
        if down:
            raise UnavailableError("no answer")
        return [resource("chat", gateway=GatewayRef())]

    pods = GatewayPods(resources=resources, pods=cluster.pods, namespace="system", now_s=lambda: NOW_S)
    assert pods.pages() == {"models/chat": ()}
    down = True
    assert pods.pages() == {"models/chat": Unknown(UnknownReason.UNREACHABLE, "no answer")}


def engine(name: str, app: str = "chat", **more: object) -> dict[str, object]:
    source = pod(name, labels={"app": app}, node="n", created_s=NOW_S - 1000)
    return {**source, **more}


def serving(*objects: Mapping[str, object], resources: Sequence[AutoscalerResource] = (resource("chat"),)) -> Serving:
    cluster = StoredCluster(now_s=NOW_S)
    cluster.put(*objects)
    return ServingPods(targets=cluster, pods=cluster.pods).of(resources)


def told(found: Serving) -> list[tuple[str, str, bool]]:
    return [(each.name, each.url, each.accepting) for each in found.pods]


def test_a_pod_takes_requests_while_it_is_ready_and_not_being_deleted() -> None:
    ending = engine("chat-c")
    metadata = ending["metadata"]
    assert isinstance(metadata, dict)
    found = serving(
        deployment("chat", 3),
        engine("chat-a"),
        engine("chat-b", status=not_ready()),
        {**ending, "metadata": {**metadata, **going(NOW_S + 30)}},
        engine("chat-d", status=starting()),
        engine("chat-e", status={"phase": "Pending"}),
        engine("foreign", app="other"),
    )
    assert told(found) == [
        ("models/chat-a", "http://10.1.0.7:8000", True),
        ("models/chat-b", "http://10.1.0.7:8000", False),
        ("models/chat-c", "http://10.1.0.7:8000", False),
    ]
    assert found.problems == {}


PORT_CASES = [
    pytest.param(ServedRequests(), [("http", 8000), ("metrics", 9000)], "http://10.1.0.7:8000", id="called http"),
    pytest.param(ServedRequests(), [("", 8000)], "http://10.1.0.7:8000", id="the only one"),
    pytest.param(ServedRequests(port="serve"), [("http", 1), ("serve", 2)], "http://10.1.0.7:2", id="by its name"),
    pytest.param(ServedRequests(port=77, scheme=Scheme.HTTPS), [], "https://10.1.0.7:77", id="by its number"),
]


@pytest.mark.parametrize(("requests", "ports", "url"), PORT_CASES)
def test_the_port_that_takes_requests(requests: ServedRequests, ports: list[tuple[str, int]], url: str) -> None:
    listed = [{"name": name, "containerPort": number} if name else {"containerPort": number} for name, number in ports]
    made = engine("chat-a")
    spec = made["spec"]
    assert isinstance(spec, dict)
    spec = {**spec, "containers": [{"name": "engine", "image": "x", "ports": listed}]}
    found = serving(
        deployment("chat", 1), {**made, "spec": spec}, resources=[replace(resource("chat"), requests=requests)]
    )
    assert told(found) == [("models/chat-a", url, True)]


def test_a_port_that_is_not_said_is_asked_for_and_costs_no_other_pod() -> None:
    vague = engine("chat-b")
    spec = vague["spec"]
    assert isinstance(spec, dict)
    ports = [{"name": "a", "containerPort": 1}, {"name": "b", "containerPort": 2}]
    vague = {**vague, "spec": {**spec, "containers": [{"name": "engine", "image": "x", "ports": ports}]}}
    found = serving(deployment("chat", 2), engine("chat-a"), vague)
    assert [each.name for each in found.pods] == ["models/chat-a"]
    (problem,) = found.problems[ServiceId("models/chat")]
    assert problem.endswith("(it has: a 1, b 2); set spec.requests.port")


def test_a_missing_target_costs_no_other_its_requests() -> None:
    found = serving(deployment("full", 1), engine("full-a", app="full"), resources=[resource("chat", "full", "gone")])
    assert [each.name for each in found.pods] == ["models/full-a"]
    (problem,) = found.problems[ServiceId("models/chat")]
    assert problem.startswith("Deployment gone: ")
