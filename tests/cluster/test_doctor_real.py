"""The command ``doctor`` on a real control plane: a world in which much is wrong, and one in which nothing is."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cluster.api import ApiError, Json
from tests.cluster.controllers import ControllerProcess, running
from tests.cluster.nodes import gpu_labels
from tests.cluster.processes import free_port, wait_for
from tests.cluster.running import ROOT, Cluster
from tests.cluster.workloads import await_ready_pods, deployment, pod_template

pytestmark = pytest.mark.cluster

GPU = "nvidia.com/gpu"
ENGINE = "--model chat --startup-s 0"
ACCOUNT = "gpu-autoscaler"
CHART = ROOT / "charts/gpu-autoscaler"
GENTLE = {
    "readinessProbe": {"httpGet": {"path": "/health", "port": 8000}},
    "lifecycle": {"preStop": {"sleep": {"seconds": 5}}},
}


@pytest.fixture(scope="module", autouse=True)
def kind(cluster: Cluster) -> None:
    """The custom resource is known."""
    cluster.define_kinds(CHART / "crds")


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """One of its own for each test."""
    with cluster.namespace() as name:
        yield name


def doctor(cluster: Cluster, namespace: str, *arguments: str) -> tuple[int, list[Json]]:
    """The exit code, and the findings."""
    command = [sys.executable, "-m", "autoscaler.cli", "doctor", "--output", "json", "-n", namespace]
    command += ["--kubeconfig", str(cluster.kubeconfig), "--lease-namespace", namespace, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout, done.stderr
    told = json.loads(done.stdout)
    assert told["errors"] == sum(1 for each in told["findings"] if each["severity"] == "error")
    return done.returncode, told["findings"]


def table(findings: list[Json], severity: str) -> str:
    """Those as bad as that, to be looked into."""
    return "\n".join(
        f"{each['check']} {each['object']}: {each['message']}" for each in findings if each["severity"] == severity
    )


def has(findings: list[Json], severity: str, check: str, *words: str) -> bool:
    """Whether there is one, with all the words in what it says of its object, and with a fix."""
    return any(
        each["severity"] == severity
        and each["check"] == check
        and each["fix"]
        and all(word in f"{each['object']} {each['message']} {each['fix']}" for word in words)
        for each in findings
    )


def autoscaler(name: str, target: str, **spec: object) -> Json:
    return {
        "apiVersion": "gpu-autoscaler.io/v1alpha1",
        "kind": "InferenceAutoscaler",
        "metadata": {"name": name},
        "spec": {
            "slo": {"ttft": "1s"},
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": target},
            "maxReplicas": 6,
            **spec,
        },
    }


def hpa(name: str, target: str, metric: Json, **spec: object) -> Json:
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": target},
            "minReplicas": 1,
            "maxReplicas": 4,
            "metrics": [metric],
            **spec,
        },
    }


def engines(name: str, *, resources: dict[str, str], **pod: object) -> Json:
    template = pod_template(name, behaviour={"engine": ENGINE}, resources=resources, spec=pod)
    return deployment(name, replicas=1, template=template)


def refuse_marks(cluster: Cluster, namespace: str) -> None:
    """A policy that admits no deletion cost on the namespace's pods; returns when it is in force."""
    name = f"no-costs-{namespace}"
    cluster.apply(
        [
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "ValidatingAdmissionPolicy",
                "metadata": {"name": name},
                "spec": {
                    "matchConstraints": {
                        "resourceRules": [
                            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods"]}
                        ]
                    },
                    "validations": [
                        {
                            "expression": "!has(object.metadata.annotations) || "
                            "!('controller.kubernetes.io/pod-deletion-cost' in object.metadata.annotations)",
                            "message": "no deletion costs here",
                        }
                    ],
                },
            },
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "ValidatingAdmissionPolicyBinding",
                "metadata": {"name": name},
                "spec": {
                    "policyName": name,
                    "validationActions": ["Deny"],
                    "matchResources": {
                        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
                    },
                },
            },
        ]
    )
    pod = cluster.pods(namespace, "app=contested")[0]["metadata"]["name"]
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}"
    body = {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "1"}}}

    def refused() -> bool:
        try:
            cluster.api.request("PATCH", path, body, content_type="application/merge-patch+json", dryRun="All")
        except ApiError as error:
            return "no deletion costs here" in str(error)
        return False

    wait_for(refused, "the policy is in force")


@pytest.fixture
def broken(cluster: Cluster, namespace: str) -> Iterator[str]:
    """A namespace in which much is wrong, and a node whose slices could not be cut."""
    labels = gpu_labels("NVIDIA-H100", count=8, mig_strategy="mixed", mig_config="all-1g.10gb")
    labels["nvidia.com/mig.config.state"] = "failed"
    external = {"metric": {"name": "desired_replicas", "selector": {"matchLabels": {"service": "nobody"}}}}
    cpu = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}
    node = f"gpu-{namespace}"
    with cluster.nodes.added(node, resources={GPU: "8"}, labels=labels):
        cluster.apply(
            [
                engines("contested", resources={GPU: "1"}),
                engines("sliced", resources={"nvidia.com/mig-9g.99gb": "1"}),
                engines("elsewhere", resources={GPU: "1"}),
                autoscaler("first", "contested", mode="Scale"),
                autoscaler("second", "contested", mode="Scale"),
                autoscaler("lost", "not-there"),
                autoscaler("slices", "sliced"),
                autoscaler("blind", "elsewhere", metrics={"path": "/nothing"}),
                hpa("rival", "contested", cpu),
                hpa(
                    "follower",
                    "elsewhere",
                    {"type": "External", "external": {**external, "target": {"type": "Value", "value": "3"}}},
                    behavior={"scaleUp": {"tolerance": "0"}},
                ),
                {
                    "apiVersion": "networking.k8s.io/v1",
                    "kind": "NetworkPolicy",
                    "metadata": {"name": "closed"},
                    "spec": {"podSelector": {}, "policyTypes": ["Ingress"]},
                },
                {
                    "apiVersion": "v1",
                    "kind": "ResourceQuota",
                    "metadata": {"name": "small"},
                    "spec": {"hard": {f"requests.{GPU}": "3"}},
                },
            ],
            namespace=namespace,
        )
        await_ready_pods(cluster, namespace, 1, app="contested")
        await_ready_pods(cluster, namespace, 1, app="elsewhere")
        refuse_marks(cluster, namespace)
        try:
            yield namespace
        finally:
            for plural in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
                cluster.api.delete(f"/apis/admissionregistration.k8s.io/v1/{plural}/no-costs-{namespace}")


def test_each_fault_is_told_with_its_fix(cluster: Cluster, broken: str) -> None:
    cluster.remove_api_service()
    code, findings = doctor(cluster, broken, "--as", f"system:serviceaccount:{broken}:default")
    assert code == 1
    node = f"gpu-{broken}"
    wanted = [
        ("error", "rights", "pods", "may not list, watch", "add to its ClusterRole"),
        ("error", "rights", "deployments/scale.apps", "get, update", "add to its Role"),
        ("error", "leader", "Lease"),
        ("error", "target", f"InferenceAutoscaler {broken}/lost", "not-there", "spec.targetRef"),
        ("error", "owner", f"{broken}/first", "HorizontalPodAutoscaler rival"),
        ("error", "owner", f"{broken}/second", "InferenceAutoscaler first"),
        ("error", "status", f"{broken}/first", "no decision"),
        ("error", "metrics", f"{broken}/blind", "404", "spec.metrics"),
        ("error", "devices", f"{broken}/slices", "nvidia.com/mig-9g.99gb", "no node offers"),
        ("error", "mig", node, "failed"),
        ("error", "hpa", f"{broken}/follower", "its target is Value 3", "AverageValue"),
        ("error", "hpa", f"{broken}/follower", "matches no InferenceAutoscaler"),
        ("warning", "hpa", f"{broken}/follower", "nine times"),
        ("error", "api-service", "nobody serves external metrics"),
        ("error", "deletion-cost", "no deletion costs here"),
        ("warning", "network-policy", "closed", "port 8000"),
        ("warning", "quota", "small", GPU),
        ("warning", "grace", "30 s", "terminationGracePeriodSeconds"),
        ("warning", "grace", "preStop"),
        ("warning", "readiness", "readinessProbe"),
    ]
    missing = [each for each in wanted if not has(findings, *each)]
    assert missing == [], table(findings, "error") + "\n" + table(findings, "warning")


def test_a_world_without_faults_has_no_error(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    account = f"system:serviceaccount:{namespace}:{ACCOUNT}"
    rights = cluster.helm(
        *("template", ACCOUNT, str(CHART), "--namespace", namespace, "--set", "externalMetrics.enabled=true"),
        *("--show-only", "templates/rbac.yaml", "--show-only", "templates/serviceaccount.yaml"),
    )
    cluster.apply(rights, namespace=namespace)
    pair = cluster.certificates.ca.issue(f"doctor-{namespace}", hosts=(f"{ACCOUNT}.{namespace}.svc", "localhost"))
    port = free_port()
    served = {"certificateFile": str(pair.certificate), "keyFile": str(pair.key), "host": "127.0.0.1", "port": port}
    settings = {"namespaces": [namespace], "externalMetrics": {"enabled": True, **served}}
    controller = ControllerProcess(
        cluster,
        tmp_path,
        namespace,
        cluster.kubeconfig_for_service_account(namespace, ACCOUNT),
        settings={**settings, "leaderElection": {"namespace": namespace}},
    )
    labels = gpu_labels("NVIDIA-H100", count=8)
    with cluster.nodes.added(f"gpu-{namespace}", resources={GPU: "8"}, labels=labels), running(controller):
        pods = engines("chat", resources={GPU: "1"}, terminationGracePeriodSeconds=300)
        pods["spec"]["template"]["spec"]["containers"][0].update(GENTLE)
        cluster.apply([pods, autoscaler("chat", "chat")], namespace=namespace)
        await_ready_pods(cluster, namespace, 1, app="chat")
        with cluster.api_service(namespace=namespace, service=ACCOUNT, port=port):
            cluster.apply(_follower(cluster, namespace, tmp_path), namespace=namespace)
            config = str(tmp_path / f"{controller.name}.yaml")
            found: list[Json] = []

            def well() -> bool:
                """Once the first decisions are made and read."""
                code, found[:] = doctor(cluster, namespace, "--config", config, "--as", account)
                return code == 0

            wait_for(well, "no error", within_s=120)
    assert table(found, "error") == ""
    # Certificates of a test cluster last for a day.
    assert {each["check"] for each in found if each["severity"] == "warning"} <= {"certificate"}, table(
        found, "warning"
    )
    assert {"api-server", "rights", "leader", "metrics", "hpa", "api-service"} <= {each["check"] for each in found}


def _follower(cluster: Cluster, namespace: str, folder: Path) -> str:
    """What ``manifests hpa`` prints."""
    file = folder / "chat.yaml"
    file.write_text(yaml.safe_dump(autoscaler("chat", "chat")))
    command = [sys.executable, "-m", "autoscaler.cli", "manifests", "hpa", "chat", "-f", str(file), "-n", namespace]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def keda(cluster: Cluster) -> Iterator[None]:
    """KEDA owns external metrics."""
    with cluster.keda_serving():
        yield


def test_keda_and_its_objects_are_told_from_ours(cluster: Cluster, namespace: str, keda: None) -> None:
    trigger = {"scalerAddress": f"nobody.{namespace}.svc:9090", "service": "chat"}
    scaled_object = {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "chat"},
        "spec": {
            "scaleTargetRef": {"name": "chat"},
            "maxReplicaCount": 3,
            "fallback": {"failureThreshold": 3, "replicas": 2},
            "triggers": [{"type": "external", "metadata": trigger}],
        },
    }
    external = {"metric": {"name": "desired_replicas", "selector": {"matchLabels": {"service": "other"}}}}
    ours = {"type": "External", "external": {**external, "target": {"type": "AverageValue", "averageValue": "1"}}}
    cluster.apply(
        [
            engines("chat", resources={}),
            engines("other", resources={}),
            autoscaler("chat", "chat"),
            autoscaler("other", "other"),
            hpa("other", "other", ours),
            scaled_object,
        ],
        namespace=namespace,
    )
    await_ready_pods(cluster, namespace, 1, app="chat")
    code, findings = doctor(cluster, namespace)
    assert code == 1
    wanted = [
        ("error", "api-service", "KEDA", "HPAs that read our number there get none (1)", "manifests keda"),
        ("error", "scaled-object", f"{namespace}/chat", "a Service that is not there"),
        ("warning", "scaled-object", f"{namespace}/chat", "stops at 3"),
        ("warning", "scaled-object", f"{namespace}/chat", "falls back to 2"),
        ("warning", "scaled-object", f"{namespace}/chat", "external-push"),
    ]
    missing = [each for each in wanted if not has(findings, *each)]
    assert missing == [], table(findings, "error") + "\n" + table(findings, "warning")
    assert not has(findings, "error", "owner"), table(findings, "error")


def test_a_reader_without_rights_gets_findings_and_no_failure(cluster: Cluster, namespace: str) -> None:
    config = cluster.kubeconfig_for_service_account(namespace, "default")
    code, findings = doctor(cluster, namespace, "--kubeconfig", str(config))
    assert code == 1
    assert has(findings, "warning", "node", "it could not be looked at", 'cannot list resource "nodes"')
    assert has(findings, "error", "rights", "the user of this kubeconfig may not list")
    assert {each["check"] for each in findings} >= {"version", "rights", "spec", "hpa", "mig", "quota"}


def test_a_server_that_is_not_there_is_one_finding(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    text = cluster.kubeconfig.read_text().replace(cluster.server, f"https://127.0.0.1:{free_port()}")
    away = tmp_path / "away.conf"
    away.write_text(text)
    code, findings = doctor(cluster, namespace, "--kubeconfig", str(away))
    assert code == 1
    assert [each["check"] for each in findings] == ["api-server"]
