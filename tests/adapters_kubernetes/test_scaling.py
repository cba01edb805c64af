"""Counts are written to services that want it, guarded by versions, and never over anybody else's."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapters.kubernetes.connection import KubernetesApi
from adapters.kubernetes.count_history import CountHistories
from adapters.kubernetes.deletion_cost import COST_ANNOTATION, MARK, Candidate, Standing
from adapters.kubernetes.scaling import KubernetesActuator, NoticeKind, ScaleNotice
from adapters.kubernetes.target_kinds import TARGET_KINDS
from adapters.kubernetes.target_view import Rollout, TargetView
from adapters.kubernetes.targets import Targeted, TargetProblem
from autoscaler.domain.plan import VariantTarget
from autoscaler.domain.resource import AutoscalerResource, Mode, VariantSource
from autoscaler.domain.service import Service, ServiceId, Slo, Variant
from autoscaler.ports import ConflictError, PortError, RefusedError, UnavailableError
from tests.adapters_kubernetes import target_objects as objects
from tests.adapters_kubernetes.object_server import ObjectServer
from tests.adapters_kubernetes.scripted_server import Answer, ScriptedServer, told
from tests.adapters_kubernetes.target_objects import Json

SERVICE = ServiceId("shop/llm")
FULL, SLICE = objects.deployment("full", 3), objects.deployment("slice", 4)


def view_of(source: Json, group: str = "") -> TargetView:
    kind = next(kind for kind in TARGET_KINDS if kind.kind == source["kind"])
    return kind.read(kind, source).views[group]


def pod(name: str, in_flight: float, *, standing: Standing = Standing.READY) -> Candidate:
    return Candidate(name=name, uid=f"uid-{name}", standing=standing, created_s=0.0, in_flight=in_flight)


def pod_object(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": objects.metadata(name), "spec": {}}


@dataclass
class Around:
    """What the actuator is told: views as they were when they were looked at, and pods."""

    views: dict[str, TargetView | TargetProblem]
    mode: Mode = Mode.SCALE
    pods: Sequence[Candidate] = ()
    notices: list[ScaleNotice] = field(default_factory=list)

    def resource(self, service: ServiceId) -> AutoscalerResource | None:
        if service != SERVICE:
            return None
        return AutoscalerResource(
            namespace="shop",
            name="llm",
            uid="uid-llm",
            generation=1,
            created_s=0.0,
            labels=(),
            mode=self.mode,
            service=Service(id=SERVICE, slo=Slo(ttft_s=1.0), variants=tuple(Variant(name=name) for name in self.views)),
            sources=tuple(VariantSource(variant=name, target=each.ref) for name, each in self.views.items()),
        )

    def targeted(self) -> Targeted:
        return {("shop", each.ref): each for each in self.views.values()}

    def candidates(self, view: TargetView) -> Sequence[Candidate]:
        return self.pods


class Acting:
    """An actuator before a server that holds some objects."""

    def __init__(self, server: ScriptedServer, api: KubernetesApi, held: Sequence[Json], around: Around) -> None:
        self.server = ObjectServer(held)
        server.otherwise = self.server
        self.histories = CountHistories()
        self.around = around
        self.asked = 0
        self.leads_for = math.inf
        self.actuator = KubernetesActuator(
            api,
            surroundings=around,
            histories=self.histories,
            now_s=lambda: 1000.0,
            leads=self._leads,
            notify=around.notices.append,
        )

    def scale(self, **counts: int) -> None:
        targets = [VariantTarget(variant=name, replicas=count) for name, count in counts.items()]
        self.actuator.scale(SERVICE, targets)

    def _leads(self) -> bool:
        """Not after so many questions."""
        self.asked += 1
        return self.asked <= self.leads_for

    def counts(self) -> list[tuple[str, int]]:
        """The counts that were written, in their order."""
        return [
            (request.path.split("/")[-2], request.json()["spec"]["replicas"])  # type: ignore[index]
            for request in self.server.written
            if request.verb == "PUT"
        ]


def acting(server: ScriptedServer, api: KubernetesApi, *held: Json, **around: Any) -> Acting:
    return Acting(server, api, held, Around({each["metadata"]["name"]: view_of(each) for each in held}, **around))


def test_only_what_differs_is_written_and_growth_comes_first(server: ScriptedServer, api: KubernetesApi) -> None:
    act = acting(server, api, FULL, SLICE, objects.deployment("same", 2))
    act.scale(full=1, slice=6, same=2)
    assert act.counts() == [("slice", 6), ("full", 1)]
    (first, second) = (request for request in act.server.written if request.verb == "PUT")
    assert first.query == second.query == {"fieldManager": "gpu-autoscaler"}
    assert [(each.kind, each.before, each.after) for each in act.around.notices] == [
        (NoticeKind.SCALED, 4, 6),
        (NoticeKind.SCALED, 3, 1),
    ]


def test_nothing_shrinks_where_what_should_grow_did_not(server: ScriptedServer, api: KubernetesApi) -> None:
    act = acting(server, api, FULL, SLICE)
    act.server.change(SLICE, replicas=9)
    with pytest.raises(ConflictError, match="Deployment slice has 9 replicas; the decision was made on 4"):
        act.scale(full=1, slice=6)
    assert act.counts() == []


def test_what_is_there_already_is_not_written_again(server: ScriptedServer, api: KubernetesApi) -> None:
    act = acting(server, api, FULL)
    act.scale(full=5)
    act.scale(full=5)  # the view is as old as before
    assert act.counts() == [("full", 5)]


def test_a_zero_is_a_count_like_others(server: ScriptedServer, api: KubernetesApi) -> None:
    act = acting(server, api, objects.deployment("full", 0))
    act.scale(full=2)
    assert act.counts() == [("full", 2)]


def test_what_we_wrote_is_known_for_comparing(server: ScriptedServer, api: KubernetesApi) -> None:
    act = acting(server, api, FULL)
    act.scale(full=5)
    now = view_of(act.server.get(FULL))
    assert act.histories.look([now], now_s=1001.0) == []
    assert act.histories.of(now).written == 5


@pytest.mark.parametrize(
    ("source", "group", "path"),
    [
        pytest.param(objects.ray_service(), "pair", ("rayClusterConfig", "workerGroupSpecs", 1, "replicas"), id="ray"),
        pytest.param(objects.ray_cluster("r"), "small", ("workerGroupSpecs", 0, "replicas"), id="ray cluster"),
        pytest.param(objects.nim_service(), "", ("replicas",), id="nim"),
    ],
)
def test_objects_without_scale_are_patched(
    server: ScriptedServer, api: KubernetesApi, source: Json, group: str, path: tuple[str | int, ...]
) -> None:
    act = Acting(server, api, [source], Around({"full": view_of(source, group)}))
    act.scale(full=7)
    here: Any = act.server.get(source)["spec"]
    for step in path:
        here = here[step]
    assert here == 7
    operations = json.loads(act.server.written[0].body)
    assert {"op": "replace", "path": "/metadata/resourceVersion", "value": "100"} in operations
    tests = [each for each in operations if each["op"] == "test"]
    assert [each["value"] for each in tests] == ([group] if group else [])


def test_a_worker_group_that_has_moved_is_not_written(server: ScriptedServer, api: KubernetesApi) -> None:
    source = objects.ray_service()
    act = Acting(server, api, [source], Around({"full": view_of(source, "pair")}))
    config = source["spec"]["rayClusterConfig"]
    act.server.change(
        source, rayClusterConfig={**config, "workerGroupSpecs": list(reversed(config["workerGroupSpecs"]))}
    )
    with pytest.raises(ConflictError, match="workerGroupSpecs/1/groupName is no longer pair"):
        act.scale(full=7)
    assert act.server.written == []


def test_what_changes_between_reading_and_writing_is_read_again(server: ScriptedServer, api: KubernetesApi) -> None:
    act = acting(server, api, FULL)
    server.answers(_then_change(act, paused=True))
    act.scale(full=5)
    assert act.counts() == [("full", 5), ("full", 5)]
    assert act.server.get(FULL)["spec"]["replicas"] == 5


def test_what_never_stops_changing_is_a_conflict(server: ScriptedServer, api: KubernetesApi) -> None:
    act = acting(server, api, FULL)
    server.otherwise = lambda exchange: act.server.answer(
        exchange, afterwards=lambda: act.server.change(FULL, paused=True)
    )
    with pytest.raises(ConflictError, match=r"409 .*object has been modified"):
        act.scale(full=5)
    assert act.server.get(FULL)["spec"]["replicas"] == 3
    assert len(act.counts()) == 3


def test_an_object_made_anew_is_left_alone(server: ScriptedServer, api: KubernetesApi) -> None:
    act = acting(server, api, FULL)
    act.server.replaced(FULL)
    with pytest.raises(ConflictError, match="Deployment full was made anew"):
        act.scale(full=5)


def test_a_missing_right_is_named(server: ScriptedServer, api: KubernetesApi) -> None:
    act = acting(server, api, FULL)
    act.server.refused.add("PUT")
    with pytest.raises(RefusedError, match=r"forbidden.* \(the role needs get and update on deployments/scale\)"):
        act.scale(full=5)


def test_a_number_that_a_policy_changes_is_told_and_no_rival(server: ScriptedServer, api: KubernetesApi) -> None:
    act = acting(server, api, FULL)
    act.server.most = 5
    with pytest.raises(RefusedError, match="an admission policy made 5 of the 8 replicas that were asked for"):
        act.scale(full=8)
    assert act.histories.look([view_of(act.server.get(FULL))], now_s=1001.0) == []


def test_a_server_that_is_away_is_no_refusal(server: ScriptedServer, api: KubernetesApi) -> None:
    act = acting(server, api, FULL)
    server.answers(told(503, "etcd is slow"))
    with pytest.raises(UnavailableError, match="etcd is slow"):
        act.scale(full=5)


PROBLEM = TargetProblem(
    namespace="shop", ref=view_of(FULL).ref, detail="there is no Deployment shop/full", lasting=True
)


@pytest.mark.parametrize(
    ("service", "view", "error", "said"),
    [
        pytest.param("shop/gone", view_of(FULL), RefusedError, "no InferenceAutoscaler shop/gone", id="no resource"),
        pytest.param(SERVICE, PROBLEM, RefusedError, "no Deployment", id="no target"),
        pytest.param(SERVICE, replace(PROBLEM, lasting=False), UnavailableError, "no Deployment", id="not known yet"),
        pytest.param(
            SERVICE, replace(view_of(FULL), refusal="KServe owns it"), RefusedError, "KServe", id="operator's"
        ),
    ],
)
def test_targets_that_may_not_be_written(
    server: ScriptedServer,
    api: KubernetesApi,
    *,
    service: str,
    view: TargetView | TargetProblem,
    error: type[PortError],
    said: str,
) -> None:
    act = Acting(server, api, [FULL], Around({"full": view}))
    with pytest.raises(error, match=said):
        act.actuator.scale(ServiceId(service), [VariantTarget(variant="full", replicas=5)])
    assert act.server.written == []


def test_a_shrink_waits_for_a_rollout_and_growth_does_not(server: ScriptedServer, api: KubernetesApi) -> None:
    rolling = replace(view_of(FULL), rollout=Rollout(updated=1, wanted=4))
    act = Acting(server, api, [FULL], Around({"full": rolling}))
    act.scale(full=1)
    assert act.counts() == []
    assert [each.kind for each in act.around.notices] == [NoticeKind.SHRINK_HELD]
    act.scale(full=5)
    assert act.counts() == [("full", 5)]


def test_pods_that_should_go_are_marked_before_the_count(server: ScriptedServer, api: KubernetesApi) -> None:
    pods = [pod("a", 9), pod("b", 1), pod("c", 4)]
    held = [FULL, *(pod_object(each.name) for each in pods)]
    act = Acting(server, api, held, Around({"full": view_of(FULL)}, pods=pods))
    act.scale(full=2)
    assert [(request.verb, request.path.rsplit("/", 1)[1]) for request in act.server.written] == [
        ("PATCH", "b"),
        ("PUT", "scale"),
    ]
    assert act.server.written[0].json() == {"metadata": {"uid": "uid-b", "annotations": {COST_ANNOTATION: str(MARK)}}}


def test_pods_that_can_not_be_marked_do_not_keep_the_count_up(server: ScriptedServer, api: KubernetesApi) -> None:
    act = acting(server, api, FULL, pods=[pod("a", 9), pod("b", 1), pod("c", 4)])
    act.server.refused.add("PATCH")
    act.scale(full=2)
    assert act.counts() == [("full", 2)]
    assert [each.kind for each in act.around.notices] == [NoticeKind.NOT_MARKED, NoticeKind.SCALED]
    assert "forbidden" in act.around.notices[0].detail


@pytest.mark.parametrize("leads_for", [0, 1, 2])
def test_whoever_leads_no_longer_writes_nothing_more(
    server: ScriptedServer, api: KubernetesApi, leads_for: int
) -> None:
    pods = [pod("a", 9), pod("b", 1), pod("c", 4)]
    held = [FULL, *(pod_object(each.name) for each in pods)]
    act = Acting(server, api, held, Around({"full": view_of(FULL)}, pods=pods))
    act.leads_for = leads_for
    with pytest.raises(ConflictError, match="leads no longer"):
        act.scale(full=1)
    assert [request.verb for request in act.server.written] == ["PATCH"] * leads_for


def test_only_a_replica_set_looks_at_marks(server: ScriptedServer, api: KubernetesApi) -> None:
    act = acting(server, api, objects.stateful_set("full"), pods=[pod("full-0", 9), pod("full-1", 0)])
    act.scale(full=1)
    assert [request.verb for request in act.server.written] == ["PUT"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None)
@given(st.dictionaries(st.sampled_from(["full", "slice"]), st.integers(0, 9)))
def test_advice_never_writes(server: ScriptedServer, api: KubernetesApi, counts: dict[str, int]) -> None:
    act = acting(server, api, FULL, SLICE, mode=Mode.ADVISE, pods=[pod("a", 1)])
    before = len(server.requests)
    act.scale(**counts)
    assert len(server.requests) == before


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("look"), st.just(0)),
            st.tuples(st.just("hand"), st.integers(0, 5)),
            st.tuples(st.just("hand while writing"), st.integers(0, 5)),
            st.tuples(st.just("scale"), st.integers(0, 5)),
        ),
        max_size=12,
    )
)
def test_nobody_elses_number_is_written_over_unseen(
    server: ScriptedServer, api: KubernetesApi, steps: list[tuple[str, int]]
) -> None:
    """A count that we change is always one that the decision knew of."""
    act = acting(server, api, FULL)
    known, between = 3, None
    for what, number in steps:
        if what == "look":
            act.around.views["full"] = view_of(act.server.get(FULL))
            known = act.server.get(FULL)["spec"]["replicas"]
        elif what == "hand":
            act.server.change(FULL, replicas=number)
        elif what == "hand while writing":
            between = number
        else:
            actual, interrupted = act.server.get(FULL)["spec"]["replicas"], between
            if between is not None:
                server.answers(_then_change(act, replicas=between))
            between = None
            with suppress(ConflictError):
                act.scale(full=number)
            now = act.server.get(FULL)["spec"]["replicas"]
            server.script.clear()
            if number == known:
                assert now == actual  # nothing was asked of the server, so nobody came between
            else:
                found = actual if interrupted is None else interrupted
                assert now == (number if actual == found == known else found)


def _then_change(act: Acting, **spec: object) -> Answer:
    """Answers the reading with what is there, and somebody changes it before our writing comes."""
    return lambda exchange: act.server.answer(exchange, afterwards=lambda: act.server.change(FULL, **spec))
