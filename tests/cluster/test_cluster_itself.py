"""The test cluster does what a cluster with kubelets does, so that tests on it mean something."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from tests.cluster.api import ApiError, Json
from tests.cluster.metric_server import MetricServer
from tests.cluster.nodes import gpu_labels
from tests.cluster.processes import wait_for
from tests.cluster.running import Cluster
from tests.cluster.workloads import ask, await_pods, await_ready_pods, condition, deployment, is_ready, pod_template

pytestmark = pytest.mark.cluster

GPU = "nvidia.com/gpu"
SLICE = "nvidia.com/mig-1g.10gb"
SLOW_STEPS = "--model chat --step-base-ms 200"


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """One of its own for each test."""
    with cluster.namespace() as name:
        yield name


def _container(pod: Json) -> Json:
    statuses = pod["status"].get("containerStatuses", [{}])
    found: Json = statuses[0]
    return found


def _waiting_for(pod: Json) -> str:
    return str(_container(pod).get("state", {}).get("waiting", {}).get("reason", ""))


def _run(cluster: Cluster, namespace: str, replicas: int = 1, **template: object) -> None:
    made = pod_template("chat", **template)  # type: ignore[arg-type]
    cluster.apply([deployment("chat", replicas=replicas, template=made)], namespace=namespace)


def test_pods_run_on_nodes_with_the_devices_they_ask_for(cluster: Cluster, namespace: str) -> None:
    labels = gpu_labels("NVIDIA-H100-80GB-HBM3", count=2)
    with cluster.nodes.added("gpu-a", resources={GPU: "2"}, labels=labels):
        _run(cluster, namespace, 2, resources={GPU: "1"})
        pods = await_ready_pods(cluster, namespace, 2)
        assert {pod["spec"]["nodeName"] for pod in pods} == {"gpu-a"}
        addresses = {pod["status"]["podIP"] for pod in pods}
        assert len(addresses) == 2
        assert all(address.startswith("127.") for address in addresses)


def test_replicas_beyond_the_slices_are_pending_until_there_are_more(cluster: Cluster, namespace: str) -> None:
    labels = gpu_labels("NVIDIA-A100-SXM4-80GB", count=1, mig_strategy="mixed", mig_config="all-1g.10gb")
    with cluster.nodes.added("mig-a", resources={SLICE: "7"}, labels=labels):
        _run(cluster, namespace, 9, resources={SLICE: "1"})

        def two_are_unschedulable(pods: list[Json]) -> bool:
            reasons = [condition(pod, "PodScheduled").get("reason") for pod in pods]
            return sum(is_ready(pod) for pod in pods) == 7 and reasons.count("Unschedulable") == 2

        pods = await_pods(cluster, namespace, two_are_unschedulable, "7 ready, 2 unschedulable")
        messages = [condition(pod, "PodScheduled").get("message", "") for pod in pods if not is_ready(pod)]
        assert all(f"Insufficient {SLICE}" in message for message in messages)
        cluster.nodes.set_allocatable("mig-a", {SLICE: "14"})
        await_ready_pods(cluster, namespace, 9)


def test_an_engine_serves_on_its_pods_address(cluster: Cluster, namespace: str) -> None:
    _run(cluster, namespace, behaviour={"engine": "--model chat --step-base-ms 2"})
    (pod,) = await_ready_pods(cluster, namespace, 1)
    status, body = ask(pod, "/v1/completions", {"model": "chat", "prompt": "hello", "max_tokens": 5})
    assert status == 200, body
    status, page = ask(pod, "/metrics")
    assert status == 200
    assert b"vllm:request_success_total" in page


def test_a_pod_is_pulled_then_starts_then_is_ready(cluster: Cluster, namespace: str) -> None:
    _run(cluster, namespace, behaviour={"engine": "--model chat --startup-s 2", "pull-s": "2"})
    creating = await_pods(
        cluster, namespace, lambda pods: pods and _waiting_for(pods[0]) == "ContainerCreating", "being pulled"
    )
    assert creating[0]["status"]["phase"] == "Pending"
    starting = await_pods(
        cluster, namespace, lambda pods: pods[0]["status"]["phase"] == "Running", "the containers run"
    )
    assert not is_ready(starting[0])
    await_ready_pods(cluster, namespace, 1)


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        pytest.param({"exits": "1"}, "CrashLoopBackOff", id="container that exits"),
        pytest.param({"engine": "--fault engine=crash-at-start"}, "CrashLoopBackOff", id="engine that crashes"),
        pytest.param({"engine": "--no-such-flag"}, "CrashLoopBackOff", id="engine with a bad flag"),
        pytest.param({"hold": "image"}, "ImagePullBackOff", id="image that is not there"),
        pytest.param({"start-s": "soon"}, "CreateContainerConfigError", id="annotation that makes no sense"),
    ],
)
def test_a_pod_that_can_not_start_says_why(
    cluster: Cluster, namespace: str, behaviour: dict[str, str], reason: str
) -> None:
    _run(cluster, namespace, behaviour=behaviour)
    (pod,) = await_pods(cluster, namespace, lambda pods: pods and _waiting_for(pods[0]) == reason, reason)
    assert not is_ready(pod)


def test_a_crash_loop_counts_its_restarts(cluster: Cluster, namespace: str) -> None:
    _run(cluster, namespace, behaviour={"exits": "3"})
    (pod,) = await_pods(
        cluster, namespace, lambda pods: pods and _container(pods[0]).get("restartCount", 0) >= 2, "two restarts"
    )
    assert _container(pod)["lastState"]["terminated"]["exitCode"] == 3


def test_a_pod_held_unready_gets_ready_when_its_annotation_goes(cluster: Cluster, namespace: str) -> None:
    _run(cluster, namespace, behaviour={"hold": "unready"})
    (pod,) = await_pods(
        cluster, namespace, lambda pods: pods and pods[0]["status"]["phase"] == "Running", "the containers run"
    )
    assert not is_ready(pod)
    path = cluster.api.path_of({"apiVersion": "v1", "kind": "Pod", "metadata": pod["metadata"]})
    cluster.api.patch(path, {"metadata": {"annotations": {"test.gpu-autoscaler.io/hold": None}}})
    await_ready_pods(cluster, namespace, 1)


def test_a_deleted_pod_finishes_its_requests_first(cluster: Cluster, namespace: str) -> None:
    _run(cluster, namespace, behaviour={"engine": SLOW_STEPS}, spec={"terminationGracePeriodSeconds": 60})
    (pod,) = await_ready_pods(cluster, namespace, 1)
    body = {"model": "chat", "prompt": "hello", "max_tokens": 15, "ignore_eos": True}
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ask, pod, "/v1/completions", body)
        wait_for(lambda: b"num_requests_running{" in ask(pod, "/metrics")[1] and _in_flight(pod), "it runs")
        cluster.api.delete(f"/api/v1/namespaces/{namespace}/deployments/chat".replace("/api/v1", "/apis/apps/v1"))
        await_pods(cluster, namespace, lambda pods: "deletionTimestamp" in pods[0]["metadata"], "it ends")
        assert answer.result()[0] == 200
    await_pods(cluster, namespace, lambda pods: not pods, "it is gone")
    with pytest.raises(OSError):  # noqa: PT011 - whatever a closed port makes of it
        ask(pod, "/health")


def _in_flight(pod: Json) -> bool:
    page = ask(pod, "/metrics")[1].decode()
    return any(
        line.startswith("vllm:num_requests_running{") and float(line.rsplit(" ", 1)[1]) > 0
        for line in page.splitlines()
    )


def test_the_grace_period_ends_requests_that_take_longer(cluster: Cluster, namespace: str) -> None:
    _run(cluster, namespace, behaviour={"engine": SLOW_STEPS}, spec={"terminationGracePeriodSeconds": 2})
    (pod,) = await_ready_pods(cluster, namespace, 1)
    body = {"model": "chat", "prompt": "hello", "max_tokens": 3000, "ignore_eos": True}
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ask, pod, "/v1/completions", body)
        wait_for(lambda: _in_flight(pod), "it runs")
        cluster.api.delete(f"/apis/apps/v1/namespaces/{namespace}/deployments/chat")
        await_pods(cluster, namespace, lambda pods: not pods, "it is gone")
        assert answer.exception() is not None


def test_a_lost_node_takes_its_engines_with_it_and_brings_them_back(cluster: Cluster, namespace: str) -> None:
    with cluster.nodes.added("gpu-b", resources={GPU: "1"}):
        _run(cluster, namespace, behaviour={"engine": "--model chat"}, resources={GPU: "1"})
        (pod,) = await_ready_pods(cluster, namespace, 1)
        cluster.nodes.lose("gpu-b")
        wait_for(lambda: not _answers(pod), "the engine is dead")
        cluster.nodes.await_lost("gpu-b")
        await_pods(cluster, namespace, lambda pods: not is_ready(pods[0]), "the pod is unready")
        cluster.nodes.restore("gpu-b")
        cluster.nodes.await_ready("gpu-b")
        (back,) = await_ready_pods(cluster, namespace, 1)
        assert back["metadata"]["uid"] == pod["metadata"]["uid"]
        assert _container(back)["restartCount"] == 1
        assert _answers(back)


def _answers(pod: Json) -> bool:
    with suppress(OSError):
        return ask(pod, "/health")[0] == 200
    return False


def test_everything_goes_on_after_an_outage_of_the_api_server(cluster: Cluster, namespace: str) -> None:
    _run(cluster, namespace, 2, behaviour={"engine": "--model chat"})
    before = await_ready_pods(cluster, namespace, 2)
    with cluster.api_server_down():
        assert all(_answers(pod) for pod in before)
    wait_for(lambda: cluster.nodes.is_ready("cpu-0"), "the node is ready")
    _run(cluster, namespace, 3, behaviour={"engine": "--model chat"})
    after = await_ready_pods(cluster, namespace, 3)
    assert {pod["metadata"]["uid"] for pod in before} < {pod["metadata"]["uid"] for pod in after}


def test_nothing_can_be_written_while_etcd_is_paused(cluster: Cluster, namespace: str) -> None:
    with ThreadPoolExecutor(1) as pool:
        with cluster.etcd_paused():
            waiting = pool.submit(cluster.api.post, f"/api/v1/namespaces/{namespace}/configmaps", _config_map("late"))
            with pytest.raises(TimeoutError):
                waiting.result(timeout=2.0)
        with suppress(ApiError):
            waiting.result()
    cluster.apply([_config_map("later")], namespace=namespace)


def _config_map(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def test_a_service_account_has_the_rights_it_was_given_and_no_others(cluster: Cluster, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reader"}}
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
    rbac = "rbac.authorization.k8s.io"
    cluster.apply(
        [
            account,
            {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": {"name": "reader"}, "rules": rules},
            {
                "apiVersion": f"{rbac}/v1",
                "kind": "RoleBinding",
                "metadata": {"name": "reader"},
                "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "reader"},
                "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": namespace}],
            },
        ],
        namespace=namespace,
    )
    reader = cluster.api_as(namespace, "reader")

    def may_list() -> bool:
        with suppress(ApiError):
            return reader.items(path) == []
        return False

    wait_for(may_list, "the rights are there")
    with pytest.raises(ApiError, match="403"):
        reader.post(f"/api/v1/namespaces/{namespace}/configmaps", _config_map("x"))


def test_namespaces_do_not_see_one_another(cluster: Cluster, namespace: str) -> None:
    with cluster.namespace() as other:
        _run(cluster, other)
        await_ready_pods(cluster, other, 1)
        assert cluster.pods(namespace) == []


@pytest.mark.parametrize(
    ("api_version", "kind", "count"),
    [
        pytest.param("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "replicas", id="groups"),
        pytest.param("test.gpu-autoscaler.io/v1", "Fleet", "size", id="unknown kind"),
    ],
)
def test_custom_kinds_are_scaled_through_their_scale_subresource(
    cluster: Cluster, namespace: str, api_version: str, kind: str, count: str
) -> None:
    body = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "chat"}, "spec": {count: 2}}
    cluster.apply([body], namespace=namespace)
    path = f"/apis/{api_version}/namespaces/{namespace}/{kind.lower()}s/chat"
    cluster.api.patch(f"{path}/scale", {"spec": {"replicas": 5}})
    assert cluster.api.get(path)["spec"][count] == 5


def test_an_hpa_follows_a_server_on_this_machine(cluster: Cluster, namespace: str) -> None:
    certificate = cluster.certificates.ca.issue("metrics", hosts=(f"metrics.{namespace}.svc",))
    with (
        MetricServer(certificate, value="4") as server,
        cluster.api_service(namespace=namespace, service="metrics", port=server.port),
    ):
        _run(cluster, namespace)
        target = {"type": "AverageValue", "averageValue": "1"}
        metric = {"type": "External", "external": {"metric": {"name": "desired"}, "target": target}}
        reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat"}
        spec = {"scaleTargetRef": reference, "minReplicas": 0, "maxReplicas": 9, "metrics": [metric]}
        hpa = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "chat"}}
        cluster.apply([{**hpa, "spec": spec}], namespace=namespace)
        await_ready_pods(cluster, namespace, 4)
        assert "desired" in cluster.kubectl("describe", "hpa", "chat", "--namespace", namespace)


def test_keda_scales_and_goes_on_after_its_operator_was_killed(cluster: Cluster, namespace: str) -> None:
    with cluster.keda_serving():
        _run(cluster, namespace)
        cluster.apply([_always(3)], namespace=namespace)
        path = f"/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers/keda-hpa-chat"
        wait_for(lambda: cluster.api.find(path), "KEDA's HPA is there")
        await_ready_pods(cluster, namespace, 3)
        cluster.keda.kill_operator()
        cluster.apply([_always(5)], namespace=namespace)
        cluster.start_keda()
        await_ready_pods(cluster, namespace, 5)


def _always(replicas: int) -> Json:
    """A ScaledObject of KEDA's own scaler that wants a number of replicas on every day of the year."""
    when = {"timezone": "UTC", "start": "0 0 1 1 *", "end": "59 23 31 12 *", "desiredReplicas": str(replicas)}
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "chat"},
        "spec": {
            "scaleTargetRef": {"name": "chat"},
            "minReplicaCount": 1,
            "pollingInterval": 1,
            "triggers": [{"type": "cron", "metadata": when}],
        },
    }
