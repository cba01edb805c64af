"""Whatever kind a target is of, its count, pods and devices are read right, or a sentence says why it can't be."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from time import monotonic, sleep
from typing import Any

import pytest

from adapters.kubernetes.connection import KubernetesApi
from adapters.kubernetes.following import STALE_AFTER_S
from adapters.kubernetes.label_matching import (
    LabelSelector,
    NodeTerm,
    Operator,
    Requirement,
    requirement_of,
    written_selector,
)
from adapters.kubernetes.pod_templates import needs_of
from adapters.kubernetes.raw_json import ShapeError
from adapters.kubernetes.scalable import Scalable
from adapters.kubernetes.target_kinds import TARGET_KINDS
from adapters.kubernetes.target_view import Rollout, TargetView, Toleration
from adapters.kubernetes.targets import TargetProblem, Targets
from autoscaler.domain.resource import TargetRef
from autoscaler.domain.service import DeviceRequest
from tests.adapters_kubernetes import target_objects as objects
from tests.adapters_kubernetes.object_server import ObjectServer
from tests.adapters_kubernetes.scripted_server import ScriptedServer
from tests.adapters_kubernetes.target_objects import Json

GPU = "nvidia.com/gpu"
LLM = TargetRef(api_version="apps/v1", kind="Deployment", name="llm")


def read(source: Json) -> Scalable:
    kind = next(kind for kind in TARGET_KINDS if kind.kind == source["kind"])
    return kind.read(kind, source)


def view_of(source: Json, group: str = "") -> TargetView:
    return read(source).views[group]


def with_spec(source: Json, **spec: object) -> Json:
    return {**source, "spec": {**source["spec"], **spec}}


def with_status(source: Json, **status: object) -> Json:
    return {**source, "status": {**source["status"], **status}}


@pytest.mark.parametrize(
    ("view", "replicas", "pods", "devices"),
    [
        pytest.param(view_of(objects.deployment()), 3, 1, (GPU, 1, 1), id="deployment"),
        pytest.param(view_of(objects.stateful_set()), 3, 1, (GPU, 1, 1), id="statefulset"),
        pytest.param(view_of(objects.leader_worker_set()), 2, 4, (GPU, 8, 4), id="group of equal pods"),
        pytest.param(view_of(objects.leader_worker_set(leader_gpus=0)), 2, 4, (GPU, 8, 3), id="leader without device"),
        pytest.param(view_of(objects.leader_worker_set(leader_gpus=4)), 2, 4, (GPU, 8, 4), id="leader with fewer"),
        pytest.param(view_of(objects.leader_worker_set(size=1)), 2, 1, (GPU, 8, 1), id="group of one"),
        pytest.param(view_of(objects.ray_service(), "small"), 2, 1, (GPU, 1, 1), id="ray worker group"),
        pytest.param(view_of(objects.ray_service(), "pair"), 3, 2, (GPU, 8, 2), id="ray multi-host group"),
        pytest.param(view_of(objects.ray_cluster(), "pair"), 3, 2, (GPU, 8, 2), id="ray cluster"),
        pytest.param(view_of(objects.nim_service()), 2, 1, (GPU, 2, 1), id="nim"),
        pytest.param(view_of(with_spec(objects.deployment(), replicas=None)), 1, 1, (GPU, 1, 1), id="no count is 1"),
    ],
)
def test_count_and_devices(view: TargetView, replicas: int, pods: int, devices: tuple[str, int, int]) -> None:
    kind, count, holding = devices
    assert view.replicas == replicas
    assert view.pods_per_replica == pods
    assert view.device_request == DeviceRequest(kind=kind, count=count, pods=holding)


@pytest.mark.parametrize(
    ("view", "mine", "other"),
    [
        pytest.param(view_of(objects.deployment()), {"app": "llm"}, {"app": "llm-2"}, id="deployment"),
        pytest.param(
            view_of(objects.ray_service(), "pair"),
            {"ray.io/cluster": "ray-xk2v9", "ray.io/group": "pair"},
            {"ray.io/cluster": "ray-old", "ray.io/group": "pair"},
            id="ray: only the cluster that serves",
        ),
        pytest.param(
            view_of(objects.leader_worker_set()),
            {"leaderworkerset.sigs.k8s.io/name": "big", "leaderworkerset.sigs.k8s.io/worker-index": "3"},
            {"leaderworkerset.sigs.k8s.io/name": "bigger"},
            id="lws: workers too",
        ),
    ],
)
def test_pods_are_found_by_labels(view: TargetView, mine: dict[str, str], other: dict[str, str]) -> None:
    assert view.selector is not None
    assert view.selector.matches(mine)
    assert not view.selector.matches(other)


def test_the_leader_of_a_group_answers_for_it() -> None:
    view = view_of(objects.leader_worker_set())
    labels = {"leaderworkerset.sigs.k8s.io/name": "big", "leaderworkerset.sigs.k8s.io/worker-index": "0"}
    assert view.leader is not None
    assert view.leader.matches(labels)
    assert not view.leader.matches({**labels, "leaderworkerset.sigs.k8s.io/worker-index": "1"})
    assert view.group_label == "leaderworkerset.sigs.k8s.io/group-index"


STALLED = [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]
REVISIONS: dict[str, Any] = {"currentRevision": "llm-1", "updateRevision": "llm-2", "updatedReplicas": 1}


@pytest.mark.parametrize(
    ("source", "rollout"),
    [
        pytest.param(objects.deployment(), None, id="at rest"),
        pytest.param(
            with_status(objects.deployment(), replicas=4, updatedReplicas=1), Rollout(updated=1, wanted=4), id="surging"
        ),
        pytest.param(
            with_status(objects.deployment(), replicas=4, updatedReplicas=1, conditions=STALLED),
            Rollout(updated=1, wanted=4, stalled=True),
            id="stuck",
        ),
        pytest.param(
            with_status(objects.deployment(replicas=9), replicas=3, updatedReplicas=3), None, id="growing is no rollout"
        ),
        pytest.param(
            with_status(objects.stateful_set(), **REVISIONS), Rollout(updated=1, wanted=3), id="two revisions"
        ),
        pytest.param(
            with_status(
                with_spec(objects.stateful_set(), updateStrategy={"rollingUpdate": {"partition": 2}}), **REVISIONS
            ),
            None,
            id="a partition at rest",
        ),
        pytest.param(
            with_status(with_spec(objects.stateful_set(), updateStrategy={"type": "OnDelete"}), **REVISIONS),
            None,
            id="waits for a hand",
        ),
    ],
)
def test_rollouts(source: Json, rollout: Rollout | None) -> None:
    assert view_of(source).rollout == rollout


def container(resource: str = GPU, *, requests: Json | None = None, always: bool = False, **limits: str) -> Json:
    named = {resource if key == "devices" else key: value for key, value in limits.items()}
    return {
        "resources": {"limits": named, "requests": requests or {}},
        **({"restartPolicy": "Always"} if always else {}),
    }


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"containers": [container(devices="2"), container(devices="1")]}, {GPU: 3.0}, id="sum"),
        pytest.param(
            {"containers": [container(devices="1")], "initContainers": [container(devices="4")]},
            {GPU: 4.0},
            id="an init container alone",
        ),
        pytest.param(
            {"containers": [container(cpu="2")], "initContainers": [container(cpu="1", always=True)]},
            {"cpu": 3.0},
            id="a sidecar runs beside",
        ),
        pytest.param(
            {
                "containers": [container(cpu="2")],
                "initContainers": [
                    container(cpu="1", always=True),
                    container(cpu="4"),
                    container(cpu="1", always=True),
                ],
            },
            {"cpu": 5.0},
            id="an init container beside earlier sidecars only",
        ),
        pytest.param(
            {"containers": [container(cpu="4", requests={"cpu": "500m", "memory": "1Gi"})]},
            {"cpu": 0.5, "memory": 2.0**30},
            id="requests before limits",
        ),
        pytest.param(
            {"containers": [container(cpu="4")], "overhead": {"cpu": "250m"}, "resources": {"requests": {"cpu": "6"}}},
            {"cpu": 6.25},
            id="the whole pod's, and overhead",
        ),
    ],
)
def test_effective_requests(spec: Json, expected: dict[str, float]) -> None:
    assert needs_of({"spec": spec}).requests == expected


def test_what_binds_a_pod_to_nodes() -> None:
    expression = {"key": "nvidia.com/gpu.memory", "operator": "Gt", "values": ["40000"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    needs = needs_of(
        {
            "spec": {
                "containers": [],
                "nodeSelector": {"pool": "a"},
                "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
                "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}},
                "priorityClassName": "high",
                "terminationGracePeriodSeconds": 0,
            }
        }
    )
    assert needs.node_selector == {"pool": "a"}
    assert needs.tolerations == (Toleration(key="gpu", operator="Exists", effect="NoSchedule"),)
    assert (needs.priority_class, needs.priority, needs.grace_s) == ("high", None, 0.0)
    (term,) = needs.node_terms
    assert term.matches(name="n1", labels={"nvidia.com/gpu.memory": "81559"})
    assert not term.matches(name="n1", labels={"nvidia.com/gpu.memory": "40000"})
    assert not term.matches(name="n1", labels={})


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param({"containers": [container(devices="two")]}, "wanted a quantity", id="no quantity"),
        pytest.param({"containers": "none"}, "containers: wanted a list", id="no list"),
        pytest.param({"containers": [{"resources": {"limits": {GPU: True}}}]}, "wanted a quantity", id="a boolean"),
    ],
)
def test_templates_that_make_no_sense(spec: Json, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        needs_of({"spec": spec})


def requirement(key: str, operator: Operator, *values: str) -> Requirement:
    return Requirement(key=key, operator=operator, values=values)


@pytest.mark.parametrize(
    ("written", "requirements"),
    [
        pytest.param("app=llm", [requirement("app", Operator.IN, "llm")], id="equal"),
        pytest.param(
            "app==llm,tier!=x",
            [requirement("app", Operator.IN, "llm"), requirement("tier", Operator.NOT_IN, "x")],
            id="two",
        ),
        pytest.param(
            "a in (x,y),b", [requirement("a", Operator.IN, "x", "y"), requirement("b", Operator.EXISTS)], id="set"
        ),
        pytest.param(
            "!c, d notin (z)",
            [requirement("c", Operator.DOES_NOT_EXIST), requirement("d", Operator.NOT_IN, "z")],
            id="not",
        ),
    ],
)
def test_written_selectors(written: str, requirements: list[Requirement]) -> None:
    assert written_selector(written) == LabelSelector(requirements=tuple(requirements))


@pytest.mark.parametrize("written", ["a in x", "a=b=c", "(a)", "a in (x"])
def test_selectors_that_are_none(written: str) -> None:
    with pytest.raises(ShapeError, match="is no requirement"):
        written_selector(written)


LABELS = {"zone": "a", "gpus": "4"}


@pytest.mark.parametrize(
    ("key", "operator", "values", "met"),
    [
        ("zone", "In", ["a", "b"], True),
        ("zone", "In", ["b"], False),
        ("zone", "NotIn", ["b"], True),
        ("rack", "NotIn", ["b"], True),
        ("zone", "Exists", None, True),
        ("rack", "Exists", None, False),
        ("rack", "DoesNotExist", None, True),
        ("zone", "DoesNotExist", None, False),
        ("gpus", "Gt", ["3"], True),
        ("gpus", "Gt", ["4"], False),
        ("gpus", "Lt", ["5"], True),
        ("zone", "Gt", ["3"], False),
        ("rack", "Lt", ["3"], False),
    ],
)
def test_requirements(*, key: str, operator: str, values: list[str] | None, met: bool) -> None:
    source: Json = {"key": key, "operator": operator, **({} if values is None else {"values": values})}
    assert requirement_of(source).matches(LABELS) is met


def test_an_operator_that_is_none() -> None:
    with pytest.raises(ShapeError, match=r"operator: wanted one of In, NotIn, .* got 'Near'"):
        requirement_of({"key": "zone", "operator": "Near", "values": ["a"]})


def test_nothing_selects_nothing() -> None:
    assert not written_selector("").matches({"app": "llm"})
    assert not NodeTerm().matches(name="n1", labels={})


def test_writers_are_told_from_managed_fields() -> None:
    fields = [
        objects.wrote("kubectl-client-side-apply", time="2026-11-30T12:00:00Z"),
        objects.wrote("kube-controller-manager", subresource="status", fields={"f:status": {"f:replicas": {}}}),
        objects.wrote("gpu-autoscaler", subresource="scale", time=None),
    ]
    view = view_of(objects.deployment(managedFields=fields))
    assert [(each.manager, each.subresource) for each in view.writers] == [
        ("gpu-autoscaler", "scale"),
        ("kubectl-client-side-apply", ""),
    ]


def test_a_writer_of_the_whole_list_writes_a_worker_group() -> None:
    source = objects.ray_service()
    whole: Json = {"f:spec": {"f:rayClusterConfig": {"f:workerGroupSpecs": {}}}}
    only_the_object: Json = {"f:spec": {".": {}, "f:rayClusterConfig": {}}}
    source["metadata"]["managedFields"] = [
        objects.wrote("helm", fields=only_the_object),
        objects.wrote("kubectl", fields=whole),
    ]
    assert [each.manager for each in view_of(source, "small").writers] == ["kubectl"]


@pytest.mark.parametrize(
    ("meta", "expected"),
    [
        pytest.param(
            {"annotations": {"argocd.argoproj.io/tracking-id": "web:apps/Deployment:shop/llm"}},
            ["Argo CD application web"],
            id="argo",
        ),
        pytest.param({"labels": {"kustomize.toolkit.fluxcd.io/name": "apps"}}, ["Flux Kustomization apps"], id="flux"),
        pytest.param({"annotations": {"meta.helm.sh/release-name": "llm"}}, ["Helm release llm"], id="helm"),
        pytest.param({"labels": {"app.kubernetes.io/instance": "llm"}}, [], id="a label that others use too"),
    ],
)
def test_deployers(meta: Json, expected: list[str]) -> None:
    assert [str(each) for each in view_of(objects.deployment(**meta)).deployers] == expected


@pytest.mark.parametrize(
    ("source", "group", "refusal"),
    [
        pytest.param(objects.ray_service(in_tree=True), "small", "enableInTreeAutoscaling", id="ray's own autoscaler"),
        pytest.param(objects.nim_service(scale={"enabled": True}), "", "spec.scale.enabled", id="nim's own hpa"),
        pytest.param(objects.nim_service(multiNode={"size": 2}), "", "one node", id="nim on several nodes"),
    ],
)
def test_kinds_that_scale_themselves(source: Json, group: str, refusal: str) -> None:
    assert refusal in (view_of(source, group).refusal or "")


class Looking:
    """Targets that watch a server of a few objects."""

    def __init__(self, server: ScriptedServer, api: KubernetesApi, *held: Json) -> None:
        self.server = ObjectServer(held)
        server.otherwise = self.server
        self.requests = server.requests
        self.at_s = 1000.0
        self.targets = Targets(api, now_s=lambda: self.at_s)

    def see(self, ref: TargetRef) -> TargetView | TargetProblem:
        """As soon as it is known."""
        ends_s = monotonic() + 20.0
        while True:
            self.at_s += 1.0
            seen = self.targets.refresh([("shop", ref)])["shop", ref]
            if isinstance(seen, TargetView) or seen.lasting or monotonic() > ends_s:
                return seen
            sleep(0.01)

    def scales_read(self) -> int:
        """How often /scale was asked for."""
        return sum(request.path.endswith("/scale") for request in self.requests)

    def view(self, ref: TargetRef) -> TargetView:
        seen = self.see(ref)
        assert isinstance(seen, TargetView), seen
        return seen

    def problem(self, ref: TargetRef) -> str:
        seen = self.see(ref)
        assert isinstance(seen, TargetProblem), seen
        assert seen.lasting, seen
        return seen.detail


Look = Callable[..., Looking]


@pytest.fixture
def look(server: ScriptedServer, api: KubernetesApi) -> Iterator[Look]:
    opened: list[Looking] = []

    def begin(*held: Json) -> Looking:
        opened.append(Looking(server, api, *held))
        return opened[-1]

    yield begin
    server.stop()
    for each in opened:
        each.targets.close()
    server.start()


KSERVE = TargetRef(api_version="serving.kserve.io/v1beta1", kind="InferenceService", name="llm")
PREDICTOR = objects.deployment(
    "llm-predictor", **objects.made_by("serving.kserve.io/v1beta1", "InferenceService", "llm")
)


def test_an_inference_service_is_scaled_by_its_deployment(look: Look) -> None:
    view = look(objects.inference_service(autoscalerClass="external"), PREDICTOR).view(KSERVE)
    assert (view.ref, view.scaled.name, view.refusal) == (KSERVE, "llm-predictor", None)
    assert view.write.scale_path == "/apis/apps/v1/namespaces/shop/deployments/llm-predictor/scale"


@pytest.mark.parametrize(
    ("annotations", "refusal"),
    [
        pytest.param({}, "autoscalerClass hpa, the default", id="kserve makes an hpa"),
        pytest.param({"autoscalerClass": "none"}, "autoscalerClass none", id="kserve sets it back"),
        pytest.param({"autoscalerClass": "external", "deploymentMode": "Serverless"}, "Knative", id="knative"),
    ],
)
def test_an_inference_service_whose_count_kserve_owns(look: Look, annotations: Json, refusal: str) -> None:
    looking = look(objects.inference_service(**annotations), PREDICTOR)
    named, below = looking.view(KSERVE), looking.view(replace(LLM, name="llm-predictor"))
    assert refusal in (named.refusal or "")
    assert named.refusal == below.refusal
    assert set(below.chain) == set(named.chain) == {KSERVE, named.scaled}


def test_two_deployments_of_one_inference_service_are_two_targets(look: Look) -> None:
    made = objects.made_by("serving.kserve.io/v1beta1", "InferenceService", "llm")
    looking = look(objects.inference_service(autoscalerClass="external"), PREDICTOR, objects.deployment("t", **made))
    predictor, transformer = (looking.view(replace(LLM, name=name)) for name in ("llm-predictor", "t"))
    assert transformer.refusal is None
    assert not set(predictor.chain) & set(transformer.chain)


def test_an_inference_service_without_deployment(look: Look) -> None:
    assert "no Deployment shop/llm-predictor" in look(objects.inference_service(autoscalerClass="external")).problem(
        KSERVE
    )


def test_what_an_operator_made_is_scaled_by_the_operators_object(look: Look) -> None:
    made = objects.deployment("nim", **objects.made_by("apps.nvidia.com/v1alpha1", "NIMService", "nim"))
    view = look(made, objects.nim_service()).view(replace(LLM, name="nim"))
    assert (view.ref.kind, view.scaled.kind, view.replicas) == ("Deployment", "NIMService", 2)
    assert view.write.scale_path is None
    assert [ref.kind for ref in view.chain] == ["Deployment", "NIMService"]


def test_a_cluster_that_a_ray_service_made_is_scaled_by_the_service(look: Look) -> None:
    ref = TargetRef(api_version="ray.io/v1", kind="RayCluster", name="ray-xk2v9", worker_group="pair")
    made = objects.ray_cluster(**objects.made_by("ray.io/v1", "RayService", "ray"))
    view = look(made, objects.ray_service()).view(ref)
    assert (view.scaled.kind, view.scaled.worker_group, view.replicas) == ("RayService", "pair", 3)
    assert {each.worker_group for each in view.chain} == {"pair"}


def test_what_a_custom_object_made_is_scaled_by_it(look: Look) -> None:
    made = objects.deployment(**objects.made_by("example.org/v1", "EngineSet", "engine"))
    view = look(made, objects.custom(replicas=5)).view(LLM)
    assert (view.scaled.kind, view.replicas) == ("EngineSet", 5)
    assert view.device_request == DeviceRequest(kind=GPU, count=1)


@pytest.mark.parametrize(
    ("owner", "said"),
    [
        pytest.param(("batch/v1", "Job", "run"), "no scale subresource", id="a kind without scale"),
        pytest.param(("vendor.io/v1", "Thing", "x"), "no API vendor.io/v1", id="a kind that is not there"),
        pytest.param(("apps.nvidia.com/v1alpha1", "NIMService", "gone"), "no NIMService shop/gone", id="an owner gone"),
    ],
)
def test_what_an_unscalable_owner_would_set_back_is_refused(look: Look, owner: tuple[str, str, str], said: str) -> None:
    problem = look(objects.deployment(**objects.made_by(*owner))).problem(LLM)
    assert problem.startswith(f"Deployment llm is made by {owner[1]} {owner[2]}, which would set its count back")
    assert said in problem


def test_owners_without_end_are_refused(look: Look) -> None:
    ring = [
        objects.custom(f"e{index}", **objects.made_by("example.org/v1", "EngineSet", f"e{(index + 1) % 10}"))
        for index in range(10)
    ]
    ref = TargetRef(api_version="example.org/v1", kind="EngineSet", name="e0")
    assert "more than 8 owners above one another" in look(*ring).problem(ref)


def test_a_deployment_that_only_has_the_name_is_not_the_inference_services(look: Look) -> None:
    looking = look(objects.inference_service(autoscalerClass="external"), objects.deployment("llm-predictor"))
    assert "Deployment llm-predictor is not made by InferenceService llm" in looking.problem(KSERVE)


def test_what_was_made_by_another_kind_of_set_is_one_part_of_it(look: Look) -> None:
    """A LeaderWorkerSet's leaders are a StatefulSet of the same name; the group is what is scaled."""
    made = objects.stateful_set("big", 2)
    made["metadata"].update(objects.made_by("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "big"))
    view = look(made, objects.leader_worker_set()).view(
        TargetRef(api_version="apps/v1", kind="StatefulSet", name="big")
    )
    assert (view.scaled.kind, view.pods_per_replica) == ("LeaderWorkerSet", 4)


def test_one_silence_is_waited_for_and_not_one_for_each_target(look: Look) -> None:
    looking = look(*(objects.custom(f"e{index}") for index in range(5)))
    keys = [("shop", TargetRef(api_version="example.org/v1", kind="EngineSet", name=f"e{index}")) for index in range(5)]
    looking.see(keys[0][1])
    looking.server.silent = True
    asked = looking.scales_read()
    found = looking.targets.refresh(keys)
    assert looking.scales_read() == asked + 1
    assert isinstance(found[keys[0]], TargetView)  # as it was: its object has not changed
    problems = [each for each in found.values() if isinstance(each, TargetProblem)]
    assert len(problems) == 4
    assert not any(each.lasting for each in problems)


def test_how_long_ago_the_server_spoke(look: Look) -> None:
    looking = look(objects.deployment())
    before = looking.targets.heard_s
    looking.view(LLM)
    after = looking.targets.heard_s
    assert before is None
    assert after is not None
    assert 1000.0 <= after <= looking.at_s


def test_a_kind_that_was_not_heard_of_for_too_long_is_not_believed_and_holds_its_targets_alone(look: Look) -> None:
    looking = look(objects.deployment(), objects.stateful_set())
    view = looking.view(LLM)
    looking.at_s += STALE_AFTER_S + 1.0
    found = looking.targets.refresh([("shop", LLM)])["shop", LLM]
    assert isinstance(found, TargetProblem)
    assert "Deployments of the cluster were not heard of" in found.detail
    assert (found.lasting, found.last) == (False, view)
    looking.view(TargetRef(api_version="apps/v1", kind="StatefulSet", name="llm"))


def test_a_custom_kind_is_read_by_its_scale_and_only_after_changes(look: Look) -> None:
    looking = look(objects.custom(replicas=0))
    ref = TargetRef(api_version="example.org/v1", kind="EngineSet", name="engine")
    view = looking.view(ref)
    assert (view.replicas, view.device_request) == (0, None)
    assert view.selector == written_selector("engine=engine")
    for _ in range(5):
        looking.targets.refresh([("shop", ref)])
    assert looking.scales_read() == 1


@pytest.mark.parametrize(
    ("ref", "said"),
    [
        pytest.param(LLM, "no Deployment shop/llm", id="no such object"),
        pytest.param(
            TargetRef(api_version="ray.io/v1", kind="RayService", name="ray"), "needs workerGroup, one of: small, pair",
            id="no group named",
        ),
        pytest.param(
            TargetRef(api_version="ray.io/v1", kind="RayService", name="ray", worker_group="tiny"),
            "no worker group tiny; it has: small, pair",
            id="no such group",
        ),
        pytest.param(TargetRef(api_version="batch/v1", kind="Job", name="j"), "no scale subresource", id="no scale"),
        pytest.param(TargetRef(api_version="batch/v1", kind="Yob", name="j"), "no kind Yob", id="no such kind"),
        pytest.param(TargetRef(api_version="nowhere/v1", kind="A", name="a"), "no API nowhere/v1", id="no such API"),
    ],
)  # fmt: skip
def test_targets_that_are_not_there(look: Look, ref: TargetRef, said: str) -> None:
    assert said in look(objects.ray_service()).problem(ref)


def test_what_has_not_changed_is_the_same_value(look: Look) -> None:
    looking = look(objects.deployment(), objects.custom())
    ref = TargetRef(api_version="example.org/v1", kind="EngineSet", name="engine")
    for each in (LLM, ref):
        assert looking.view(each) is looking.view(each)


def test_one_that_can_not_be_read_holds_no_other(look: Look) -> None:
    broken = copy.deepcopy(objects.deployment("broken"))
    broken["spec"]["replicas"] = "many"
    looking = look(broken, objects.deployment())
    assert "spec.replicas: wanted a whole number, got 'many'" in looking.problem(replace(LLM, name="broken"))
    assert looking.view(LLM).replicas == 3
