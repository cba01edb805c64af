"""An API server of InferenceAutoscalers."""

from __future__ import annotations

import json
import threading
from itertools import count
from typing import Any

from tests.adapters_kubernetes.scripted_server import Answer, Exchange

Json = dict[str, Any]
KIND = "/apis/gpu-autoscaler.io/v1alpha1"


class ResourceServer:
    """The InferenceAutoscalers of an API server: lists, watches that tell each change, and statuses that are written.

    ``written``: the bodies of the patches; ``refusal``: what each patch is answered with in place of being done.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._objects: dict[tuple[str, str], Json] = {}
        self._events: list[tuple[str, str, Json]] = []
        self._versions = count(1)
        self.written: list[Json] = []
        self.refusal: Answer | None = None

    def apply(
        self,
        name: str,
        *,
        namespace: str = "shop",
        generation: int = 1,
        uid: str = "",
        spec: Json | None = None,
        **status: object,
    ) -> None:
        """Make or change one."""
        with self._changed:
            version = next(self._versions)
            kind = "MODIFIED" if (namespace, name) in self._objects else "ADDED"
            made = {
                "metadata": {
                    **{"namespace": namespace, "name": name, "uid": uid or f"uid-{name}", "generation": generation},
                    "resourceVersion": str(version),
                },
                "spec": spec or {},
                "status": status,
            }
            self._objects[namespace, name] = made
            self._tell(kind, namespace, made)

    def set_status(self, name: str, status: object, *, namespace: str = "shop") -> None:
        """Somebody else writes its status, whatever that is."""
        with self._changed:
            found = self._objects[namespace, name]
            metadata = {**found["metadata"], "resourceVersion": str(next(self._versions))}
            self._objects[namespace, name] = made = {**found, "metadata": metadata, "status": status}
            self._tell("MODIFIED", namespace, made)

    def delete(self, name: str, *, namespace: str = "shop") -> None:
        """Take one away."""
        with self._changed:
            gone = self._objects.pop((namespace, name))
            gone["metadata"]["resourceVersion"] = str(next(self._versions))
            self._tell("DELETED", namespace, gone)

    def status(self, name: str, *, namespace: str = "shop") -> Json:
        """As it is now."""
        with self._changed:
            found: Json = self._objects[namespace, name]["status"]
            return dict(found)

    def _patch(self, exchange: Exchange) -> None:
        body = exchange.request.json()
        self.written.append(body)
        if self.refusal is not None:
            self.refusal(exchange)
            return
        _, _, place = exchange.request.path.rpartition("/namespaces/")
        namespace, _, name, _ = place.split("/")
        with self._changed:
            found = self._objects.get((namespace, name))
            metadata, status = body["metadata"], body["status"]
            assert isinstance(metadata, dict)
            assert isinstance(status, dict)
            if found is None or metadata["uid"] != found["metadata"]["uid"]:
                code, answer = 409, {"message": "another one"}
            else:
                merged = {**found["status"], **status}
                kept = {key: value for key, value in merged.items() if value is not None}
                version = str(next(self._versions))
                made = {**found, "metadata": {**found["metadata"], "resourceVersion": version}, "status": kept}
                self._objects[namespace, name] = made
                self._tell("MODIFIED", namespace, made)
                code, answer = 200, made
        exchange.whole(code, json.dumps(answer).encode())

    def _tell(self, kind: str, namespace: str, source: Json) -> None:
        self._events.append((kind, namespace, source))
        self._changed.notify_all()

    def __call__(self, exchange: Exchange) -> None:
        """Answer a list or a watch."""
        request = exchange.request
        if request.verb == "PATCH":
            self._patch(exchange)
            return
        _, _, within = request.path.removeprefix(KIND).rpartition("/namespaces/")
        namespace = within.partition("/")[0] if "/namespaces/" in request.path else ""
        if "watch" not in request.query:
            with self._changed:
                items = [each for (place, _), each in self._objects.items() if namespace in ("", place)]
                body = {"metadata": {"resourceVersion": str(next(self._versions))}, "items": items}
                text = json.dumps(body).encode()
            exchange.whole(200, text)
            return
        since = int(request.query["resourceVersion"])
        exchange.begin_chunks()
        while not exchange.pause(0.01):
            with self._changed:
                events = [
                    each
                    for each in self._events
                    if int(each[2]["metadata"]["resourceVersion"]) > since and namespace in ("", each[1])
                ]
            for kind, _, source in events:
                since = int(source["metadata"]["resourceVersion"])
                exchange.chunk(json.dumps({"type": kind, "object": source}).encode() + b"\n")
