"""The controller beside a real API server with thousands of pods: what a tick costs it, and what it asks of the server.

The pods are the test cluster's (no containers), their metrics pages are recorded ones of vLLM, all at one server. Their
nodes have a hundred GPUs each, because the heartbeats of real numbers of nodes would be most of this machine's work.
"""

from __future__ import annotations

import json
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from pathlib import Path

import psutil
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.live_pages import live_pages
from tests.cluster.api import Json
from tests.cluster.controllers import ControllerProcess
from tests.cluster.processes import wait_for
from tests.cluster.running import Cluster, running_cluster
from tests.cluster.workloads import deployment, pod_template

GPU = "nvidia.com/gpu"
GPUS_A_NODE = 100
ACCOUNT = "gpu-autoscaler"
CRDS = Path(__file__).parents[1] / "charts" / "gpu-autoscaler" / "crds"
_START_S = 600.0


@dataclass(frozen=True, slots=True)
class Usage:
    """Of the controller so far: CPU seconds, ticks and their seconds."""

    cpu_s: float
    ticks: float
    took_s: float


def autoscaler_for(name: str, port: int) -> Json:
    """An InferenceAutoscaler that only advises."""
    return {
        "apiVersion": "gpu-autoscaler.io/v1alpha1",
        "kind": "InferenceAutoscaler",
        "metadata": {"name": name},
        "spec": {
            "mode": "Advise",
            "slo": {"ttft": "2s", "itl": "100ms"},
            "engine": "vllm",
            "maxReplicas": 100,
            "metrics": {"port": port},
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        },
    }


def account(namespace: str) -> list[Json]:
    """Whom the controller asks as, so that the audit log tells its calls from others'."""
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": f"{namespace}-{ACCOUNT}"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}],
        },
    ]


def fill(cluster: Cluster, namespace: str, *, pods: int, targets: int, port: int) -> None:
    """Nodes, Deployments with their pods, and an InferenceAutoscaler for each; returns when all pods are ready."""
    for number in range(-(-pods // GPUS_A_NODE)):
        cluster.nodes.add(f"node-{number:03d}", resources={GPU: str(GPUS_A_NODE), "cpu": "1000", "pods": "1000"})
    for number in range(targets):
        name = f"llm-{number:04d}"
        template = pod_template(name, resources={GPU: "1"})
        made = deployment(name, replicas=pods // targets, template=template)
        cluster.apply([made, autoscaler_for(name, port)], namespace=namespace)
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"

    def ready() -> bool:
        return all(each["status"].get("readyReplicas", 0) == pods // targets for each in cluster.api.items(path))

    wait_for(ready, f"{pods} ready pods", within_s=_START_S)


def usage(controller: ControllerProcess) -> Usage:
    """What it has used until now."""
    assert controller.process is not None
    times = psutil.Process(controller.process.pid).cpu_times()
    with urllib.request.urlopen(f"http://127.0.0.1:{controller.api_port}/metrics", timeout=30) as answer:
        page = answer.read().decode()
    values = {sample.name: sample.value for each in text_string_to_metric_families(page) for sample in each.samples}
    return Usage(
        cpu_s=times.user + times.system,
        ticks=values["gpu_autoscaler_tick_duration_seconds_count"],
        took_s=values["gpu_autoscaler_tick_duration_seconds_sum"],
    )


def calls(cluster: Cluster, namespace: str, *, since_s: float, until_s: float) -> Mapping[str, int]:
    """What the controller asked for in that time, by verb and resource; of a kind that is not there, "missing"."""
    found: Counter[str] = Counter()
    for event in cluster.asked_for(namespace, ACCOUNT):
        named = event.get("objectRef", {})
        resource = "/".join(filter(None, (named.get("resource"), named.get("subresource"))))
        if since_s <= datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp() < until_s:
            missing = event.get("responseStatus", {}).get("code") == HTTPStatus.NOT_FOUND
            found[f"{'missing' if missing else event['verb']} {resource}"] += 1
    return found


@contextmanager
def controlled(*, pods: int, targets: int, interval_s: float) -> Iterator[tuple[Cluster, ControllerProcess]]:
    """The cluster, and a controller that has decided on all services."""
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        port = opened.enter_context(live_pages())
        cluster = opened.enter_context(running_cluster(folder))
        cluster.define_kinds(CRDS)
        namespace = opened.enter_context(cluster.namespace())
        cluster.apply(account(namespace), namespace=namespace)
        began_s = time.monotonic()
        fill(cluster, namespace, pods=pods, targets=targets, port=port)
        print(f"{pods} pods of {targets} Deployments ready after {time.monotonic() - began_s:.0f} s", flush=True)
        kubeconfig = cluster.kubeconfig_for_service_account(namespace, ACCOUNT)
        controller = ControllerProcess(cluster, folder, namespace, kubeconfig, interval_s=interval_s)
        opened.callback(controller.stop)
        controller.start()
        controller.await_ready()

        def decided() -> bool:
            status, page = controller.get("/api/v1/services")
            return status == 200 and len(page["services"]) == targets

        wait_for(decided, f"decisions on {targets} services; see {controller.log}", within_s=120.0)
        yield cluster, controller


def live(*, pods: int, targets: int, interval_s: float, seconds: float) -> None:
    """Watch a controller at work and print a line a figure."""
    with controlled(pods=pods, targets=targets, interval_s=interval_s) as (cluster, controller):
        time.sleep(2 * interval_s)  # the first ticks translate and learn what the later ones know
        before, since_s = usage(controller), time.time()
        time.sleep(seconds)
        after, until_s = usage(controller), time.time()
        assert controller.process is not None
        memory = psutil.Process(controller.process.pid).memory_info()
        ticks = after.ticks - before.ticks
        asked = calls(cluster, controller.namespace, since_s=since_s, until_s=until_s)
        print(f"{ticks:.0f} ticks, every {interval_s:g} s, of {targets} services with {pods} pods (a page each)")
        print(
            f"CPU ms a tick: {1000 * (after.cpu_s - before.cpu_s) / ticks:.0f} (whole process, watches and API too); "
            f"a tick takes {(after.took_s - before.took_s) / ticks:.2f} s"
        )
        print(f"memory {memory.rss / 2**20:.0f} MiB")
        print(f"API calls a tick: {json.dumps({key: round(count / ticks, 2) for key, count in sorted(asked.items())})}")
        lists = sum(count for key, count in asked.items() if key.startswith("list "))
        print(f"lists: {lists}")
        if lists:
            raise SystemExit("no list should be needed")
