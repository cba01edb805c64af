"""What a cluster costs: ``python -m benchmarks.cluster`` (live), or with ``--synthetic`` one that is larger.

Live: 200 services with 2,000 pods on the test cluster (see ``live_cluster``).

Synthetic: 10,000 pods in memory, of objects as the API server gives them: eight GPUs a node, a fifth of the pods of
strangers, and between two snapshots some pods change. Watching is not in it, translating the objects is.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import time

from adapters.kubernetes.inventory import KubernetesInventory
from autoscaler.compose import collect_garbage_less_often
from autoscaler.domain.resource import AutoscalerResource, Mode, TargetRef, VariantSource
from autoscaler.domain.service import Service, ServiceId, Slo, Variant
from benchmarks.live_cluster import live
from benchmarks.stored_cluster import StoredCluster, deployment, node, pod

NOW_S = 1_790_000_000.0
GPU = "nvidia.com/gpu"
GPUS_A_NODE = 8
PRODUCTS = ("NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB", "NVIDIA-L40S")


def bulky(source: dict[str, object]) -> dict[str, object]:
    """With what a real pod carries besides: environment, volumes, managed fields. About 6 kB of JSON."""
    filler: dict[str, object] = {f"f:field-{index}": {"f:value": {}, "f:from": {"f:key": {}}} for index in range(80)}
    metadata = source["metadata"]
    assert isinstance(metadata, dict)
    metadata["managedFields"] = [{"manager": "kubelet", "operation": "Update", "fieldsV1": filler}]
    copied: dict[str, object] = json.loads(json.dumps(source))
    return copied


def resources(targets: int) -> list[AutoscalerResource]:
    """One for each Deployment."""
    return [
        AutoscalerResource(
            namespace=f"team-{index % 20}",
            name=f"llm-{index:04d}",
            uid=f"uid-{index}",
            generation=1,
            created_s=NOW_S,
            labels=(),
            mode=Mode.SCALE,
            service=Service(
                id=ServiceId(f"team-{index % 20}/llm-{index:04d}"),
                slo=Slo(ttft_s=2.0),
                variants=(Variant(name="full"),),
            ),
            sources=(
                VariantSource(
                    variant="full",
                    target=TargetRef(api_version="apps/v1", kind="Deployment", name=f"llm-{index:04d}"),
                ),
            ),
        )
        for index in range(targets)
    ]


def pod_of(number: int, *, targets: int, nodes: int, restarts: int = 0) -> dict[str, object]:
    """One pod in five is a stranger's."""
    target = number % targets
    stranger = number % 5 == 4
    name = f"pod-{number:05d}"
    source = pod(
        name,
        namespace=f"team-{target % 20}",
        labels={"app": name if stranger else f"llm-{target:04d}", "pod-template-hash": "7d9c5b8f6d", "tier": "serving"},
        node=f"node-{number % nodes:04d}",
        devices={GPU: 1},
        created_s=NOW_S - 7200 - number + restarts,
        spec={"priority": number % 3},
    )
    return bulky(source)


def filled(*, pods: int, targets: int, nodes: int) -> tuple[StoredCluster, float]:
    """The cluster, and the CPU seconds that one pod took."""
    cluster = StoredCluster(now_s=NOW_S)
    for index in range(nodes):
        labels = {"nvidia.com/gpu.product": PRODUCTS[index % 3], "topology.kubernetes.io/zone": f"zone-{index % 3}"}
        cluster.put(node(f"node-{index:04d}", {GPU: GPUS_A_NODE}, labels=labels))
    for index in range(targets):
        selector = {"nvidia.com/gpu.product": PRODUCTS[index % 3]} if index % 2 else {}
        spec = {"nodeSelector": selector, "priority": index % 4}
        replicas = pods // targets
        source = deployment(f"llm-{index:04d}", replicas, namespace=f"team-{index % 20}", devices={GPU: 1}, spec=spec)
        cluster.put(source)
    spent_s = 0.0
    for number in range(pods):
        source = pod_of(number, targets=targets, nodes=nodes)
        began_s = time.process_time()
        cluster.put(source)
        spent_s += time.process_time() - began_s
    return cluster, spent_s / pods


def synthetic(*, pods: int, targets: int, nodes: int, snapshots: int, changes: int) -> None:
    """Fill the memory, then change some pods and take a snapshot, over and over."""
    before_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    cluster, event_s = filled(pods=pods, targets=targets, nodes=nodes)
    held_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    wanted = resources(targets)
    inventory = KubernetesInventory(resources=lambda: wanted, targets=cluster, views=cluster.views, now_s=lambda: NOW_S)
    began_s = time.process_time()
    services = inventory.services()
    snapshot = inventory.snapshot()
    first_s = time.process_time() - began_s
    spent_s: list[float] = []
    for turn in range(snapshots):
        for number in range(changes):
            changed = (turn * changes + number) % pods
            cluster.put(pod_of(changed, targets=targets, nodes=nodes, restarts=turn + 1))
        began_s = time.process_time()
        inventory.services()
        snapshot = inventory.snapshot()
        spent_s.append(time.process_time() - began_s)
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"pods {pods}, targets {targets}, nodes {nodes}, {changes} pods changed between snapshots")
    print(
        f"services {len(services)}, replicas {len(snapshot.replicas)}, devices {len(snapshot.devices)}, "
        f"pools {len({device.pool for device in snapshot.devices})}"
    )
    print(
        f"CPU ms a snapshot: first {first_s * 1000:.0f}, then median {statistics.median(spent_s) * 1000:.1f}, ", end=""
    )
    print(f"largest {max(spent_s) * 1000:.1f}")
    print(f"CPU ms a pod event (translating it, JSON parsed): {event_s * 1000:.3f}")
    print(f"peak memory {peak_mib:.0f} MiB, {held_mib - before_mib:.0f} of it for the objects")


def main() -> None:
    """Run it and print one line a figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--synthetic", action="store_true", help="a cluster in memory")
    parser.add_argument("--pods", type=int, help="2000 live, 10000 in memory")
    parser.add_argument("--targets", type=int, help="200 live, 1000 in memory")
    parser.add_argument("--nodes", type=int, default=2_000, help="in memory")
    parser.add_argument("--snapshots", type=int, default=15, help="in memory")
    parser.add_argument("--changes", type=int, default=100, help="in memory, pods that change between two snapshots")
    parser.add_argument("--interval", type=float, default=5.0, help="live, seconds between two ticks")
    parser.add_argument("--seconds", type=float, default=60.0, help="live, how long to watch")
    wanted = parser.parse_args()
    if not wanted.synthetic:
        live(
            pods=wanted.pods or 2_000,
            targets=wanted.targets or 200,
            interval_s=wanted.interval,
            seconds=wanted.seconds,
        )
        return
    collect_garbage_less_often()
    synthetic(
        pods=wanted.pods or 10_000,
        targets=wanted.targets or 1_000,
        nodes=wanted.nodes,
        snapshots=wanted.snapshots,
        changes=wanted.changes,
    )


if __name__ == "__main__":
    main()
