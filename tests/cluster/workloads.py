"""Deployments and bare pods for tests on the cluster, and waiting for what becomes of them."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Mapping

from tests.cluster.api import Json
from tests.cluster.kubelet.behaviour import PREFIX
from tests.cluster.processes import wait_for
from tests.cluster.running import Cluster


def pod_template(
    app: str,
    *,
    behaviour: Mapping[str, str] | None = None,
    resources: Mapping[str, str] | None = None,
    spec: Mapping[str, object] | None = None,
) -> Json:
    """A pod template labelled ``app``. ``behaviour``: annotations as in ``kubelet.behaviour``, without their prefix.

    ``resources``: limits of its one container. ``spec``: more of the pod's spec.
    """
    container = {
        "name": "engine",
        "image": "engine:test",
        "ports": [{"containerPort": 8000}],
        "resources": {"limits": dict(resources or {})},
    }
    annotations = {f"{PREFIX}{name}": value for name, value in (behaviour or {}).items()}
    return {
        "metadata": {"labels": {"app": app}, "annotations": annotations},
        "spec": {"containers": [container], **(spec or {})},
    }


def deployment(name: str, *, replicas: int, template: Json) -> Json:
    """A Deployment of the pods of a template, whose label ``app`` it selects."""
    labels = template["metadata"]["labels"]
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": labels["app"]}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def condition(subject: Json, kind: str) -> Json:
    """The condition of that type; empty where there is none."""
    found = [each for each in subject.get("status", {}).get("conditions", []) if each["type"] == kind]
    return found[0] if found else {}


def is_ready(pod: Json) -> bool:
    """Its Ready condition is true."""
    return bool(condition(pod, "Ready").get("status") == "True")


def await_pods(
    cluster: Cluster, namespace: str, wanted: Callable[[list[Json]], object], what: str, *, app: str = ""
) -> list[Json]:
    """The namespace's pods (those labelled ``app`` where given) as soon as they are as wanted. Raises NotReadyError."""
    found: list[Json] = []

    def as_wanted() -> object:
        found[:] = cluster.pods(namespace, f"app={app}" if app else "")
        return wanted(found)

    wait_for(as_wanted, what)
    return found


def await_ready_pods(cluster: Cluster, namespace: str, count: int, *, app: str = "") -> list[Json]:
    """The pods, once there are exactly that many and all are ready. Raises NotReadyError."""

    def all_ready(pods: list[Json]) -> bool:
        return len(pods) == count and all(is_ready(each) for each in pods)

    return await_pods(cluster, namespace, all_ready, f"{count} ready pods in {namespace}", app=app)


def ask(
    pod: Json, path: str, body: object = None, *, method: str = "", port: int = 8000, timeout_s: float = 30.0
) -> tuple[int, bytes]:
    """One HTTP request to a pod's address, GET or (with a body) POST unless named; status and body. Raises OSError."""
    connection = http.client.HTTPConnection(pod["status"]["podIP"], port, timeout=timeout_s)
    try:
        chosen = method or ("GET" if body is None else "POST")
        connection.request(chosen, path, None if body is None else json.dumps(body))
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()
