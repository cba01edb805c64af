"""The snapshot of a cluster: replicas, devices, targets and quotas from raw objects, and what is told of gaps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapters.kubernetes.binding import Standing
from adapters.kubernetes.inventory import SETTLING_S, KubernetesInventory
from adapters.kubernetes.replicas import FLAP_S
from adapters.kubernetes.targets import Targeted, TargetKey, TargetProblem
from autoscaler.domain.cluster import ClusterSnapshot, Device, Phase, Quota
from autoscaler.domain.resource import AutoscalerResource, Mode, TargetRef, VariantSource
from autoscaler.domain.service import DeviceRequest, Service, ServiceId, Slo, Variant
from autoscaler.policy.pools import Pools
from autoscaler.ports import UnavailableError
from benchmarks.stored_cluster import StoredCluster, deployment, node, pod, ready_status, written

NOW_S = 1_790_000_000.0
GPU, SLICE = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"
GOING = {"deletionTimestamp": written(NOW_S + 30)}
FOREIGN = {"app": "somebody-elses"}


def resource(
    name: str, *, variants: Mapping[str, TargetRef] | None = None, namespace: str = "models"
) -> AutoscalerResource:
    """For the Deployment of the same name, unless ``variants`` says else."""
    targets = variants or {"full": TargetRef(api_version="apps/v1", kind="Deployment", name=name)}
    return AutoscalerResource(
        namespace=namespace,
        name=name,
        uid=f"uid-{name}",
        generation=1,
        created_s=NOW_S,
        labels=(),
        mode=Mode.SCALE,
        service=Service(
            id=ServiceId(f"{namespace}/{name}"),
            slo=Slo(ttft_s=2.0),
            variants=tuple(Variant(name=variant) for variant in targets),
        ),
        sources=tuple(VariantSource(variant=variant, target=target) for variant, target in targets.items()),
    )


def inventory(
    cluster: StoredCluster, *resources: AutoscalerResource, node_autoscaling: bool = False
) -> KubernetesInventory:
    return KubernetesInventory(
        resources=lambda: resources,
        targets=cluster,
        views=cluster.views,
        now_s=lambda: NOW_S,
        node_autoscaling=node_autoscaling,
    )


def cluster_of(*objects: Mapping[str, object]) -> StoredCluster:
    cluster = StoredCluster(now_s=NOW_S)
    cluster.put(*objects)
    return cluster


def mine(name: str, node_name: str, *, gpus: int = 1, **more: object) -> dict[str, object]:
    """A pod of the Deployment llm."""
    created_s = NOW_S - 1000
    source = pod(name, labels={"app": "llm"}, node=node_name, devices={GPU: gpus} if gpus else {}, created_s=created_s)
    return {**source, **more} if more else source


def going(source: Mapping[str, object]) -> dict[str, object]:
    metadata = source["metadata"]
    assert isinstance(metadata, dict)
    return {**source, "metadata": {**metadata, **GOING}}


def theirs(name: str, node_name: str, *, gpus: int = 1, priority: int = 0) -> dict[str, object]:
    return pod(name, labels=FOREIGN, node=node_name, devices={GPU: gpus}, created_s=NOW_S, spec={"priority": priority})


def devices(snapshot: ClusterSnapshot, kind: str = GPU) -> dict[str, int]:
    """Free or held by ours, by node."""
    return {each.node: each.count for each in snapshot.devices if each.kind == kind and each.holder_priority is None}


def test_a_service_and_its_replicas() -> None:
    cluster = cluster_of(
        node("node-a", {GPU: 4}),
        deployment("llm", 3, devices={GPU: 2}),
        mine("llm-b", "node-a", gpus=2),
        going(mine("llm-c", "node-a", gpus=2)),
        mine("llm-d", "", gpus=2),
    )
    found = inventory(cluster, resource("llm"))
    assert [each.devices for each in found.services()[0].variants] == [DeviceRequest(kind=GPU, count=2)]
    snapshot = found.snapshot()
    assert [(each.name, each.phase, each.nodes) for each in snapshot.replicas] == [
        ("models/llm-b", Phase.READY, ("node-a",)),
        ("models/llm-d", Phase.STARTING, ()),
        ("models/llm-c", Phase.DRAINING, ("node-a",)),
    ]
    assert snapshot.replicas[0].metrics_url == "http://10.1.0.7:8000/metrics"
    assert [(each.service, each.variant, each.replicas, each.suspended) for each in snapshot.targets] == [
        ("models/llm", "full", 3, None)
    ]
    assert snapshot.targets[0].pools == (snapshot.devices[0].pool,)


DEVICES = [
    pytest.param([], 4, id="all free"),
    pytest.param([mine("llm-a", "node-a")], 4, id="what ours hold is theirs to hold again"),
    pytest.param([going(mine("llm-a", "node-a"))], 3, id="ending ones hold theirs for good"),
    pytest.param([theirs("x", "node-a", gpus=3)], 1, id="what others hold is not there"),
    pytest.param([going(theirs("x", "node-a", gpus=3))], 1, id="what ending others hold either"),
    pytest.param(
        [mine("llm-a", "node-a"), mine("llm-b", "node-a"), mine("llm-c", "node-a")], 3, id="a surplus replica"
    ),
    pytest.param([mine("llm-a", "node-a", gpus=3)], 2, id="a pod of an earlier template that takes more"),
    pytest.param([pod("x", labels=FOREIGN, devices={GPU: 2})], 4, id="others that wait"),
    pytest.param(
        [pod("x", labels=FOREIGN, node="node-a", devices={GPU: 2}, status={"phase": "Succeeded"})], 4, id="ended others"
    ),
    pytest.param([theirs("x", "node-a", gpus=6)], 0, id="more than there are"),
    pytest.param([theirs("x", "node-b", gpus=3)], 4, id="others elsewhere"),
]


@pytest.mark.parametrize(("pods", "count"), DEVICES)
def test_devices_that_packing_may_share_out(pods: Sequence[Mapping[str, object]], count: int) -> None:
    cluster = cluster_of(node("node-a", {GPU: 4}), deployment("llm", 2, devices={GPU: 1}), *pods)
    assert devices(inventory(cluster, resource("llm")).snapshot()) == {"node-a": count}


@pytest.mark.parametrize(
    "lost",
    [
        pytest.param(node("node-a", {GPU: 4}, ready="Unknown"), id="silent"),
        pytest.param(node("node-a", {GPU: 4}, ready="False"), id="not ready"),
        pytest.param(node("node-a", {GPU: 4}, cordoned=True), id="cordoned"),
        pytest.param(node("node-a", {GPU: 4}, labels={"nvidia.com/mig.config.state": "pending"}), id="being cut anew"),
        pytest.param(node("node-a", {}), id="without its device plugin"),
        pytest.param(node("node-z", {}), id="gone"),
    ],
)
def test_a_lost_node_keeps_what_ours_hold_and_offers_nothing(lost: Mapping[str, object]) -> None:
    cluster = cluster_of(lost, deployment("llm", 2, devices={GPU: 1}), mine("llm-a", "node-a"), mine("llm-b", "node-a"))
    snapshot = inventory(cluster, resource("llm")).snapshot()
    assert devices(snapshot) == {"node-a": 2}
    request, pools = DeviceRequest(kind=GPU, count=1), Pools(snapshot.devices)
    assert snapshot.targets[0].pools is not None
    # The two that run there keep their places; a third finds none.
    for near in (("node-a",), ("node-a",), None):
        taken = pools.take(request, pools=snapshot.targets[0].pools, priority=0, near=near or ())
        assert taken == near


def test_pods_of_lower_priority_are_a_reserve() -> None:
    urgent = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "urgent"},
        "value": 100,
    }
    cluster = cluster_of(
        urgent,
        node("node-a", {GPU: 4}),
        deployment("llm", 1, devices={GPU: 1}, spec={"priorityClassName": "urgent"}),
        theirs("low", "node-a", gpus=2, priority=5),
        theirs("high", "node-a", gpus=1, priority=500),
        going(theirs("leaving", "node-a", gpus=1, priority=5)),
    )
    found = inventory(cluster, resource("llm"))
    snapshot = found.snapshot()
    assert snapshot.targets[0].priority == 100
    assert sorted((each.count, each.holder_priority or 0) for each in snapshot.devices) == [(0, 0), (2, 5)]
    cluster.put({**urgent, "preemptionPolicy": "Never"})
    held = found.snapshot()
    assert [each.count for each in held.devices] == [0]
    assert held.targets[0].priority < -1_000_000_000


def test_only_nodes_that_admit_a_targets_pods_count_for_it() -> None:
    taint = {"key": GPU, "effect": "NoSchedule"}
    cluster = cluster_of(
        node("plain", {GPU: 1}),
        node("tainted", {GPU: 2}, taints=[taint]),
        node("labelled", {GPU: 3}, labels={"product": "H100"}),
        deployment("any", 0, devices={GPU: 1}),
        deployment("h100", 0, devices={GPU: 1}, spec={"nodeSelector": {"product": "H100"}}),
        deployment("gpu", 0, devices={GPU: 1}, spec={"tolerations": [{"key": GPU, "operator": "Exists"}]}),
        deployment("b200", 0, devices={GPU: 1}, spec={"nodeSelector": {"product": "B200"}}),
    )
    names = ("any", "b200", "gpu", "h100")
    found = inventory(cluster, *(resource(name) for name in names))
    snapshot = found.snapshot()
    usable = {
        target.service.split("/")[1]: {each.node for each in snapshot.devices if each.pool in (target.pools or ())}
        for target in snapshot.targets
    }
    assert usable == {
        "any": {"plain", "labelled"},
        "b200": set(),
        "gpu": {"plain", "tainted", "labelled"},
        "h100": {"labelled"},
    }
    assert "no node admits the pods of Deployment b200" in found.problems(ServiceId("models/b200"))[0]
    assert found.problems(ServiceId("models/any")) == ()


def test_nodes_that_are_made_on_demand_have_no_end_of_devices() -> None:
    cluster = cluster_of(node("node-a", {GPU: 1}), deployment("llm", 1, devices={SLICE: 1}))
    snapshot = inventory(cluster, resource("llm"), node_autoscaling=True).snapshot()
    pools, request = Pools(snapshot.devices), DeviceRequest(kind=SLICE, count=1)
    assert all(pools.take(request, pools=snapshot.targets[0].pools, priority=0) for _ in range(100))


def test_a_target_that_is_missing_leaves_its_service_out_and_says_so() -> None:
    cluster = cluster_of(node("node-a", {GPU: 4}), deployment("llm", 1, devices={GPU: 1}), mine("llm-a", "node-a"))
    refs = {name: TargetRef(api_version="apps/v1", kind="Deployment", name=name) for name in ("llm", "absent")}
    found = inventory(cluster, resource("both", variants=refs), resource("llm"))
    assert [each.id for each in found.services()] == ["models/llm"]
    assert found.problems(ServiceId("models/both")) == ("there is no Deployment absent",)
    snapshot = found.snapshot()
    assert {each.service for each in snapshot.targets} == {"models/llm"}
    assert found.problems(ServiceId("models/both")) == ("there is no Deployment absent",)


class Loading:
    """Targets whose watch has just begun."""

    def __init__(self, cluster: StoredCluster) -> None:
        self.cluster = cluster
        self.looks_left = 10**9

    def refresh(self, wanted: Iterable[TargetKey]) -> Targeted:
        self.looks_left -= 1
        if self.looks_left < 0:
            return self.cluster.refresh(wanted)
        return {
            (namespace, ref): TargetProblem(namespace=namespace, ref=ref, detail=f"{ref} loads", lasting=False)
            for namespace, ref in wanted
        }


def loading() -> tuple[KubernetesInventory, Loading, list[float]]:
    cluster, now_s, wanted = cluster_of(deployment("llm", 3)), [NOW_S], [resource("llm")]
    targets = Loading(cluster)
    found = KubernetesInventory(resources=lambda: wanted, targets=targets, views=cluster.views, now_s=lambda: now_s[0])
    return found, targets, now_s


def test_nothing_is_decided_while_targets_are_only_being_loaded() -> None:
    found, targets, _ = loading()
    assert found.services() == ()
    targets.looks_left = 0  # what became known after the services were told is none of that snapshot's
    with pytest.raises(UnavailableError, match="Deployment llm loads"):
        found.snapshot()
    assert [each.id for each in found.services()] == ["models/llm"]
    assert found.snapshot().targets[0].replicas == 3


def test_a_target_that_never_loads_holds_the_others_for_a_while_alone() -> None:
    found, _, now_s = loading()
    with pytest.raises(UnavailableError):
        found.snapshot()
    now_s[0] += SETTLING_S
    assert found.snapshot().targets == ()
    assert found.problems(ServiceId("models/llm")) == ("Deployment llm loads",)


def test_targets_are_waited_for() -> None:
    found, targets, _ = loading()
    assert not found.await_targets(0.0)
    targets.looks_left = 2
    assert found.await_targets(30.0)
    assert [each.id for each in found.services()] == ["models/llm"]


def test_services_and_the_snapshot_after_them_see_the_same_targets() -> None:
    cluster = cluster_of(deployment("llm", 1, devices={GPU: 1}))
    found = inventory(cluster, resource("llm"), resource("new"))
    services = {each.id for each in found.services()}
    cluster.put(deployment("new", 1, devices={GPU: 1}))
    assert {each.service for each in found.snapshot().targets} == services
    assert {each.service for each in found.snapshot().targets} == {"models/llm", "models/new"}


def test_what_changes_between_snapshots_is_seen() -> None:
    cluster = cluster_of(node("node-a", {GPU: 4}), deployment("llm", 2, devices={GPU: 1}), mine("llm-a", "node-a"))
    found = inventory(cluster, resource("llm"))
    assert found.services()[0].variants[0].devices == DeviceRequest(kind=GPU, count=1)
    assert [each.detail for each in found.snapshot().replicas] == [""]
    cluster.put(node("node-a", {GPU: 4}, ready="Unknown"))
    assert [each.detail for each in found.snapshot().replicas] == ["node node-a is not heard of any more"]
    cluster.put(node("node-a", {GPU: 4}), deployment("llm", 5, devices={GPU: 2}))
    assert found.services()[0].variants[0].devices == DeviceRequest(kind=GPU, count=2)
    snapshot = found.snapshot()
    assert [each.detail for each in snapshot.replicas] == [""]
    assert snapshot.targets[0].replicas == 5
    cluster.remove(mine("llm-a", "node-a"))
    assert found.snapshot().replicas == ()


def test_an_unready_replica_fails_when_its_time_is_up() -> None:
    running, begun_s = ready_status(NOW_S - 1000), NOW_S - 10
    lost = {"type": "Ready", "status": "False", "lastTransitionTime": written(begun_s)}
    cluster = cluster_of(
        node("node-a", {GPU: 4}),
        deployment("llm", 2, devices={GPU: 1}),
        mine("llm-a", "node-a", status={**running, "conditions": [lost]}),
        mine("llm-b", "node-a"),
    )
    now_s, wanted = [NOW_S], [resource("llm")]
    found = KubernetesInventory(resources=lambda: wanted, targets=cluster, views=cluster.views, now_s=lambda: now_s[0])
    assert [each.phase for each in found.snapshot().replicas] == [Phase.READY, Phase.READY]
    now_s[0] = begun_s + FLAP_S
    assert [each.phase for each in found.snapshot().replicas] == [Phase.READY, Phase.FAILED]


def test_who_else_writes_a_target_is_asked_for_each() -> None:
    cluster = cluster_of(deployment("llm", 2), deployment("other", 2))

    def judge(of: AutoscalerResource, variant: str, view: object) -> Standing:
        return Standing(foreign_owner="HPA web") if of.name == "llm" else Standing(suspended="paused by hand")

    found = KubernetesInventory(
        resources=lambda: [resource("llm"), resource("other")],
        targets=cluster,
        views=cluster.views,
        now_s=lambda: NOW_S,
        standing=judge,
    )
    assert [(each.foreign_owner, each.suspended) for each in found.snapshot().targets] == [
        ("HPA web", None),
        (None, "paused by hand"),
    ]


def lws(name: str, replicas: int, *, size: int = 2) -> dict[str, object]:
    template = pod("template", devices={GPU: 8})
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": name, "namespace": "models", "uid": f"uid-{name}", "resourceVersion": "1"},
        "spec": {
            "replicas": replicas,
            "leaderWorkerTemplate": {"size": size, "workerTemplate": {"metadata": {}, "spec": template["spec"]}},
        },
        "status": {
            "replicas": replicas,
            "hpaPodSelector": f"leaderworkerset.sigs.k8s.io/name={name},leaderworkerset.sigs.k8s.io/worker-index=0",
        },
    }


def member(
    name: str, group: int, index: int, node_name: str, *, status: Mapping[str, object] | None = None
) -> dict[str, object]:
    prefix = "leaderworkerset.sigs.k8s.io"
    labels = {
        f"{prefix}/name": name,
        f"{prefix}/group-index": str(group),
        f"{prefix}/group-key": f"key-{group}",
        f"{prefix}/worker-index": str(index),
    }
    called = f"{name}-{group}" if index == 0 else f"{name}-{group}-{index}"
    return pod(called, labels=labels, node=node_name, devices={GPU: 8}, created_s=NOW_S - 1000, status=status)


def test_a_group_of_pods_is_one_replica() -> None:
    cluster = cluster_of(
        *(node(f"node-{index}", {GPU: 8}) for index in range(5)),
        lws("big", 3),
        member("big", 0, 0, "node-0"),
        member("big", 0, 1, "node-1"),
        member("big", 1, 0, "node-2"),
        member("big", 1, 1, "", status={"phase": "Pending"}),
        member("big", 2, 0, "node-3"),
    )
    ref = TargetRef(api_version="leaderworkerset.x-k8s.io/v1", kind="LeaderWorkerSet", name="big")
    found = inventory(cluster, resource("big", variants={"full": ref}))
    assert found.services()[0].variants[0].devices == DeviceRequest(kind=GPU, count=8, pods=2)
    snapshot = found.snapshot()
    assert [(each.name, each.phase, each.nodes) for each in snapshot.replicas] == [
        ("models/big-0", Phase.READY, ("node-0", "node-1")),
        ("models/big-1", Phase.STARTING, ("node-2",)),
        ("models/big-2", Phase.STARTING, ("node-3",)),
    ]
    assert snapshot.replicas[2].detail == "1 of 2 pods exist"
    assert devices(snapshot) == {f"node-{index}": 8 for index in range(5)}


def quota(hard: Mapping[str, str], used: Mapping[str, str] | None = None, **spec: object) -> dict[str, object]:
    return {
        "kind": "ResourceQuota",
        "metadata": {"name": "team", "namespace": "models"},
        "spec": {"hard": dict(hard), **spec},
        "status": {"used": dict(used or {})},
    }


def test_a_quota_on_devices_is_shared_by_the_services_of_its_namespace() -> None:
    cluster = cluster_of(
        quota({f"requests.{GPU}": "6"}),
        node("node-a", {GPU: 8}),
        deployment("llm", 2, devices={GPU: 1}),
        deployment("other", 0, devices={GPU: 1}),
        deployment("llm", 1, devices={GPU: 1}, namespace="elsewhere"),
        mine("llm-a", "node-a"),
        mine("llm-b", ""),
        going(mine("llm-c", "node-a")),
        theirs("x", "node-a", gpus=2),
    )
    found = inventory(cluster, resource("llm"), resource("other"), resource("llm", namespace="elsewhere"))
    # Six, less two of a stranger and one of a pod that is going; the two of ours are counted by packing.
    assert found.snapshot().quotas == (
        Quota(name="models/team", kind=GPU, devices=3, services=(ServiceId("models/llm"), ServiceId("models/other"))),
    )


def test_a_quota_on_anything_else_limits_each_target() -> None:
    cluster = cluster_of(
        quota({"pods": "5"}, {"pods": "3"}), deployment("llm", 2, devices={GPU: 1}), mine("llm-a", "node-a")
    )
    target = inventory(cluster, resource("llm")).snapshot().targets[0]
    assert (target.most, target.most_detail) == (3, "quota team on pods leaves 2, a replica needs 1")


def test_a_bad_pod_is_told_and_holds_no_other() -> None:
    cluster = cluster_of(node("node-a", {GPU: 4}), deployment("llm", 2, devices={GPU: 1}), mine("llm-a", "node-a"))
    cluster.put({**mine("llm-b", "node-a"), "status": {"phase": 7}})
    found = inventory(cluster, resource("llm"))
    assert [each.name for each in found.snapshot().replicas] == ["models/llm-a"]
    assert found.problems(ServiceId("models/llm"))[0].startswith(
        "pod llm-b can't be read and is left out: status.phase"
    )


@pytest.mark.parametrize(
    ("heard_s", "failure", "told"),
    [
        pytest.param(NOW_S - 121, "connection refused", "not heard of for 121 s: connection refused", id="long ago"),
        pytest.param(None, None, "not heard of ever", id="never"),
    ],
)
@pytest.mark.parametrize("named", ["pods", "nodes", "quotas", "limit_ranges", "priority_classes"])
def test_what_is_not_heard_of_is_not_believed(
    named: str, heard_s: float | None, failure: str | None, told: str
) -> None:
    cluster = cluster_of(deployment("llm", 1))
    found = inventory(cluster, resource("llm"))
    found.snapshot()
    stored = getattr(cluster, named)
    stored.heard_s, stored.failure = heard_s, failure
    with pytest.raises(UnavailableError, match=told):
        found.snapshot()


def test_a_pod_that_two_targets_select_is_counted_once() -> None:
    cluster = cluster_of(
        node("node-a", {GPU: 4}),
        deployment("llm", 1, devices={GPU: 1}),
        {**deployment("twin", 1, devices={GPU: 1}), "spec": deployment("llm", 1, devices={GPU: 1})["spec"]},
        mine("llm-a", "node-a"),
    )
    snapshot = inventory(cluster, resource("llm"), resource("twin")).snapshot()
    assert [(each.service, each.name) for each in snapshot.replicas] == [("models/llm", "models/llm-a")]


PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
SHAPES = st.fixed_dictionaries(
    {
        "nodes": st.lists(
            st.tuples(st.integers(0, 8), st.sampled_from(["True", "True", "True", "Unknown"]), st.booleans()),
            min_size=1,
            max_size=4,
        ),
        "asked": st.integers(0, 4),
        "request": st.integers(1, 3),
        "priority": st.sampled_from([0, 10, 100]),
        "pods": st.lists(
            st.tuples(
                st.sampled_from(["ours", "theirs"]),
                st.integers(0, 4),
                st.integers(0, 4),
                st.sampled_from(["ready", "going", "ended", "starting"]),
                st.sampled_from([0, 5, 50]),
            ),
            max_size=12,
        ),
    }
)


def drawn_cluster(shape: Mapping[str, object]) -> StoredCluster:
    return cluster_of(*drawn_objects(shape))


def drawn_objects(shape: Mapping[str, object]) -> list[Mapping[str, object]]:
    nodes, pods = shape["nodes"], shape["pods"]
    assert isinstance(nodes, list)
    assert isinstance(pods, list)
    objects: list[Mapping[str, object]] = []
    for index, (gpus, ready, cordoned) in enumerate(nodes):
        objects.append(node(f"node-{index}", {GPU: gpus}, ready=ready, cordoned=cordoned))
    request, asked, priority = shape["request"], shape["asked"], shape["priority"]
    assert isinstance(request, int)
    assert isinstance(asked, int)
    objects.append(deployment("llm", asked, devices={GPU: request}, spec={"priority": priority}))
    for number, (whose, where, gpus, life, rank) in enumerate(pods):
        # Index 4 is a node that no longer exists; a pod that has none waits.
        placed = f"node-{where}" if where < len(nodes) or life == "ready" else ""
        status: Mapping[str, object] | None = {"phase": "Pending"} if life == "starting" else None
        status = {"phase": "Succeeded"} if life == "ended" else status
        source = pod(
            f"pod-{number:02d}",
            labels={"app": "llm"} if whose == "ours" else FOREIGN,
            node=placed,
            devices={GPU: gpus} if gpus else {},
            created_s=NOW_S - 500 + number,
            spec={"priority": rank},
            status=status if status is not None or not placed else ready_status(NOW_S - 400),
        )
        objects.append(going(source) if life == "going" else source)
    return objects


@PATIENT
@given(shape=SHAPES)
def test_no_device_is_counted_twice(shape: Mapping[str, object]) -> None:
    """Whatever packing takes on a node, with what stays held there, is never more than the node has or pods hold."""
    cluster = drawn_cluster(shape)
    snapshot = inventory(cluster, resource("llm")).snapshot()
    pods = list(cluster.pods.items().values())
    held = Counter[str]()
    for each in pods:
        held[each.node] += each.devices.get(GPU, 0) if each.holds else 0
    nodes = {each.name: each for each in cluster.nodes.items().values()}
    offered, preemptible = Counter[str](), Counter[str]()
    for device in snapshot.devices:
        (offered if device.holder_priority is None else preemptible)[device.node] += device.count
    target = snapshot.targets[0]
    request = shape["request"]
    assert isinstance(request, int)
    running = [each for each in snapshot.replicas if each.phase is not Phase.DRAINING and each.nodes][: target.replicas]
    kept = Counter[str]()
    for replica in running:
        mine_ = next(each for each in pods if f"{each.namespace}/{each.name}" == replica.name)
        kept[mine_.node] += min(request, mine_.devices.get(GPU, 0))
    for name in {*offered, *held}:
        known = nodes.get(name)
        allocatable = known.devices[GPU] if known is not None else 0
        free = offered[name] - kept[name]
        assert free >= 0
        assert free == 0 or (known is not None and known.takes_pods)
        assert free + held[name] <= max(allocatable, held[name])
        assert preemptible[name] <= held[name] - kept[name]
        assert free + preemptible[name] <= max(0, allocatable - kept[name])


@PATIENT
@given(shape=SHAPES)
def test_what_runs_finds_its_devices_again(shape: Mapping[str, object]) -> None:
    """A replica that was asked for and holds what is requested keeps its place, whatever became of its node."""
    cluster = drawn_cluster(shape)
    snapshot = inventory(cluster, resource("llm")).snapshot()
    request = shape["request"]
    assert isinstance(request, int)
    whole = {
        f"{each.namespace}/{each.name}" for each in cluster.pods.items().values() if each.devices.get(GPU, 0) >= request
    }
    pools, asked = Pools(snapshot.devices), snapshot.targets[0].replicas
    running = [each for each in snapshot.replicas if each.phase is not Phase.DRAINING and each.nodes][:asked]
    for replica in running:
        if replica.name in whole:
            taken = pools.take(
                DeviceRequest(kind=GPU, count=request),
                pools=snapshot.targets[0].pools,
                priority=0,
                near=replica.nodes,
            )
            assert taken == replica.nodes


@PATIENT
@given(first=SHAPES, second=SHAPES)
def test_what_is_kept_between_snapshots_changes_none(first: Mapping[str, object], second: Mapping[str, object]) -> None:
    cluster = drawn_cluster(first)
    found = inventory(cluster, resource("llm"))
    found.snapshot()
    names = {str(each["metadata"]["name"]) for each in drawn_objects(second)}  # type: ignore[index]
    for source in drawn_objects(first):
        if source["metadata"]["name"] not in names:  # type: ignore[index]
            cluster.remove(source)
    cluster.put(*drawn_objects(second))
    fresh = inventory(drawn_cluster(second), resource("llm"))
    assert by_device(found.snapshot()) == by_device(fresh.snapshot())


def by_device(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    def key(device: Device) -> str:
        return device.id

    return replace(snapshot, devices=tuple(sorted(snapshot.devices, key=key)))
