"""Pods as the API server gives them: what they take, where they are in their life, which phase of a replica that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from adapters.kubernetes.contents import Contents
from adapters.kubernetes.nodes import Heard, NodeView
from adapters.kubernetes.pod_life import Life
from adapters.kubernetes.pods import Owner, PodView, pod_view
from adapters.kubernetes.raw_json import ShapeError
from adapters.kubernetes.replicas import FLAP_S, ReplicaKind, ReplicaViews, metrics_url, single
from autoscaler.domain.cluster import Phase, Replica
from autoscaler.domain.resource import MetricsEndpoint, Scheme
from autoscaler.domain.service import ServiceId
from benchmarks.stored_cluster import pod, ready_status, written

CREATED_S = 1_790_000_000.0
GPU = "nvidia.com/gpu"
KIND = ReplicaKind(service=ServiceId("models/llm"), variant="full", target="llm", endpoint=MetricsEndpoint())

Json = dict[str, object]


def condition(kind: str, status: str, *, after_s: float = 0.0, **more: str) -> Json:
    return {"type": kind, "status": status, "lastTransitionTime": written(CREATED_S + after_s), **more}


def container(
    state: Mapping[str, object], *, ready: bool = False, restarts: int = 0, last: Mapping[str, object] | None = None
) -> Json:
    return {"name": "engine", "ready": ready, "restartCount": restarts, "state": state, "lastState": last or {}}


def running(after_s: float) -> Json:
    return {"running": {"startedAt": written(CREATED_S + after_s)}}


def waiting(reason: str, message: str = "") -> Json:
    return {"waiting": {"reason": reason, "message": message}}


def ended(code: int, reason: str = "Error") -> Json:
    return {"terminated": {"exitCode": code, "reason": reason, "startedAt": written(CREATED_S)}}


def status(
    *,
    phase: str = "Pending",
    conditions: Sequence[Json] = (),
    containers: Sequence[Json] = (),
    inits: Sequence[Json] = (),
    **more: str,
) -> Json:
    return {
        "phase": phase,
        "conditions": list(conditions),
        "containerStatuses": list(containers),
        "initContainerStatuses": list(inits),
        **more,
    }


SCHEDULED = condition("PodScheduled", "True")
NOT_READY = condition("Ready", "False", after_s=1, reason="ContainersNotReady")
NO_NODE = condition(
    "PodScheduled",
    "False",
    after_s=3,
    reason="Unschedulable",
    message="0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
)
GATED = condition("PodScheduled", "False", reason="SchedulingGated")

LIVES = [
    pytest.param(
        "",
        {"phase": "Pending"},
        Life.UNSCHEDULED,
        Phase.STARTING,
        "waiting for the scheduler",
        id="just created",
    ),
    pytest.param(
        "",
        status(conditions=[NO_NODE]),
        Life.UNSCHEDULED,
        Phase.STARTING,
        "waiting for a node: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
        id="no node takes it",
    ),
    pytest.param(
        "",
        status(conditions=[NO_NODE], nominatedNodeName="node-a"),
        Life.UNSCHEDULED,
        Phase.STARTING,
        "waiting for pods of lower priority to leave node node-a",
        id="preempting",
    ),
    pytest.param(
        "node-a",
        status(conditions=[SCHEDULED]),
        Life.STARTING,
        Phase.STARTING,
        "waiting for its node's kubelet",
        id="scheduled",
    ),
    pytest.param(
        "node-a",
        status(conditions=[SCHEDULED, NOT_READY], containers=[container(waiting("ContainerCreating"))]),
        Life.STARTING,
        Phase.STARTING,
        "pulling the image, or preparing its volumes",
        id="volumes",
    ),
    pytest.param(
        "node-a",
        status(
            conditions=[SCHEDULED, NOT_READY, condition("PodReadyToStartContainers", "True", after_s=4)],
            containers=[container(waiting("ContainerCreating"))],
        ),
        Life.STARTING,
        Phase.STARTING,
        "pulling the image",
        id="pulling",
    ),
    pytest.param(
        "node-a",
        status(
            conditions=[SCHEDULED, NOT_READY],
            inits=[{**container(running(4)), "name": "fetch"}],
            containers=[container(waiting("PodInitializing"))],
        ),
        Life.STARTING,
        Phase.STARTING,
        "init container fetch runs",
        id="init container",
    ),
    pytest.param(
        "node-a",
        status(phase="Running", conditions=[SCHEDULED, NOT_READY], containers=[container(running(9))]),
        Life.STARTING,
        Phase.STARTING,
        "loading",
        id="loading",
    ),
    pytest.param(
        "node-a",
        status(
            phase="Running",
            conditions=[SCHEDULED, NOT_READY, condition("ContainersReady", "True", after_s=20)],
            containers=[container(running(9), ready=True)],
        ),
        Life.STARTING,
        Phase.STARTING,
        "its containers are ready; a readiness gate is not",
        id="readiness gate",
    ),
    pytest.param(
        "node-a",
        status(
            phase="Running",
            conditions=[SCHEDULED, condition("Ready", "False", after_s=100)],
            containers=[container(running(200), restarts=1, last=ended(137, "OOMKilled"))],
        ),
        Life.STARTING,
        Phase.STARTING,
        "loading, started again: engine exited with code 137 (OOMKilled)",
        id="started again",
    ),
    pytest.param("node-a", ready_status(CREATED_S), Life.READY, Phase.READY, "", id="ready"),
    pytest.param(
        "node-a",
        status(
            phase="Running",
            conditions=[SCHEDULED, NOT_READY],
            containers=[container(waiting("CrashLoopBackOff"), restarts=4, last=ended(1))],
        ),
        Life.FAILED,
        Phase.FAILED,
        "container engine: CrashLoopBackOff, engine exited with code 1",
        id="crash looping",
    ),
    pytest.param(
        "node-a",
        status(
            phase="Running", conditions=[SCHEDULED, NOT_READY], containers=[container(ended(139, "Error"), restarts=1)]
        ),
        Life.FAILED,
        Phase.FAILED,
        "container engine exited with code 139",
        id="between two starts",
    ),
    pytest.param(
        "node-a",
        status(
            conditions=[SCHEDULED, NOT_READY],
            containers=[container(waiting("ImagePullBackOff", 'Back-off pulling image "vllm:none"'))],
        ),
        Life.FAILED,
        Phase.FAILED,
        'container engine: ImagePullBackOff, Back-off pulling image "vllm:none"',
        id="image pull back-off",
    ),
    pytest.param(
        "node-a",
        status(
            conditions=[SCHEDULED, NOT_READY],
            inits=[{**container(waiting("CrashLoopBackOff"), last=ended(2)), "name": "fetch"}],
            containers=[container(waiting("PodInitializing"))],
        ),
        Life.FAILED,
        Phase.FAILED,
        "init container fetch: CrashLoopBackOff, fetch exited with code 2",
        id="init crash",
    ),
    pytest.param(
        "node-a",
        status(
            conditions=[SCHEDULED, NOT_READY],
            inits=[{**container(ended(0, "Completed"), ready=True), "name": "fetch"}],
            containers=[container(waiting("ContainerCreating"))],
        ),
        Life.STARTING,
        Phase.STARTING,
        "pulling the image, or preparing its volumes",
        id="init container done",
    ),
]


def view(
    node: str,
    given: Mapping[str, object],
    *,
    spec: Mapping[str, object] | None = None,
    metadata: Mapping[str, object] | None = None,
    name: str = "llm-0",
) -> PodView:
    return pod_view(
        pod(name, node=node, devices={GPU: 1}, created_s=CREATED_S, status=given, spec=spec, metadata=metadata)
    )


def replica(pod: PodView, *, heard: Heard = Heard.READY, now_s: float = CREATED_S + 1000) -> Replica:
    return single(KIND, pod, NodeView(name=pod.node, heard=heard) if pod.node else None, now_s=now_s)


@pytest.mark.parametrize(("node", "given", "life", "phase", "detail"), LIVES)
def test_life_and_phase(node: str, given: Json, life: Life, phase: Phase, detail: str) -> None:
    pod = view(node, given)
    assert (pod.life, pod.lived.detail) == (life, detail)
    assert (replica(pod).phase, replica(pod).detail) == (phase, detail)


def test_a_pod_that_the_scheduler_tried_tells_since_when() -> None:
    waiting_one = view("", status(conditions=[NO_NODE]))
    assert replica(waiting_one).unschedulable_since_s == CREATED_S + 3
    for given in ({"phase": "Pending"}, status(conditions=[NO_NODE], nominatedNodeName="node-a")):
        assert replica(view("", given)).unschedulable_since_s is None


def test_a_gated_pod_is_not_unschedulable() -> None:
    pod = view("", status(conditions=[GATED]), spec={"schedulingGates": [{"name": "example.com/quota"}]})
    assert replica(pod).unschedulable_since_s is None
    assert replica(pod).detail == "held back by the scheduling gates example.com/quota"


@pytest.mark.parametrize(
    ("given", "spec", "life"),
    [
        pytest.param({"phase": "Succeeded"}, {}, Life.GONE, id="succeeded"),
        pytest.param({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}, {}, Life.GONE, id="evicted"),
        pytest.param(
            {"phase": "Failed", "reason": "UnexpectedAdmissionError"}, {}, Life.GONE, id="refused by its node"
        ),
        pytest.param({"phase": "Failed"}, {"restartPolicy": "Never"}, Life.FAILED, id="failed and not started again"),
        pytest.param(
            {"phase": "Failed", "conditions": [condition("DisruptionTarget", "True")]},
            {"restartPolicy": "Never"},
            Life.GONE,
            id="disrupted",
        ),
    ],
)
def test_ended_pods(given: Json, spec: Json, life: Life) -> None:
    pod = view("node-a", given, spec=spec)
    assert pod.life is life
    found = ReplicaViews().of(KIND, [pod], {}, now_s=CREATED_S)
    assert [each.phase for each, _ in found] == ([Phase.FAILED] if life is Life.FAILED else [])


def test_a_pod_being_deleted_drains_whatever_else_it_does() -> None:
    going = {"deletionTimestamp": written(CREATED_S + 90)}
    for given in (ready_status(CREATED_S), status(conditions=[NO_NODE])):
        pod = view("node-a", given, metadata=going)
        assert (replica(pod).phase, pod.deleting_s) == (Phase.DRAINING, CREATED_S + 90)


def unready(after_s: float) -> PodView:
    """Ready once, and not since."""
    return view(
        "node-a",
        status(
            phase="Running",
            conditions=[SCHEDULED, condition("Ready", "False", after_s=after_s, reason="ContainersNotReady")],
            containers=[container(running(10))],
            podIP="10.1.0.7",
        ),
    )


def test_a_replica_that_is_briefly_not_ready_is_still_read() -> None:
    found = replica(unready(500), now_s=CREATED_S + 500 + FLAP_S - 1)
    assert (found.phase, found.metrics_url) == (Phase.READY, "http://10.1.0.7:8000/metrics")
    assert (found.detail, found.failing_probe) == ("no longer ready: ContainersNotReady",) * 2


def test_a_replica_that_is_not_ready_for_long_has_failed() -> None:
    assert replica(unready(500), now_s=CREATED_S + 500 + FLAP_S).phase is Phase.FAILED


def test_a_silent_node_says_nothing_about_its_pods() -> None:
    """The control plane calls the pods of a silent node unready; nobody knows whether they are."""
    found = replica(unready(500), heard=Heard.SILENT, now_s=CREATED_S + 5000)
    assert (found.phase, found.nodes) == (Phase.READY, ("node-a",))
    assert (found.detail, found.failing_probe) == ("node node-a is not heard of any more", None)
    loading = view(
        "node-a", status(phase="Running", conditions=[SCHEDULED, NOT_READY], containers=[container(running(9))])
    )
    assert replica(loading, heard=Heard.SILENT).phase is Phase.STARTING


def test_an_unready_pod_is_looked_at_anew_each_time() -> None:
    views, pods = ReplicaViews(), [unready(500), view("node-b", ready_status(CREATED_S), name="llm-1")]
    phases = []
    for now_s in (CREATED_S + 510, CREATED_S + 500 + FLAP_S):
        views.begin()
        phases.append({each.name: each.phase for each, _ in views.of(KIND, pods, {}, now_s=now_s)})
    assert [each["models/llm-0"] for each in phases] == [Phase.READY, Phase.FAILED]
    assert [each["models/llm-1"] for each in phases] == [Phase.READY, Phase.READY]


def test_where_none_is_ready_any_more_their_pages_are_still_read() -> None:
    """An overloaded fleet fails its readiness probes all together; its queues are what asks for more replicas."""
    pods = [unready(500), view("node-b", {"phase": "Pending"}, name="llm-1")]
    found = ReplicaViews().of(KIND, pods, {}, now_s=CREATED_S + 5000)
    assert [each.phase for each, _ in found] == [Phase.READY, Phase.STARTING]


def test_times_of_a_start() -> None:
    first = replica(view("node-a", ready_status(CREATED_S)))
    assert (first.created_s, first.ready_s, first.restarts) == (CREATED_S, CREATED_S + 60, 0)
    again = status(
        phase="Running",
        conditions=[condition("Ready", "True", after_s=900)],
        containers=[container(running(800), ready=True, restarts=2)],
    )
    second = replica(view("node-a", again))
    assert (second.created_s, second.ready_s, second.restarts) == (CREATED_S + 800, CREATED_S + 900, 2)


@pytest.mark.parametrize(
    ("spec", "devices"),
    [
        pytest.param({"containers": [{"name": "a", "resources": {"limits": {GPU: "2"}}}]}, {GPU: 2}, id="limit alone"),
        pytest.param(
            {
                "containers": [
                    {"name": "a", "resources": {"requests": {GPU: "1", "cpu": "4"}, "limits": {GPU: "1"}}},
                    {"name": "b", "resources": {"limits": {GPU: "1", "rdma/hca": "1"}}},
                ]
            },
            {GPU: 2, "rdma/hca": 1},
            id="containers add up",
        ),
        pytest.param(
            {
                "containers": [{"name": "a", "resources": {"limits": {GPU: "1"}}}],
                "initContainers": [{"name": "warm", "resources": {"limits": {GPU: "4"}}}],
            },
            {GPU: 4},
            id="init container takes more",
        ),
        pytest.param(
            {
                "containers": [{"name": "a", "resources": {"limits": {GPU: "1"}}}],
                "initContainers": [
                    {"name": "side", "restartPolicy": "Always", "resources": {"limits": {GPU: "1"}}},
                    {"name": "warm", "resources": {"limits": {GPU: "2"}}},
                ],
            },
            {GPU: 3},
            id="init container beside a sidecar",
        ),
        pytest.param(
            {"containers": [{"name": "a", "resources": {"limits": {"nvidia.com/mig-1g.10gb": "1"}}}]},
            {"nvidia.com/mig-1g.10gb": 1},
            id="slice",
        ),
        pytest.param(
            {"containers": [{"name": "a", "resources": {"limits": {"cpu": "1", "x.kubernetes.io/y": "1"}}}]},
            {},
            id="no extended resource",
        ),
    ],
)
def test_devices_by_the_schedulers_rule(spec: Json, devices: dict[str, int]) -> None:
    assert pod_view(pod("llm-0", spec=spec)).devices == devices


@pytest.mark.parametrize(
    ("ports", "annotation", "endpoint", "url"),
    [
        pytest.param([("http", 8000)], None, MetricsEndpoint(), "http://10.1.0.7:8000/metrics", id="the only one"),
        pytest.param(
            [("http", 8000), ("grpc", 9000)],
            None,
            MetricsEndpoint(port="grpc", path="/m", scheme=Scheme.HTTPS),
            "https://10.1.0.7:9000/m",
            id="by name",
        ),
        pytest.param(
            [("grpc", 9000)], None, MetricsEndpoint(port=8002), "http://10.1.0.7:8002/metrics", id="by number"
        ),
        pytest.param(
            [("grpc", 9000), ("x", 1)], "8002", MetricsEndpoint(), "http://10.1.0.7:8002/metrics", id="by annotation"
        ),
        pytest.param(
            [("http", 8000), ("metrics", 8002)], None, MetricsEndpoint(), "http://10.1.0.7:8002/metrics", id="named so"
        ),
        pytest.param([("a", 1), ("b", 2)], None, MetricsEndpoint(), None, id="nothing tells"),
        pytest.param([("a", 1), ("b", 2)], "http", MetricsEndpoint(), None, id="an annotation that is no port"),
        pytest.param([("http", 8000)], None, MetricsEndpoint(port="metrics"), None, id="no port of that name"),
    ],
)
def test_where_the_metrics_page_is(
    ports: list[tuple[str, int]], annotation: str | None, endpoint: MetricsEndpoint, url: str | None
) -> None:
    listed = [{"name": name, "containerPort": number} for name, number in ports]
    annotations = {} if annotation is None else {"annotations": {"prometheus.io/port": annotation}}
    found = view(
        "node-a",
        ready_status(CREATED_S),
        spec={"containers": [{"name": "engine", "ports": listed}]},
        metadata=annotations,
    )
    assert metrics_url(found, endpoint) == url
    kind = ReplicaKind(service=ServiceId("models/llm"), variant="full", target="llm", endpoint=endpoint)
    seen = single(kind, found, None, now_s=CREATED_S)
    assert seen.phase is Phase.READY
    assert bool(seen.detail) == (url is None)


def test_an_address_of_version_6_is_bracketed() -> None:
    found = view("node-a", {**ready_status(CREATED_S), "podIP": "fd00::7"})
    assert metrics_url(found, MetricsEndpoint()) == "http://[fd00::7]:8000/metrics"


def test_what_else_is_known_of_a_pod() -> None:
    found = view(
        "node-a",
        ready_status(CREATED_S),
        spec={"priority": 7, "preemptionPolicy": "Never", "priorityClassName": "batch", "activeDeadlineSeconds": 5},
        metadata={"ownerReferences": [{"kind": "ReplicaSet", "name": "llm-7d", "uid": "u", "controller": True}]},
    )
    assert (found.priority, found.preempts, found.priority_class, found.has_deadline) == (7, False, "batch", True)
    assert found.owner == Owner(kind="ReplicaSet", name="llm-7d", uid="u")


BAD = [
    pytest.param({"metadata": {"name": "x", "namespace": "models", "uid": "u"}}, "creationTimestamp", id="no time"),
    pytest.param({"spec": "none"}, "spec", id="no spec"),
    pytest.param({"status": {"phase": 3}}, "status.phase", id="phase of a wrong type"),
    pytest.param({"status": {"conditions": {"Ready": True}}}, "status.conditions", id="conditions of a wrong type"),
    pytest.param(
        {"spec": {"containers": [{"name": "a", "resources": {"limits": {GPU: "many"}}}]}}, GPU, id="no quantity"
    ),
]


@pytest.mark.parametrize(("broken", "named"), BAD)
def test_a_bad_pod_holds_only_itself(broken: Json, named: str) -> None:
    bad = {**pod("bad", created_s=CREATED_S), **broken}
    with pytest.raises(ShapeError, match=named):
        pod_view(bad)
    contents = Contents(pod_view, report=lambda key, reason: None)
    contents.replace([bad, pod("good", created_s=CREATED_S)])
    assert [key.name for key in contents.items()] == ["good"]
    assert [named in reason for reason in contents.unreadable().values()] == [True]
