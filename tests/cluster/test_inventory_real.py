"""The inventory on a real control plane: starts, crashes, full nodes, lost nodes and quotas as a real cluster tells."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import time

import pytest

from adapters.kubernetes.collections import WatchedCluster
from adapters.kubernetes.connection import KubernetesApi
from adapters.kubernetes.inventory import KubernetesInventory
from adapters.kubernetes.targets import Targets
from autoscaler.domain.cluster import ClusterSnapshot, Phase, Replica
from autoscaler.domain.resource import AutoscalerResource, Mode, TargetRef, VariantSource
from autoscaler.domain.service import DeviceRequest, Service, ServiceId, Slo, Variant
from tests.cluster.processes import wait_for
from tests.cluster.running import Cluster
from tests.cluster.workloads import deployment, pod_template

pytestmark = pytest.mark.cluster

GPU, SLICE = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"
CHAT = TargetRef(api_version="apps/v1", kind="Deployment", name="chat")


class Seen:
    """One service, whose target is the Deployment chat of a namespace, as the inventory sees it."""

    def __init__(self, cluster: Cluster, namespace: str, inventory: KubernetesInventory) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.inventory = inventory

    def deploy(
        self,
        replicas: int,
        *,
        kind: str = GPU,
        behaviour: Mapping[str, str] | None = None,
        spec: Mapping[str, object] | None = None,
    ) -> None:
        """One device for each replica, on nodes that are labelled for this namespace."""
        template = pod_template(
            "chat",
            behaviour=behaviour,
            resources={kind: "1"},
            spec={"nodeSelector": {"for": self.namespace}, "terminationGracePeriodSeconds": 1, **(spec or {})},
        )
        self.cluster.apply([deployment("chat", replicas=replicas, template=template)], namespace=self.namespace)

    @contextmanager
    def node(self, resources: Mapping[str, str]) -> Iterator[str]:
        """A node of this namespace's own."""
        name = f"node-{self.namespace}"
        with self.cluster.nodes.added(name, resources=resources, labels={"for": self.namespace}):
            yield name

    def until(self, wanted: Callable[[ClusterSnapshot], object], what: str) -> ClusterSnapshot:
        """The first snapshot that is as wanted. Raises NotReadyError."""
        found: list[ClusterSnapshot] = []

        def seen() -> bool:
            if not self.inventory.services():
                return False
            found[:] = [self.inventory.snapshot()]
            return bool(wanted(found[0]))

        wait_for(seen, what)
        return found[0]

    def until_replicas(self, wanted: Callable[[tuple[Replica, ...]], object], what: str) -> ClusterSnapshot:
        """The same, of its replicas."""
        return self.until(lambda snapshot: wanted(snapshot.replicas), what)


@pytest.fixture
def chat(cluster: Cluster) -> Iterator[Seen]:
    api = KubernetesApi.of_kubeconfig(cluster.kubeconfig)
    watched, targets = WatchedCluster(api, now_s=time), Targets(api, now_s=time)
    watched.start()
    try:
        with cluster.namespace() as namespace:
            resource = AutoscalerResource(
                namespace=namespace,
                name="chat",
                uid="u",
                generation=1,
                created_s=0.0,
                labels=(),
                mode=Mode.SCALE,
                service=Service(
                    id=ServiceId(f"{namespace}/chat"), slo=Slo(ttft_s=1.0), variants=(Variant(name="full"),)
                ),
                sources=(VariantSource(variant="full", target=CHAT),),
            )
            assert watched.wait_synced(30.0)
            inventory = KubernetesInventory(
                resources=lambda: [resource], targets=targets, views=watched.views, now_s=time
            )
            yield Seen(cluster, namespace, inventory)
    finally:
        targets.close()
        watched.close()
        api.close()


def phases(replicas: tuple[Replica, ...]) -> list[Phase]:
    return [each.phase for each in replicas]


def offered(snapshot: ClusterSnapshot, node: str, kind: str = GPU) -> int:
    return sum(each.count for each in snapshot.devices if each.node == node and each.kind == kind)


def test_a_replica_from_its_start_to_its_end(chat: Seen) -> None:
    with chat.node({GPU: "4"}) as node:
        chat.deploy(1, behaviour={"pull-s": "1.5", "start-s": "1.5", "stop-s": "1"})
        chat.until_replicas(
            lambda found: [each.detail for each in found] == ["pulling the image, or preparing its volumes"], "it pulls"
        )
        chat.until_replicas(lambda found: [each.detail for each in found] == ["loading"], "it loads")
        snapshot = chat.until_replicas(lambda found: phases(found) == [Phase.READY], "it is ready")
        replica = snapshot.replicas[0]
        assert replica.nodes == (node,)
        assert replica.ready_s is not None
        assert 2.0 <= replica.ready_s - replica.created_s <= 60.0
        assert replica.metrics_url is not None
        assert replica.metrics_url.startswith("http://127.")
        assert replica.metrics_url.endswith(":8000/metrics")
        assert offered(snapshot, node) == 4
        assert chat.inventory.services()[0].variants[0].devices == DeviceRequest(kind=GPU, count=1)
        chat.deploy(0)
        going = chat.until_replicas(lambda found: phases(found) == [Phase.DRAINING], "it goes")
        assert (going.targets[0].replicas, offered(going, node)) == (0, 3)
        gone = chat.until_replicas(lambda found: not found, "it is gone")
        assert offered(gone, node) == 4


def test_a_rollout_counts_no_device_twice(chat: Seen) -> None:
    with chat.node({GPU: "4"}) as node:
        chat.deploy(2, behaviour={"stop-s": "1"})
        chat.until_replicas(lambda found: phases(found) == [Phase.READY] * 2, "both are ready")
        chat.deploy(2, behaviour={"stop-s": "1", "start-s": "0.5"})
        counts: list[tuple[int, int, int]] = []

        def rolled_out(snapshot: ClusterSnapshot) -> bool:
            placed = [each for each in snapshot.replicas if each.nodes]
            kept = [each for each in placed if each.phase is not Phase.DRAINING][:2]
            counts.append((offered(snapshot, node), len(kept), len(placed)))
            surged = any(running > 2 for _, _, running in counts)
            return surged and phases(snapshot.replicas) == [Phase.READY] * 2

        chat.until(rolled_out, "the rollout is over")
        # The node has four: what packing takes again for the two, and what is free beside all that run.
        assert [count for count in counts if count[0] != count[1] + 4 - count[2]] == []


@pytest.mark.parametrize(
    ("behaviour", "told"),
    [
        pytest.param({"exits": "3", "start-s": "0.2"}, "exited with code 3", id="crash"),
        pytest.param({"hold": "image"}, "ImagePullBackOff", id="image"),
    ],
)
def test_a_replica_that_can_not_start_has_failed(chat: Seen, behaviour: Mapping[str, str], told: str) -> None:
    with chat.node({GPU: "4"}) as node:
        chat.deploy(1, behaviour=behaviour)
        snapshot = chat.until_replicas(
            lambda found: phases(found) == [Phase.FAILED] and told in found[0].detail, f"it fails: {told}"
        )
        assert snapshot.replicas[0].nodes == (node,)


def test_a_replica_that_no_node_takes(chat: Seen) -> None:
    with chat.node({SLICE: "2"}) as node:
        chat.deploy(3, kind=SLICE)
        snapshot = chat.until_replicas(
            lambda found: (
                phases(found) == [Phase.READY, Phase.READY, Phase.STARTING]
                and found[2].unschedulable_since_s is not None
            ),
            "two are ready and one waits",
        )
        waiting = snapshot.replicas[2]
        assert f"Insufficient {SLICE}" in waiting.detail
        assert waiting.unschedulable_since_s is not None
        assert abs(waiting.unschedulable_since_s - waiting.created_s) < 30.0
        assert (offered(snapshot, node, SLICE), waiting.nodes) == (2, ())
        chat.cluster.nodes.set_allocatable(node, {SLICE: "3"})
        snapshot = chat.until_replicas(lambda found: phases(found) == [Phase.READY] * 3, "the third is ready")
        assert offered(snapshot, node, SLICE) == 3


def test_a_lost_node_shrinks_nothing(chat: Seen) -> None:
    with chat.node({GPU: "4"}) as node:
        chat.deploy(2)
        chat.until_replicas(lambda found: phases(found) == [Phase.READY] * 2, "both are ready")
        chat.cluster.nodes.lose(node)
        chat.cluster.nodes.await_lost(node)
        lost = chat.until_replicas(
            lambda found: all(each.detail == f"node {node} is not heard of any more" for each in found), "it is noticed"
        )
        assert phases(lost.replicas) == [Phase.READY] * 2
        assert lost.targets[0].replicas == 2
        assert offered(lost, node) == 2
        chat.cluster.nodes.restore(node)
        chat.cluster.nodes.await_ready(node)
        back = chat.until(
            lambda found: offered(found, node) == 4 and phases(found.replicas) == [Phase.READY] * 2, "it is back"
        )
        assert [each.detail for each in back.replicas] == ["", ""]


def test_quotas_of_a_real_namespace(chat: Seen) -> None:
    hard = {f"requests.{GPU}": "2", "pods": "10"}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team"}, "spec": {"hard": hard}}
    with chat.node({GPU: "4"}) as node:
        chat.cluster.apply([quota], namespace=chat.namespace)
        path = f"/api/v1/namespaces/{chat.namespace}/resourcequotas/team"
        wait_for(lambda: chat.cluster.api.get(path).get("status", {}).get("used"), "the quota is counted")
        chat.deploy(3)
        snapshot = chat.until(
            lambda found: (
                phases(found.replicas) == [Phase.READY] * 2
                and found.quotas
                and (found.targets[0].most, found.targets[0].replicas) == (2 + 8, 3)
            ),
            "two may be created, and the third is not",
        )
        assert [(each.kind, each.devices, each.name) for each in snapshot.quotas] == [
            (GPU, 2, f"{chat.namespace}/team")
        ]
        assert offered(snapshot, node) == 4


def test_only_nodes_that_admit_its_pods_count(chat: Seen) -> None:
    with chat.node({GPU: "4"}) as node, chat.cluster.nodes.added(f"other-{chat.namespace}", resources={GPU: "8"}):
        chat.deploy(1)
        snapshot = chat.until(lambda found: found.targets[0].pools, "a node admits its pods")
        pools = snapshot.targets[0].pools or ()
        assert {each.node for each in snapshot.devices if each.pool in pools} == {node}
