"""Decisions become statuses: written in turn, once, by a leader alone, and again after a failure."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from time import monotonic, sleep
from typing import Any

import pytest

from adapters.kubernetes.connection import KubernetesApi
from adapters.kubernetes.contents import ObjectKey
from adapters.kubernetes.raw_json import JsonObject, text
from adapters.kubernetes.resources import WatchedResources
from adapters.kubernetes.status_conditions import Circumstances
from adapters.kubernetes.status_store import StatusStore
from autoscaler.domain.plan import Reason
from autoscaler.domain.resource import AutoscalerResource, RefusedResource, ResourceProblem
from autoscaler.domain.service import ServiceId
from autoscaler.ports import RefusedError
from tests.adapters_kubernetes.decisions import NOW_S, decided, holding, resource
from tests.adapters_kubernetes.resource_server import ResourceServer
from tests.adapters_kubernetes.scripted_server import ScriptedServer, told

CHAT = ObjectKey("llm", "chat")


def until(true: Callable[[], bool]) -> None:
    """Wait for an effect of another thread."""
    ends_s = monotonic() + 20.0
    while not true():
        assert monotonic() < ends_s, "it did not come about"
        sleep(0.002)


@dataclass
class Bench:
    """A store over a server's resources. ``leads``: whether this process does; ``shown``: what the cluster shows."""

    cluster: ResourceServer
    store: StatusStore
    resources: WatchedResources
    leads: bool = True
    shown: Circumstances = field(default_factory=Circumstances)

    def desired(self) -> object:
        """As the server has it."""
        return self.cluster.status("chat", namespace="llm").get("desiredReplicas")

    def make(self, **status: Any) -> None:
        """The resource, seen by the watch."""
        wanted = resource()
        self.cluster.apply("chat", namespace="llm", uid=wanted.uid, generation=wanted.generation, **status)
        until(lambda: self.resources.view(CHAT) is not None)


def parsed(source: JsonObject) -> AutoscalerResource | RefusedResource:
    """As the specs of this test say."""
    return resource() if text(source, "metadata", "name") == "chat" else refused(text(source, "metadata", "name"))


def refused(name: str) -> RefusedResource:
    problems = (ResourceProblem(path="spec.slo", message="is missing"),)
    return RefusedResource(namespace="llm", name=name, uid=f"uid-{name}", generation=1, problems=problems)


@pytest.fixture
def bench(api: KubernetesApi, server: ScriptedServer) -> Iterator[Bench]:
    cluster = ResourceServer()
    server.otherwise = cluster
    resources = WatchedResources(api, parse=parsed, namespaces=(), now_s=monotonic)
    resources.start()
    assert resources.wait_synced(20.0)
    made: list[Bench] = []
    store = StatusStore(
        api,
        resources=resources,
        circumstances=lambda resource, decision: made[0].shown,
        stale_after_s=lambda: 60.0,
        leads=lambda: made[0].leads,
        now_s=lambda: NOW_S,
    )
    made.append(Bench(cluster, store, resources))
    store.start()
    yield made[0]
    store.close()
    resources.close()


def test_a_decision_becomes_the_status_and_is_told_from_it(bench: Bench) -> None:
    bench.make()
    bench.store.publish(decided(5))
    until(lambda: bench.desired() == 5)
    until(lambda: (told := bench.resources.of("llm", "chat")) is not None and told.desired_replicas == 5)
    assert bench.cluster.written[0]["metadata"] == {"uid": resource().uid}


def test_what_says_nothing_new_is_not_written(bench: Bench) -> None:
    bench.make()
    bench.store.publish(decided(5))
    until(lambda: bench.desired() == 5)
    for _ in range(3):
        bench.store.publish(decided(5))
    bench.store.publish(decided(6))
    until(lambda: bench.desired() == 6)
    assert len(bench.cluster.written) == 2


def test_what_somebody_else_writes_over_it_is_set_right_at_the_next_decision(bench: Bench) -> None:
    """Though the same is decided again: HPA and KEDA are told what the status says."""
    bench.make()
    bench.store.publish(decided(5))
    until(lambda: bench.desired() == 5)
    bench.cluster.set_status(
        "chat", {**bench.cluster.status("chat", namespace="llm"), "desiredReplicas": 77}, namespace="llm"
    )
    until(lambda: (told := bench.resources.of("llm", "chat")) is not None and told.desired_replicas == 77)
    bench.store.publish(decided(5))
    until(lambda: (told := bench.resources.of("llm", "chat")) is not None and told.desired_replicas == 5)
    bench.store.publish(decided(5))
    bench.store.close()
    assert len(bench.cluster.written) == 2


def test_what_is_no_longer_said_is_taken_away(bench: Bench) -> None:
    bench.make(desiredReplicas=9, ofAnEarlierVersion="x")
    bench.store.publish(holding(Reason.UNKNOWN_DEMAND, "no page can be read"))
    until(lambda: "ofAnEarlierVersion" not in bench.cluster.status("chat", namespace="llm"))
    assert bench.desired() is None


def test_what_the_cluster_shows_is_said_in_conditions(bench: Bench) -> None:
    bench.make()
    bench.shown = Circumstances(conflicts=("HorizontalPodAutoscaler llm/other",))
    bench.store.publish(decided(5))
    until(lambda: "conditions" in bench.cluster.status("chat", namespace="llm"))
    conditions: list[dict[str, Any]] = bench.cluster.status("chat", namespace="llm")["conditions"]
    (conflict,) = (each for each in conditions if each["type"] == "OwnerConflict")
    assert conflict["status"] == "True"
    assert "llm/other" in conflict["message"]


def test_one_that_does_not_lead_writes_nothing(bench: Bench) -> None:
    bench.make()
    bench.leads = False
    bench.store.publish(decided(5))
    bench.store.close()
    assert bench.cluster.written == []


def test_a_failure_is_tried_again_and_the_latest_is_what_counts(bench: Bench) -> None:
    bench.make()
    bench.cluster.refusal = told(503, "etcd has no leader")
    bench.store.publish(decided(5))
    until(lambda: len(bench.cluster.written) == 1)
    bench.store.publish(decided(7))
    bench.cluster.refusal = None
    until(lambda: bench.desired() == 7)


@pytest.mark.parametrize("status", [403, 404, 409, 422])
def test_a_refusal_is_not_repeated_and_holds_no_other_decision(
    bench: Bench, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    bench.make()
    bench.cluster.refusal = told(status, "not for you")
    bench.store.publish(decided(5))
    until(lambda: len(bench.cluster.written) == 1)
    bench.cluster.refusal = None
    bench.store.publish(decided(6))
    until(lambda: bench.desired() == 6)
    assert len(bench.cluster.written) == 2
    loudest = max((each.levelno for each in caplog.records), default=logging.NOTSET)
    assert (loudest >= logging.ERROR) is (status != 404), "a resource that is gone is no error"


def test_what_waits_is_written_before_the_end(bench: Bench) -> None:
    bench.make()
    bench.store.publish(decided(5))
    bench.store.close()
    assert bench.desired() == 5


def test_a_service_without_a_usable_resource_is_refused(bench: Bench) -> None:
    for decision in (decided(5), replace(decided(5), service=ServiceId("llm/odd"))):
        bench.cluster.apply("odd", namespace="llm")
        until(lambda: bench.resources.view(ObjectKey("llm", "odd")) is not None)
        with pytest.raises(RefusedError, match="no usable InferenceAutoscaler"):
            bench.store.publish(decision)


def test_a_refused_spec_is_said_once_and_why(bench: Bench) -> None:
    bench.cluster.apply("odd", namespace="llm")
    until(lambda: bench.resources.view(ObjectKey("llm", "odd")) is not None)
    for _ in range(3):
        bench.store.publish_refusals(
            {ObjectKey("llm", "odd"): refused("odd"), ObjectKey("llm", "gone"): refused("gone")}
        )
    until(lambda: "conditions" in bench.cluster.status("odd", namespace="llm"))
    status = bench.cluster.status("odd", namespace="llm")
    assert status["reason"] == "InvalidSpec"
    assert any("spec.slo" in each["message"] for each in status["conditions"])
    bench.store.close()
    assert len(bench.cluster.written) == 1


def test_another_resource_of_the_name_gets_a_status_of_its_own(bench: Bench) -> None:
    bench.make()
    bench.store.publish(decided(5))
    until(lambda: bench.desired() == 5)
    bench.cluster.delete("chat", namespace="llm")
    until(lambda: bench.resources.view(CHAT) is None)
    bench.store.publish_refusals({})
    bench.make()
    bench.store.publish(decided(5))
    until(lambda: bench.desired() == 5)
