"""Each way of docs/kubernetes.md does what it says, run as written: the blocks marked ``sh``, in their order.

The test cluster's kubelet can't run images and it has no network. So pods of vLLM's image are emulated engines, and the
place of the chart's pods is taken by a process that runs the very configuration of the chart's ConfigMap with the token
of the chart's service account; the test maps the ports. Blocks marked ``console`` need what is not here (docker, a
registry, port-forward) and are not run. That service account is all that the controller has: whole loops run with the
rights that the chart gives, mode Scale for the direct way and Advise for the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.chat import GPU, lowest, replicas, resource
from tests.cluster.gateways import gateway
from tests.cluster.installed import RELEASE
from tests.cluster.load import Load
from tests.cluster.processes import wait_for
from tests.cluster.quickstart import Terminal, blocks
from tests.cluster.running import Cluster
from tests.cluster.workloads import await_ready_pods, condition

pytestmark = pytest.mark.cluster

SLICE = "nvidia.com/mig-3g.40gb"


@pytest.fixture
def terminal(cluster: Cluster, tmp_path: Path) -> Iterator[Terminal]:
    """For a namespace of its own, with a node that has eight GPUs and two slices."""
    with cluster.namespace() as name, cluster.nodes.added(f"gpu-{name}", resources={GPU: "8", SLICE: "2"}):
        opened = Terminal(cluster, name, tmp_path)
        try:
            yield opened
        finally:
            opened.close()


def follow(terminal: Terminal, section: str) -> None:
    """From the first step to the last; then load comes, and goes again."""
    cluster, namespace = terminal.cluster, terminal.namespace
    for block in blocks(section):
        terminal.paste(block)
    assert terminal.controller is not None
    log = terminal.controller.log
    await_ready_pods(cluster, namespace, 1, app="chat")
    with Load(cluster, namespace, rps=25):
        wait_for(lambda: replicas(cluster, namespace) >= 3, f"three replicas; see {log}", within_s=180)
    wait_for(lambda: replicas(cluster, namespace) == 1, f"back to one; see {log}", within_s=240)
    for block in blocks("What to look at"):
        assert "chat" in terminal.paste(block)
    assert "forbidden" not in log.read_text()
    assert condition(resource(cluster, namespace), "OwnerConflict")["status"] == "False"
    for block in blocks("Removing it"):
        terminal.paste(block)
    assert replicas(cluster, namespace) == 1, "what runs is left as it is"


def test_directly(terminal: Terminal) -> None:
    follow(terminal, "Directly")


def test_through_an_hpa(terminal: Terminal) -> None:
    terminal.cluster.remove_api_service()
    follow(terminal, "Through an HPA")


def test_through_keda(terminal: Terminal) -> None:
    with terminal.cluster.keda_serving():
        follow(terminal, "Through KEDA")


def test_to_zero_and_back(terminal: Terminal) -> None:
    cluster, namespace = terminal.cluster, terminal.namespace
    for block in (*blocks("Directly"), *blocks("To zero and back")):
        terminal.paste(block)
    # Five minutes, and twice the assumed start-up time, are too long for a test.
    sooner = '{"spec": {"idle": {"after": "5s", "minUptimeFactor": 0}}}'
    terminal.paste(f"kubectl patch ia chat --type=merge --patch '{sooner}'")
    with gateway(cluster, terminal.folder / "g", RELEASE, serves=namespace) as one:
        wait_for(lambda: replicas(cluster, namespace) == 0, "to zero", within_s=240)
        await_ready_pods(cluster, namespace, 0, app="chat")
        status, _ = one.ask({"model": "chat", "prompt": "one two three four", "max_tokens": 20})
        assert status == 200, "by a replica that was started for it"


def test_several_kinds_of_replica(terminal: Terminal) -> None:
    """Of the two replicas that the Deployments begin with, the cheaper one is enough."""
    cluster, namespace = terminal.cluster, terminal.namespace
    _, install, *_ = blocks("Directly")
    for block in (install, *blocks("Several kinds of replica")):
        terminal.paste(block)

    def asked_for() -> tuple[int, int]:
        return replicas(cluster, namespace, "chat-slice"), replicas(cluster, namespace, "chat-whole")

    wait_for(lambda: asked_for() == (1, 0), "the slice alone serves", within_s=240)


def test_moving_over_takes_no_replica_away(terminal: Terminal) -> None:
    cluster, namespace = terminal.cluster, terminal.namespace
    engines, *_ = blocks("Directly")
    terminal.paste(engines)
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat"}
    usage = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}
    before = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "chat"},
        "spec": {
            "minReplicas": 2,
            "maxReplicas": 8,
            "scaleTargetRef": target,
            "metrics": [{"type": "Resource", "resource": usage}],
        },
    }
    cluster.apply([before], namespace=namespace)
    await_ready_pods(cluster, namespace, 2, app="chat")
    with lowest(cluster, namespace) as least:
        for block in blocks("Moving from another autoscaler"):
            terminal.paste(block)
        terminal.paste("""kubectl patch ia chat --type=merge --patch '{"spec": {"minReplicas": 3}}'""")
        wait_for(lambda: replicas(cluster, namespace) == 3, "the controller scales")
    assert least() == 2
