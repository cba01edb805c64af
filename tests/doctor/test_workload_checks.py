"""Facts of nodes and pods -> findings."""

from __future__ import annotations

import pytest

from autoscaler.doctor.finding import CheckId, Severity
from autoscaler.ports import RefusedError
from tests.doctor.spoiling import Spoil, assigned, bad, container, each_pod, found, labelled, policy, quota
from tests.doctor.world import Json, World, node

ERROR, WARNING = Severity.ERROR, Severity.WARNING


@pytest.mark.parametrize(
    ("spoil", "severity", "check", "words"),
    [
        pytest.param(labelled({"mig.config.state": "failed"}), ERROR, CheckId.MIG, "failed", id="MIG failed"),
        pytest.param(labelled({"mig.config.state": "pending"}), WARNING, CheckId.MIG, "cut anew", id="MIG pending"),
        pytest.param(labelled({"mig.strategy": "single"}), WARNING, CheckId.MIG, "strategy single", id="MIG single"),
        pytest.param(
            labelled({"mig.strategy": "mixed", "mig-1g.10gb.count": "7"}),
            WARNING,
            CheckId.MIG,
            "it has 7 nvidia.com/mig-1g.10gb by its labels and offers 0",
            id="slices not offered",
        ),
        pytest.param(
            assigned(
                "nodes",
                [
                    node(
                        "gpu-0",
                        labels={"nvidia.com/mig.strategy": "none"},
                        devices={"nvidia.com/mig-1g.10gb": "7", "nvidia.com/gpu": "1"},
                    )
                ],
            ),
            WARNING,
            CheckId.MIG,
            "left from before",
            id="stale slices",
        ),
        pytest.param(
            labelled({"gpu.replicas": "4", "gpu.sharing-strategy": "time-slicing"}),
            WARNING,
            CheckId.SHARING,
            "4 pods to a GPU",
            id="time slicing",
        ),
        pytest.param(
            assigned("nodes", [node("gpu-0", devices={"nvidia.com/gpu": "0"})]),
            WARNING,
            CheckId.NODE,
            "offers none",
            id="no device plugin",
        ),
        pytest.param(
            assigned("nodes", [node("gpu-0", devices={"amd.com/gpu": "8"})]),
            ERROR,
            CheckId.DEVICES,
            "no node offers",
            id="no such device",
        ),
        pytest.param(
            lambda world: container(world)["resources"]["limits"].update({"nvidia.com/gpu": "4"}),
            ERROR,
            CheckId.DEVICES,
            "the largest has 2",
            id="too many devices in a pod",
        ),
        pytest.param(
            lambda world: world.deployment["spec"]["template"]["spec"].update(nodeSelector={"gpu": "b300"}),
            ERROR,
            CheckId.DEVICES,
            "gpu=b300",
            id="no such label",
        ),
        pytest.param(
            lambda world: world.deployment["spec"]["template"]["spec"].update(terminationGracePeriodSeconds=30),
            WARNING,
            CheckId.GRACE,
            "30 s to end",
            id="short grace",
        ),
        pytest.param(
            each_pod(lambda pod: pod["spec"]["containers"][0].pop("lifecycle")),
            WARNING,
            CheckId.GRACE,
            "no preStop",
            id="no preStop",
        ),
        pytest.param(
            each_pod(lambda pod: pod["spec"]["containers"][0].pop("readinessProbe")),
            WARNING,
            CheckId.READINESS,
            "no readiness probe",
            id="no readiness probe",
        ),
        pytest.param(
            assigned("marked", {"shop/chat-1": RefusedError("403 admission webhook kyverno denied")}),
            ERROR,
            CheckId.DELETION_COST,
            "kyverno",
            id="mark refused by admission",
        ),
        pytest.param(
            assigned("marked", {"shop/chat-1": RefusedError('403 cannot patch resource "pods"')}),
            WARNING,
            CheckId.DELETION_COST,
            "you may not patch pods",
            id="mark can't be tried",
        ),
        pytest.param(
            assigned("network_policies", [policy([])]), WARNING, CheckId.NETWORK_POLICY, "closed", id="no ingress"
        ),
        pytest.param(
            assigned("network_policies", [policy([{"ports": [{"port": 80}]}])]),
            WARNING,
            CheckId.NETWORK_POLICY,
            "port 8000",
            id="ingress to another port",
        ),
        pytest.param(
            assigned("network_policies", [policy([{"from": [{"podSelector": {}}]}])]),
            WARNING,
            CheckId.NETWORK_POLICY,
            "another namespace",
            id="ingress from within",
        ),
        pytest.param(
            assigned("quotas", quota("requests.nvidia.com/gpu", hard="3", used="2")),
            WARNING,
            CheckId.QUOTA,
            "leaves 1 of 3 nvidia.com/gpu",
            id="quota on devices",
        ),
        pytest.param(
            assigned("quotas", quota("pods", hard="3", used="2")),
            WARNING,
            CheckId.QUOTA,
            "can have 3 replicas",
            id="quota on pods",
        ),
    ],
)
def test_a_fault_is_found(spoil: Spoil, severity: Severity, check: CheckId, words: str) -> None:
    world = World()
    spoil(world)
    told = [each for each in found(world) if each.check is check and each.severity is severity]
    assert any(words in f"{each.message} {each.fix}" for each in told), [each.message for each in told]
    assert all(each.fix for each in told)


@pytest.mark.parametrize(
    "policies",
    [
        pytest.param([policy([{}])], id="from everywhere"),
        pytest.param([policy([{"ports": [{"port": 7000, "endPort": 9000}]}])], id="a range of ports"),
        pytest.param([policy([]), policy([{"from": [{"namespaceSelector": {}}]}])], id="by another policy"),
    ],
)
def test_a_policy_that_lets_the_controller_in_is_no_fault(policies: list[Json]) -> None:
    assert bad(found(World(network_policies=policies))) == []


@pytest.mark.parametrize(
    ("status", "severity", "words"),
    [
        pytest.param({}, Severity.OK, "never a scale-down", id="not judged yet"),
        pytest.param(
            {"disruptionsAllowed": 1, "currentHealthy": 2, "expectedPods": 2}, Severity.OK, "evictions", id="one may go"
        ),
        pytest.param(
            {"disruptionsAllowed": 0, "currentHealthy": 1, "expectedPods": 2}, Severity.OK, "evictions", id="one is ill"
        ),
        pytest.param(
            {"disruptionsAllowed": 0, "currentHealthy": 0, "expectedPods": 0}, Severity.OK, "evictions", id="no pod"
        ),
        pytest.param(
            {"disruptionsAllowed": 0, "currentHealthy": 2, "expectedPods": 2},
            WARNING,
            "drained",
            id="none may go",
        ),
    ],
)
def test_a_budget_that_lets_no_pod_go_is_told_from_one_that_waits(status: Json, severity: Severity, words: str) -> None:
    world = World()
    labels = world.pods[0]["metadata"]["labels"]
    namespace = world.pods[0]["metadata"]["namespace"]
    world.budgets = [
        {
            "metadata": {"name": "keep", "namespace": namespace},
            "spec": {"minAvailable": 2, "selector": {"matchLabels": labels}},
            "status": status,
        }
    ]
    told = [each for each in found(world) if each.check is CheckId.DISRUPTION_BUDGET]
    assert [each.severity for each in told] == [severity]
    assert words in told[0].message
