"""The rights that the chart gives are those that the controller uses: the API server's audit log says which.

The controller runs as the chart's service account, and has to do everything that it can do: read and scale every kind
of target, mark pods, write statuses, events and its Lease, and ask who its callers are.
"""

from __future__ import annotations

import json
import socket
import ssl
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from adapters.kubernetes.connection import KubernetesApi
from adapters.kubernetes.event_folding import EventType, Limits, Subject
from adapters.kubernetes.events import EventRecorder
from tests.cluster.api import Json
from tests.cluster.build import keda_crds
from tests.cluster.chart import Release, release_in
from tests.cluster.controllers import ControllerProcess, running
from tests.cluster.processes import free_port, wait_for
from tests.cluster.running import Cluster
from tests.cluster.workloads import await_ready_pods, deployment, pod_template

pytestmark = pytest.mark.cluster

FLEETS = {"group": "test.gpu-autoscaler.io", "resource": "fleets"}
VALUES: dict[str, Any] = {
    "mode": "Scale",
    "targets": {"rayServices": True, "nimServices": True, "custom": [FLEETS]},
    "externalMetrics": {"enabled": True},
}
ENGINE = "--model chat --step-base-ms 18 --max-num-seqs 4 --startup-s 0"
Right = tuple[str, str, str]  # verb, API group, resource with its subresource


def vpa_definition() -> Json:
    """The kind of the Vertical Pod Autoscaler, as far as it matters here."""
    group, plural = "autoscaling.k8s.io", "verticalpodautoscalers"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": "VerticalPodAutoscaler"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


def targets() -> list[Json]:
    """One object of each kind, with one replica; the Deployment has three."""
    container = {"name": "engine", "image": "engine:test"}
    template = pod_template("chat", behaviour={"engine": ENGINE})
    waiting = pod_template("waiting", spec={"nodeSelector": {"there-is": "none"}})
    stateful = deployment("stateful", replicas=1, template=waiting)
    return [
        deployment("chat", replicas=3, template=template),
        {**stateful, "kind": "StatefulSet", "spec": {**stateful["spec"], "serviceName": "stateful"}},
        _object(
            "leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            {
                "replicas": 1,
                "leaderWorkerTemplate": {"size": 2, "workerTemplate": {"spec": {"containers": [container]}}},
            },
        ),
        _object("test.gpu-autoscaler.io/v1", "Fleet", {"size": 1}),
        _object(
            "ray.io/v1",
            "RayService",
            {
                "rayClusterConfig": {
                    "workerGroupSpecs": [
                        {"groupName": "gpu", "replicas": 1, "template": {"spec": {"containers": [container]}}}
                    ]
                }
            },
        ),
        _object("apps.nvidia.com/v1alpha1", "NIMService", {"replicas": 1}),
        _object("serving.kserve.io/v1beta1", "InferenceService", {}),
    ]


def _object(version: str, kind: str, spec: Mapping[str, Any]) -> Json:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": kind.lower()}, "spec": spec}


def asking_for(target: Json, *, at_least: int, at_most: int) -> Json:
    """An InferenceAutoscaler on it, whose bounds alone want another number."""
    kind, name = target["kind"], target["metadata"]["name"]
    group = {"workerGroup": "gpu"} if kind == "RayService" else {}
    return {
        "apiVersion": "gpu-autoscaler.io/v1alpha1",
        "kind": "InferenceAutoscaler",
        "metadata": {"name": name},
        "spec": {
            "mode": "Scale",
            "slo": {"ttft": "1s"},
            "engine": "vllm",
            "startup": "1s",
            "minReplicas": at_least,
            "maxReplicas": at_most,
            "targetRef": {"apiVersion": target["apiVersion"], "kind": kind, "name": name, **group},
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
        },
    }


@pytest.fixture
def kinds(cluster: Cluster, tmp_path: Path) -> Iterator[None]:
    """All kinds that the controller looks at are defined."""
    cluster.define_kinds(keda_crds())
    folder = tmp_path / "crds"
    folder.mkdir()
    (folder / "vpa.yaml").write_text(json.dumps(vpa_definition()))
    cluster.define_kinds(folder)
    yield
    name = vpa_definition()["metadata"]["name"]
    cluster.api.delete(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")


@pytest.fixture
def release(cluster: Cluster, kinds: None, tmp_path: Path) -> Iterator[Release]:
    """The chart, not installed yet."""
    with release_in(cluster, tmp_path) as made:
        yield made


def tell_pods(release: Release) -> None:
    """What operators say in the status of their objects: which pods are theirs."""
    told: tuple[tuple[str, Json], ...] = (
        ("test.gpu-autoscaler.io/v1/namespaces/{}/fleets/fleet", {"selector": "app=fleet"}),
        ("ray.io/v1/namespaces/{}/rayservices/rayservice", {"activeServiceStatus": {"rayClusterName": "ray"}}),
    )
    for path, status in told:
        release.cluster.api.patch(f"/apis/{path.format(release.namespace)}/status", {"status": status})


def controller_of(release: Release, namespaces: Sequence[str] = ()) -> ControllerProcess:
    """A replica as the release's service account, with the release's certificate."""
    account = release.cluster.kubeconfig_for_service_account(release.namespace, release.name)
    for name, content in release.secret("tls").items():
        (release.folder / name).write_bytes(content)
    settings = {
        "namespaces": list(namespaces),
        "leaderElection": {"leaseName": release.name},
        "externalMetrics": {
            **{"enabled": True, "host": "127.0.0.1", "port": free_port()},
            **{"certificateFile": str(release.folder / "tls.crt"), "keyFile": str(release.folder / "tls.key")},
        },
    }
    return ControllerProcess(release.cluster, release.folder, release.namespace, account, settings=settings)


def counts(release: Release, objects: Iterable[Json]) -> dict[str, int]:
    """What each target is asked for, by kind."""
    found = {}
    for each in objects:
        named = {**each, "metadata": {**each["metadata"], "namespace": release.namespace}}
        spec = release.cluster.api.get(release.cluster.api.path_of(named))["spec"]
        match each["kind"]:
            case "Fleet":
                found[each["kind"]] = spec["size"]
            case "RayService":
                found[each["kind"]] = spec["rayClusterConfig"]["workerGroupSpecs"][0]["replicas"]
            case "InferenceService":
                pass
            case kind:
                found[kind] = spec["replicas"]
    return found


def ask_directly(release: Release, controller: ControllerProcess) -> int:
    """The status of a read of external metrics by an account that may not read them."""
    context = ssl.create_default_context(cafile=str(release.folder / "ca.crt"))
    port = controller.settings["externalMetrics"]["port"]
    host = f"{release.name}-metrics.{release.namespace}.svc"
    path = f"/apis/external.metrics.k8s.io/v1beta1/namespaces/{release.namespace}/desired_replicas"
    token = release.cluster.token(release.namespace, "default")
    lines = (f"GET {path} HTTP/1.1", f"Host: {host}", f"Authorization: Bearer {token}", "Connection: close", "", "")
    with (
        socket.create_connection(("127.0.0.1", port), timeout=30) as plain,
        context.wrap_socket(plain, server_hostname=host) as connection,
    ):
        connection.sendall("\r\n".join(lines).encode())
        return int(connection.recv(4096).split(b" ", 2)[1])


def repeat_an_event(release: Release) -> None:
    """A happening that goes on is counted in its event; the controller does so once a minute."""
    api = KubernetesApi.of_kubeconfig(release.cluster.kubeconfig_for_service_account(release.namespace, release.name))
    limits = Limits(count_every_s=0.1)
    recorder = EventRecorder(api, instance="test", now_s=time.time, limits=limits)
    recorder.start()
    subject = Subject(
        api_version="gpu-autoscaler.io/v1alpha1",
        kind="InferenceAutoscaler",
        namespace=release.namespace,
        name="chat",
        uid="1",
    )

    def counted() -> bool:
        recorder.record(subject, type=EventType.NORMAL, reason="Tested", action="Test", note="again")
        path = f"/apis/events.k8s.io/v1/namespaces/{release.namespace}/events"
        return any("series" in each for each in release.cluster.api.items(path) if each["reason"] == "Tested")

    wait_for(counted, "the event is counted")
    recorder.close()
    api.close()


def used(release: Release) -> dict[Right, set[int]]:
    """What the account has asked for, with the answers' statuses. Questions of every account are left out."""
    found: dict[Right, set[int]] = {}
    for event in release.cluster.asked_for(release.namespace, release.name):
        asked = event.get("objectRef")
        if asked is None or not asked.get("resource"):
            continue  # discovery, which everybody may read
        resource = "/".join(filter(None, (asked["resource"], asked.get("subresource"))))
        right = (event["verb"], asked.get("apiGroup", ""), resource)
        found.setdefault(right, set()).add(event.get("responseStatus", {}).get("code", 0))
    return found


def granted(release: Release, *names: str) -> set[Right]:
    """By the rules of roles of the release, which are given as paths."""
    api, root = release.cluster.api, "/apis/rbac.authorization.k8s.io/v1"
    return {
        (verb, group, resource)
        for name in names
        for rule in api.get(f"{root}/{name}")["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@pytest.mark.parametrize("bounded", [pytest.param(False, id="everywhere"), pytest.param(True, id="in one namespace")])
def test_every_right_is_used_and_none_is_missing(cluster: Cluster, release: Release, *, bounded: bool) -> None:
    namespaces = [release.namespace] if bounded else []
    release.install({**VALUES, "namespaces": namespaces})
    objects = targets()
    cluster.apply(objects, namespace=release.namespace)
    tell_pods(release)
    await_ready_pods(cluster, release.namespace, 3, app="chat")
    controller = controller_of(release, namespaces)
    with running(controller):
        wanted = [asking_for(each, at_least=2, at_most=4) for each in objects[1:]]
        cluster.apply([asking_for(objects[0], at_least=1, at_most=1), *wanted], namespace=release.namespace)
        others = {"StatefulSet", "LeaderWorkerSet", "Fleet", "RayService", "NIMService"}
        wait_for(
            lambda: {kind for kind, count in counts(release, objects).items() if count == 2} >= others,
            f"all have grown; see {controller.log}",
        )
        # Nothing shrinks before the measuring window is full.
        wait_for(
            lambda: counts(release, objects)["Deployment"] == 1, f"it has shrunk; see {controller.log}", within_s=180
        )
        assert ask_directly(release, controller) == 403
        wait_for(lambda: ("watch", "autoscaling.k8s.io", "verticalpodautoscalers") in used(release), "VPAs are watched")
    repeat_an_event(release)
    asked = used(release)
    refused = {right: statuses for right, statuses in asked.items() if statuses & {401, 403}}
    assert refused == {}
    named = f"{release.namespace}:{release.name}"
    roles = [f"clusterroles/{named}", f"namespaces/{release.namespace}/roles/{release.name}"]
    own = granted(release, *roles, *(f"namespaces/{each}/roles/{named}" for each in namespaces))
    for_callers = granted(
        release,
        "clusterroles/system:auth-delegator",
        "namespaces/kube-system/roles/extension-apiserver-authentication-reader",
    )
    assert own - set(asked) == set(), "given and not used"
    assert set(asked) - own - for_callers == set(), "used and not given"
    assert set(asked) - own >= {
        ("list", "", "configmaps"),
        ("watch", "", "configmaps"),
        ("create", "authentication.k8s.io", "tokenreviews"),
        ("create", "authorization.k8s.io", "subjectaccessreviews"),
    }


def test_advise_decides_and_can_not_write(cluster: Cluster, release: Release) -> None:
    """Even where a resource asks for more than the installation may."""
    release.install({"externalMetrics": {"enabled": True}})
    (chat, *_) = targets()
    cluster.apply([chat, asking_for(chat, at_least=5, at_most=9)], namespace=release.namespace)
    path = f"/apis/gpu-autoscaler.io/v1alpha1/namespaces/{release.namespace}/inferenceautoscalers/chat"
    controller = controller_of(release)
    with running(controller):

        def decided() -> bool:
            return bool(cluster.api.get(path).get("status", {}).get("desiredReplicas") == 5)

        wait_for(decided, f"five are wanted; see {controller.log}")
        wait_for(lambda: _refused(release), "the write is refused")
        assert counts(release, [chat]) == {"Deployment": 3}
    assert _refused(release) <= {("get", "apps", "deployments/scale")}


def _refused(release: Release) -> set[Right]:
    return {right for right, statuses in used(release).items() if 403 in statuses}
