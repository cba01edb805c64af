"""Replicas of the controller, each with an account of its own, so that the API server's audit log tells who wrote."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import grpc

from tests.cluster.api import ApiError, Json
from tests.cluster.chat import holder_of, resource, serving_external_metrics
from tests.cluster.controllers import ControllerProcess
from tests.cluster.processes import free_port, wait_for
from tests.cluster.running import Cluster
from tests.keda.client import Caller

_LOOK_S = 0.1
_ADMIN = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
_AS_AGGREGATOR = {"X-Remote-User": "hpa", "X-Remote-Group": "system:masters"}
# What only a leader may write; its Lease tells who that is.
_LEADERS = {("inferenceautoscalers", "status"), ("deployments", "scale"), ("pods", "")}
_WRITING = {"create", "update", "patch", "delete"}


@dataclass(frozen=True, slots=True)
class Write:
    """One that the API server accepted."""

    at_s: float
    by: str
    what: str


@dataclass
class ReplicaSet:
    """``members`` are replicas of the controller that serve HPA and KEDA, and elect a leader among them."""

    cluster: Cluster
    namespace: str
    folder: Path
    count: int
    members: list[ControllerProcess] = field(default_factory=list)

    def start(self) -> None:
        """Start them; returns when all are ready and one leads."""
        for number in range(self.count):
            name = f"controller-{number}"
            self.cluster.apply(_account(name, self.namespace), namespace=self.namespace)
            settings = {
                "namespaces": [self.namespace],
                "externalScaler": {"enabled": True, "host": "127.0.0.1", "port": free_port()},
                **serving_external_metrics(self.cluster, self.folder),
            }
            account = self.cluster.kubeconfig_for_service_account(self.namespace, name)
            self.members.append(
                ControllerProcess(self.cluster, self.folder, self.namespace, account, name=name, settings=settings)
            )
        for each in self.members:
            each.start()
        for each in self.members:
            each.await_ready()
        wait_for(self.leader, "one leads")

    def stop(self) -> None:
        """End them."""
        for each in self.members:
            each.stop()

    def leader(self) -> ControllerProcess | None:
        """Who holds the Lease, as far as it is known."""
        try:
            name = holder_of(self.cluster, self.namespace).split("_")[0]
        except (ApiError, OSError):
            return None
        return next((each for each in self.members if each.name == name), None)

    def leading(self) -> ControllerProcess:
        """Who leads. Raises NotReadyError where nobody does within a minute."""
        wait_for(self.leader, "one leads")
        found = self.leader()
        assert found is not None
        return found

    def await_other(self, identity: str) -> float:
        """Wait until another process than that one holds the Lease; when that was, monotonic seconds."""

        def other() -> bool:
            with suppress(ApiError, OSError):
                return holder_of(self.cluster, self.namespace) not in ("", identity)
            return False

        wait_for(other, "another one leads")
        return time.monotonic()

    def writes(self) -> list[Write]:
        """What leaders wrote, and their Leases, in the order of arrival."""
        found = []
        for member in self.members:
            for event in self.cluster.asked_for(self.namespace, member.name):
                named = event.get("objectRef", {})
                kind = (named.get("resource", ""), named.get("subresource", ""))
                accepted = event.get("responseStatus", {}).get("code", 0) < 300
                if event["verb"] in _WRITING and accepted and (kind in _LEADERS or kind[0] == "leases"):
                    at_s = datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp()
                    found.append(Write(at_s, member.name, "/".join(filter(None, kind))))
        return sorted(found, key=lambda each: each.at_s)

    def said(self, member: ControllerProcess, message: str) -> int:
        """How often it said so in its log."""
        lines = member.log.read_text(errors="replace").splitlines()
        return sum(message in line for line in lines)

    def strays(self) -> list[Write]:
        """Writes that came after another had taken the Lease."""
        leader, found = "", []
        for each in self.writes():
            if each.what == "leases":
                leader = each.by
            elif each.by != leader:
                found.append(each)
        return found

    # What HPA and KEDA are told

    def external_metric(self, member: ControllerProcess) -> float | None:
        """The desired number as an HPA would read it from this one, None for an error."""
        context = ssl.create_default_context(cafile=str(self.cluster.certificates.ca.certificate))
        client = self.cluster.certificates.front_proxy
        context.load_cert_chain(client.certificate, client.key)
        port = member.settings["externalMetrics"]["port"]
        connection = http.client.HTTPSConnection("localhost", port, context=context, timeout=5)
        path = f"/apis/external.metrics.k8s.io/v1beta1/namespaces/{self.namespace}/desired_replicas"
        try:
            connection.request("GET", f"{path}?labelSelector=service%3Dchat", headers=_AS_AGGREGATOR)
            answer = connection.getresponse()
            body = json.loads(answer.read())
            return float(body["items"][0]["value"]) if answer.status == 200 else None
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def keda_metric(self, member: ControllerProcess) -> float | None:
        """The same as KEDA would read it."""
        port = member.settings["externalScaler"]["port"]
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            try:
                answered = Caller(channel).metrics(name="chat", namespace=self.namespace, service="chat")
            except grpc.RpcError:
                return None
            return answered[0].exact

    def status(self) -> Json:
        """Of the resource."""
        found: Json = resource(self.cluster, self.namespace)["status"]
        return found


@contextmanager
def replica_set(cluster: Cluster, namespace: str, folder: Path, *, count: int) -> Iterator[ReplicaSet]:
    """They run for the length of a block; in the end nobody has written who did not lead."""
    replicas = ReplicaSet(cluster, namespace, folder, count)
    try:
        replicas.start()
        yield replicas
        assert replicas.strays() == []
    finally:
        replicas.stop()


@contextmanager
def watched(*looks: Callable[[], Any]) -> Iterator[Sequence[list[tuple[float, Any]]]]:
    """What each of these returned during a block, ten times a second with the (monotonic) time; not what it raised."""
    seen: list[list[tuple[float, Any]]] = [[] for _ in looks]
    ended = threading.Event()

    def look(call: Callable[[], Any], into: list[tuple[float, Any]]) -> None:
        while not ended.wait(_LOOK_S):
            with suppress(ApiError, OSError, KeyError):
                into.append((time.monotonic(), call()))

    threads = [threading.Thread(target=look, args=each, daemon=True) for each in zip(looks, seen, strict=True)]
    with ExitStack() as opened:
        for thread in threads:
            opened.callback(thread.join)
        opened.callback(ended.set)
        for thread in threads:
            thread.start()
        yield seen


def _account(name: str, namespace: str) -> list[Json]:
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": f"{namespace}-{name}"},
            "roleRef": _ADMIN,
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        },
    ]
