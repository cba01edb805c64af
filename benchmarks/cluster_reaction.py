"""From a load step to the new number in an HPA: ``python -m benchmarks.cluster_reaction [--steps 5]``.

A real control plane, where an HPA looks each second (15 s is the default elsewhere), emulated engines in pods, and the
controller at an interval of one second. Each step falls on a service that had a few requests before and none now; the
time runs from its first request to the first look at which the HPA asks for more replicas.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests.cluster import chat
from tests.cluster.controllers import running
from tests.cluster.load import Load
from tests.cluster.processes import NotReadyError, wait_for
from tests.cluster.running import Cluster, running_cluster

STEP_RPS = 23.0
TARGET_S = 2.0
HPA_PERIOD_S = 1.0
GIVE_UP_S = 60.0
SETTLE_S = 10.0
CRDS = Path(__file__).parents[1] / "charts" / "gpu-autoscaler" / "crds"


def step(cluster: Cluster, folder: Path) -> float:
    """Seconds from a load step on a new service until its HPA asks for more than one replica."""
    with ExitStack() as opened:
        namespace = opened.enter_context(cluster.namespace())
        opened.enter_context(cluster.nodes.added(f"gpu-{namespace}", resources={chat.GPU: "8"}))
        settings = chat.serving_external_metrics(cluster, folder)
        controller = opened.enter_context(running(chat.member(cluster, namespace, folder, **settings)))
        port = settings["externalMetrics"]["port"]
        opened.enter_context(cluster.api_service(namespace="autoscaler", service="metrics", port=port))
        chat.deploy(cluster, namespace)
        cluster.apply([chat.autoscaler(mode="Advise")], namespace=namespace)
        cluster.apply(chat.manifests("hpa", namespace, folder))
        wait_for(lambda: chat.hpa_condition(cluster, namespace).get("status") == "True", "the HPA reads the number")
        with Load(cluster, namespace, rps=1):  # one that was used before: the lengths of its requests are known
            time.sleep(SETTLE_S)
        time.sleep(SETTLE_S)
        path = f"/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers/chat"
        with Load(cluster, namespace, rps=STEP_RPS) as load:
            try:
                wait_for(
                    lambda: cluster.api.get(path)["status"].get("desiredReplicas", 0) > 1,
                    f"the HPA asks for more; see {controller.log}",
                    within_s=GIVE_UP_S,
                )
            except NotReadyError:
                return float("inf")
            assert load.begun_s is not None
            return time.monotonic() - load.begun_s


def main() -> None:
    """Run it and print one line a step; exit 1 above the target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=5)
    steps: int = parser.parse_args().steps
    took = []
    with tempfile.TemporaryDirectory() as folder, running_cluster(Path(folder)) as cluster:
        cluster.define_kinds(CRDS)
        for number in range(steps):
            place = Path(folder) / f"step-{number}"
            place.mkdir()
            took.append(step(cluster, place))
            print(f"step {number}: {took[-1]:.2f} s", flush=True)
    median_s = statistics.median(took)
    print(f"load step to the HPA's new number: median {median_s:.2f} s, largest {max(took):.2f} s")
    if median_s > TARGET_S + HPA_PERIOD_S:
        raise SystemExit(f"above the target of {TARGET_S:g} s and the HPA's period of {HPA_PERIOD_S:g} s")


if __name__ == "__main__":
    main()
