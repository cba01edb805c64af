"""A small API server of a few objects: lists, watches, scale subresources, and versions that are insisted on."""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Callable, Iterable
from typing import Any

from tests.adapters_kubernetes.scripted_server import Exchange, Request, answered, told, watch_held

Json = dict[str, Any]
_PLURALS = {
    "Deployment": "deployments",
    "StatefulSet": "statefulsets",
    "LeaderWorkerSet": "leaderworkersets",
    "InferenceService": "inferenceservices",
    "RayService": "rayservices",
    "RayCluster": "rayclusters",
    "NIMService": "nimservices",
    "EngineSet": "enginesets",
    "Job": "jobs",
    "Pod": "pods",
    "HorizontalPodAutoscaler": "horizontalpodautoscalers",
}
_NO_SCALE = ("InferenceService", "RayService", "RayCluster", "NIMService", "Job", "Pod")


class ObjectServer:
    """What it holds, by path. ``written``: the requests that would change something; ``refused``: all that are
    answered 403, by verb. ``most``: an admission policy's limit on counts written through /scale.
    ``silent``: connections are taken and nothing is said.
    """

    def __init__(self, objects: Iterable[Json]) -> None:
        self._lock = threading.Lock()
        self._objects: dict[str, Json] = {}
        self._version = 1000
        self.written: list[Request] = []
        self.refused: set[str] = set()
        self.most = 1000
        self.silent = False
        for each in objects:
            self._objects[_path(each)] = copy.deepcopy(each)

    def get(self, source: Json) -> Json:
        """The object as it is now."""
        return copy.deepcopy(self._objects[_path(source)])

    def change(self, source: Json, **spec: object) -> None:
        """Somebody else changes its spec."""
        with self._lock:
            self._keep(_path(source), {**self._objects[_path(source)]["spec"], **spec})

    def replaced(self, source: Json) -> None:
        """Deleted and made anew."""
        with self._lock:
            self._objects[_path(source)]["metadata"]["uid"] = "another"

    def __call__(self, exchange: Exchange) -> None:
        self.answer(exchange)

    def answer(self, exchange: Exchange, afterwards: Callable[[], None] = lambda: None) -> None:
        """``afterwards`` is done when the answer is settled and before it is sent."""
        request = exchange.request
        if request.verb != "GET":
            self.written.append(request)
        if self.silent:
            exchange.hold()
            return
        if request.verb in self.refused:
            told(403, f'"x" is forbidden: User "gpu-autoscaler" cannot {request.verb} resource "y"')(exchange)
            return
        with self._lock:
            code, answer = self._answer(request)
            answer = copy.deepcopy(answer)
        afterwards()
        if answer is None and code == 200:
            watch_held()(exchange)
        elif code != 200:
            told(code, f"{request.path}: {answer}")(exchange)
        else:
            assert isinstance(answer, dict)
            answered(answer)(exchange)

    def _answer(self, request: Request) -> tuple[int, Json | str | None]:
        path, scale = request.path.removesuffix("/scale"), request.path.endswith("/scale")
        if request.verb == "GET" and not scale and path not in self._objects:
            return self._collection(request)
        if path not in self._objects:
            return 404, "not found"
        source = self._objects[path]
        if scale and source["kind"] in _NO_SCALE:
            return 404, "no scale"
        if request.verb == "GET":
            return 200, _scale(source) if scale else source
        return self._write(path, source, request, scale=scale)

    def _collection(self, request: Request) -> tuple[int, Json | str | None]:
        parts = request.path.split("/")
        if request.path in ("/apis/example.org/v1", "/apis/batch/v1"):
            return 200, {"resources": _resources(request.path)}
        if not any(parts[-1] == plural for plural in _PLURALS.values()):
            return 404, "the server could not find the requested resource"
        if request.query.get("watch"):
            return 200, None
        items = [each for path, each in self._objects.items() if path.split("/")[-2] == parts[-1]]
        return 200, {"metadata": {"resourceVersion": str(self._version)}, "items": items}

    def _write(self, path: str, source: Json, request: Request, *, scale: bool) -> tuple[int, Json | str]:
        if request.verb == "PUT" and scale:
            body = json.loads(request.body)
            if body["metadata"].get("resourceVersion") != source["metadata"]["resourceVersion"]:
                return 409, "the object has been modified; please apply your changes to the latest version"
            return 200, _scale(
                self._keep(path, {**source["spec"], "replicas": min(self.most, body["spec"]["replicas"])})
            )
        operations = json.loads(request.body)
        if isinstance(operations, dict):
            source["metadata"].setdefault("annotations", {}).update(operations["metadata"]["annotations"])
            return 200, source
        changed = copy.deepcopy(source)
        for each in operations:
            *way, last = each["path"].strip("/").split("/")
            here: Any = changed
            for step in way:
                here = here[int(step)] if isinstance(here, list) else here[step]
            if each["op"] == "test" and here[last] != each["value"]:
                return 422, "testing failed"
            if each["op"] != "test":
                here[last] = each["value"]
        if changed["metadata"]["resourceVersion"] != source["metadata"]["resourceVersion"]:
            return 409, "the object has been modified"
        return 200, self._keep(path, changed["spec"])

    def _keep(self, path: str, spec: Json) -> Json:
        self._version += 1
        source = self._objects[path]
        metadata = {**source["metadata"], "resourceVersion": str(self._version)}
        self._objects[path] = {**source, "metadata": metadata, "spec": spec}
        return self._objects[path]


def _path(source: Json) -> str:
    version = source["apiVersion"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    metadata = source["metadata"]
    return f"{root}/namespaces/{metadata['namespace']}/{_PLURALS[source['kind']]}/{metadata['name']}"


def _scale(source: Json) -> Json:
    replicas, status = source["spec"]["replicas"], source.get("status", {})
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {key: source["metadata"][key] for key in ("name", "namespace", "uid", "resourceVersion")},
        # as the server does, a zero is left out
        "spec": {"replicas": replicas} if replicas else {},
        "status": {"replicas": status.get("replicas", 0), "selector": status.get("selector", "")},
    }


def _resources(path: str) -> list[Json]:
    kinds = {"/apis/example.org/v1": ("EngineSet",), "/apis/batch/v1": ("Job",)}[path]
    return [
        {"name": name, "kind": kind if "/" not in name else "Scale", "namespaced": True}
        for kind in kinds
        for name in (_PLURALS[kind], f"{_PLURALS[kind]}/scale")
        if "/" not in name or kind not in _NO_SCALE
    ]
