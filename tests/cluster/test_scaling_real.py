"""Targets are read, told from others' and written as real API servers, controllers and kubectl make them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from time import time
from typing import Any

import pytest

from adapters.kubernetes.connection import KubernetesApi
from adapters.kubernetes.count_history import CountHistories, begun
from adapters.kubernetes.deletion_cost import Candidate, Standing
from adapters.kubernetes.foreign_scalers import ForeignScalers
from adapters.kubernetes.owners import Ownership, ownership
from adapters.kubernetes.raw_json import JsonObject
from adapters.kubernetes.scaling import KubernetesActuator, NoticeKind, ScaleNotice
from adapters.kubernetes.target_view import TargetView
from adapters.kubernetes.targets import Targeted, Targets
from autoscaler.domain.plan import VariantTarget
from autoscaler.domain.resource import AutoscalerResource, Mode, TargetRef, VariantSource
from autoscaler.domain.service import DeviceRequest, Service, ServiceId, Slo, Variant
from autoscaler.ports import ConflictError, RefusedError, UnavailableError
from tests.cluster.api import MERGE, ApiError, Json
from tests.cluster.processes import wait_for
from tests.cluster.running import Cluster
from tests.cluster.workloads import await_pods, await_ready_pods, deployment, pod_template

pytestmark = pytest.mark.cluster

SERVICE = ServiceId("chat")
CHAT = TargetRef(api_version="apps/v1", kind="Deployment", name="chat")


@dataclass
class Acting:
    """One service with one target, as its controller sees and scales it."""

    namespace: str
    ref: TargetRef
    targets: Targets
    scalers: ForeignScalers
    api: KubernetesApi
    mode: Mode = Mode.SCALE
    pods: Sequence[Candidate] = ()
    notices: list[ScaleNotice] = field(default_factory=list)
    histories: CountHistories = field(default_factory=CountHistories)

    def resource(self, service: ServiceId) -> AutoscalerResource:
        return AutoscalerResource(
            namespace=self.namespace,
            name="chat",
            uid="u",
            generation=1,
            created_s=0.0,
            labels=(),
            mode=self.mode,
            service=Service(id=SERVICE, slo=Slo(ttft_s=1.0), variants=(Variant(name="full"),)),
            sources=(VariantSource(variant="full", target=self.ref),),
        )

    def targeted(self) -> Targeted:
        return self.targets.latest()

    def candidates(self, view: TargetView) -> Sequence[Candidate]:
        return self.pods

    def see(self, wanted: Callable[[TargetView], object] = lambda view: True) -> TargetView:
        """The target, as soon as it is as wanted."""
        found: list[TargetView] = []

        def seen() -> bool:
            view = self.targets.refresh([(self.namespace, self.ref)])[self.namespace, self.ref]
            found[:] = [view] if isinstance(view, TargetView) else []
            return bool(found) and bool(wanted(found[0]))

        wait_for(seen, f"{self.ref} is seen as wanted")
        return found[0]

    def ask_once(self, replicas: int) -> None:
        """Ask for a count."""
        actuator = KubernetesActuator(
            self.api, surroundings=self, histories=self.histories, now_s=time, notify=self.notices.append
        )
        actuator.scale(SERVICE, [VariantTarget(variant="full", replicas=replicas)])

    def scale(self, replicas: int) -> None:
        """Ask for a count, again where the cluster's own controllers wrote in between, as the next tick would."""

        def written() -> bool:
            try:
                self.ask_once(replicas)
            except ConflictError as error:
                if "409" not in str(error):
                    raise
                return False
            return True

        wait_for(written, f"{replicas} replicas are written")

    def owned(self, view: TargetView) -> Ownership:
        return ownership(
            view,
            self.resource(SERVICE),
            scalers=self.scalers.all(),
            history=self.histories.of(view),
            other_replicas=0,
        )


Act = Callable[..., Acting]


def _is_known(scalers: ForeignScalers) -> bool:
    try:
        scalers.all()
    except UnavailableError:
        return False
    return True


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """One of its own for each test."""
    with cluster.namespace() as name:
        yield name


@pytest.fixture
def act(cluster: Cluster, namespace: str) -> Iterator[Act]:
    """Begins to watch and act in the test's namespace."""
    opened: list[Acting] = []

    def begin(ref: TargetRef = CHAT, api: KubernetesApi | None = None, **more: Any) -> Acting:
        api = api or KubernetesApi.of_kubeconfig(cluster.kubeconfig)
        scalers = ForeignScalers(api, now_s=time, namespace=namespace)
        scalers.start()
        wait_for(partial(_is_known, scalers), "rival scalers are known")
        targets = Targets(api, now_s=time, namespace=namespace)
        opened.append(Acting(namespace, ref, targets, scalers, api, **more))
        return opened[-1]

    yield begin
    for each in opened:
        each.targets.close()
        each.scalers.close()
        each.api.close()


def gpu_container(gpus: int) -> Json:
    return {"name": "engine", "image": "engine:test", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}


def chat(replicas: int = 2, **template: Any) -> Json:
    return deployment("chat", replicas=replicas, template=pod_template("chat", **template))


def stateful_set() -> Json:
    made = chat()
    return {**made, "kind": "StatefulSet", "spec": {**made["spec"], "serviceName": "chat"}}


def leader_worker_set() -> Json:
    template = {"size": 3, "workerTemplate": {"spec": {"containers": [gpu_container(8)]}}}
    spec = {"replicas": 2, "leaderWorkerTemplate": template}
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "chat"},
        "spec": spec,
    }


def fleet() -> Json:
    """Its count is where no convention puts it."""
    spec = {"size": 2}
    return {"apiVersion": "test.gpu-autoscaler.io/v1", "kind": "Fleet", "metadata": {"name": "chat"}, "spec": spec}


def ray_service() -> Json:
    groups = [
        {"groupName": name, "replicas": 2, "template": {"spec": {"containers": [gpu_container(1)]}}}
        for name in ("small", "large")
    ]
    spec = {"rayClusterConfig": {"workerGroupSpecs": groups}}
    return {"apiVersion": "ray.io/v1", "kind": "RayService", "metadata": {"name": "chat"}, "spec": spec}


def nim_service() -> Json:
    spec = {"replicas": 2, "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    return {"apiVersion": "apps.nvidia.com/v1alpha1", "kind": "NIMService", "metadata": {"name": "chat"}, "spec": spec}


@pytest.mark.parametrize(
    ("made", "group", "devices"),
    [
        pytest.param(chat(), None, None, id="Deployment"),
        pytest.param(stateful_set(), None, None, id="StatefulSet"),
        pytest.param(
            leader_worker_set(), None, DeviceRequest(kind="nvidia.com/gpu", count=8, pods=3), id="LeaderWorkerSet"
        ),
        pytest.param(fleet(), None, None, id="a custom kind with /scale"),
        pytest.param(ray_service(), "large", DeviceRequest(kind="nvidia.com/gpu", count=1), id="RayService"),
        pytest.param(nim_service(), None, DeviceRequest(kind="nvidia.com/gpu", count=1), id="NIMService"),
    ],
)
def test_each_kind_is_scaled_and_the_writer_is_known(
    cluster: Cluster, namespace: str, act: Act, *, made: Json, group: str | None, devices: DeviceRequest | None
) -> None:
    cluster.apply([made], namespace=namespace)
    ref = TargetRef(api_version=made["apiVersion"], kind=made["kind"], name="chat", worker_group=group)
    acting = act(ref)
    before = acting.see()
    assert (before.replicas, before.device_request) == (2, devices)
    for wanted in (5, 0, 1):
        acting.scale(wanted)
        after = acting.see(partial(_has, wanted))
        # A zero through /scale has no owner (a Scale leaves zeros out), nor has what comes through /scale after it.
        assert {each.manager for each in after.writers} <= {"gpu-autoscaler"}
        assert after.writers or wanted != 5
        assert acting.histories.look([after], now_s=time()) == []
        assert acting.owned(after) == Ownership()
    assert [(each.kind, each.after) for each in acting.notices] == [(NoticeKind.SCALED, each) for each in (5, 0, 1)]


def _has(replicas: int, view: TargetView) -> bool:
    return view.replicas == replicas


def test_the_other_worker_groups_stay(cluster: Cluster, namespace: str, act: Act) -> None:
    cluster.apply([ray_service()], namespace=namespace)
    acting = act(TargetRef(api_version="ray.io/v1", kind="RayService", name="chat", worker_group="large"))
    acting.see()
    acting.scale(6)
    source = cluster.api.get(f"/apis/ray.io/v1/namespaces/{namespace}/rayservices/chat")
    groups = source["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    assert {each["groupName"]: each["replicas"] for each in groups} == {"small": 2, "large": 6}


def test_a_count_that_changed_since_the_decision_is_not_written_over(
    cluster: Cluster, namespace: str, act: Act
) -> None:
    cluster.apply([chat()], namespace=namespace)
    acting = act()
    acting.see()
    cluster.kubectl("scale", "deployment/chat", "--replicas=7", "-n", namespace)
    with pytest.raises(ConflictError, match="Deployment chat has 7 replicas; the decision was made on 2"):
        acting.scale(3)
    acting.see(lambda view: view.replicas == 7)
    acting.scale(8)
    assert cluster.api.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/chat")["spec"]["replicas"] == 8


@pytest.mark.parametrize(
    ("made", "group"), [pytest.param(chat(), None, id="PUT"), pytest.param(ray_service(), "large", id="JSON patch")]
)
def test_a_stale_version_is_refused_by_the_server(
    cluster: Cluster, namespace: str, act: Act, made: Json, group: str | None
) -> None:
    """The object changes between our reading and our writing, in no matter what."""
    cluster.apply([made], namespace=namespace)
    changed = cluster.api.path_of({**made, "metadata": {"name": "chat", "namespace": namespace}})

    class Interrupted(KubernetesApi):
        """Another one is quicker, each time after we have read."""

        def get(self, path: str, query: Mapping[str, str] = {}, *, timeout_s: float = 10.0) -> JsonObject:
            answer = super().get(path, query, timeout_s=timeout_s)
            if path.startswith(changed):
                cluster.api.patch(changed, {"metadata": {"annotations": {"touched": str(time())}}})
            return answer

    ref = TargetRef(api_version=made["apiVersion"], kind=made["kind"], name="chat", worker_group=group)
    acting = act(ref, Interrupted.of_kubeconfig(cluster.kubeconfig))
    acting.see()
    with pytest.raises(ConflictError, match="409"):
        acting.ask_once(3)
    assert acting.see().replicas == 2


def test_a_replica_set_lets_the_least_busy_go(cluster: Cluster, namespace: str, act: Act) -> None:
    cluster.apply([chat(4)], namespace=namespace)
    pods = await_ready_pods(cluster, namespace, 4)
    # By itself a ReplicaSet would rather keep the older ones, so the order of names says nothing.
    names = sorted(pod["metadata"]["name"] for pod in pods)
    flights = dict(zip(names, (9.0, 0.0, 4.0, 1.0), strict=True))
    candidates = [
        Candidate(
            name=pod["metadata"]["name"],
            uid=pod["metadata"]["uid"],
            standing=Standing.READY,
            created_s=0.0,
            in_flight=flights[pod["metadata"]["name"]],
        )
        for pod in pods
    ]
    acting = act(pods=candidates)
    acting.see(lambda view: view.rollout is None and view.status_replicas == 4)
    acting.scale(2)
    left = await_pods(cluster, namespace, lambda found: len(found) == 2, "two pods are left")
    assert sorted(pod["metadata"]["name"] for pod in left) == [names[0], names[2]]
    assert [each.kind for each in acting.notices] == [NoticeKind.SCALED]


def hpa(metric: Json) -> Json:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat"}
    spec = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 9, "metrics": [metric]}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "beside"},
        "spec": spec,
    }


OURS = {
    "type": "External",
    "external": {"metric": {"name": "desired_replicas"}, "target": {"type": "AverageValue", "averageValue": "1"}},
}
CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}


@pytest.mark.parametrize(
    ("metric", "mode", "owner", "warnings"),
    [
        pytest.param(OURS, Mode.SCALE, "HorizontalPodAutoscaler beside", 0, id="scale: any HPA is a rival"),
        pytest.param(OURS, Mode.ADVISE, None, 0, id="advise: the HPA that follows us"),
        pytest.param(CPU, Mode.ADVISE, None, 1, id="advise: another HPA"),
    ],
)
def test_an_hpa_beside_us(
    cluster: Cluster, namespace: str, act: Act, *, metric: Json, mode: Mode, owner: str | None, warnings: int
) -> None:
    cluster.apply([chat(), hpa(metric)], namespace=namespace)
    acting = act(mode=mode)
    view = acting.see()
    wait_for(lambda: _known(acting), "the HPA is seen")
    told = acting.owned(view)
    assert (told.foreign_owner, len(told.warnings)) == (owner, warnings)


def _known(acting: Acting) -> bool:
    try:
        return bool(acting.scalers.all())
    except Exception:
        return False


def test_a_hand_is_told_by_its_tool_and_zero_puts_the_service_aside(cluster: Cluster, namespace: str, act: Act) -> None:
    cluster.apply([chat()], namespace=namespace)
    acting = act()
    acting.histories.look([acting.see()], now_s=time())
    wait_for(lambda: _synced(acting), "scalers are known")
    acting.scale(3)
    acting.histories.look([acting.see(lambda view: view.replicas == 3)], now_s=time())
    cluster.kubectl("scale", "deployment/chat", "--replicas=4", "-n", namespace)
    ((_, change),) = acting.histories.look([acting.see(lambda view: view.replicas == 4)], now_s=time())
    assert str(change) == "kubectl changed the count from 3 to 4"
    cluster.kubectl("scale", "deployment/chat", "--replicas=0", "-n", namespace)
    zero = acting.see(lambda view: view.replicas == 0)
    ((_, change),) = acting.histories.look([zero], now_s=time())
    assert str(change) == "somebody changed the count from 4 to 0"
    told = acting.owned(zero)
    assert told.foreign_owner is None
    assert (told.suspended or "").startswith("Deployment chat was set to 0 at ")
    cluster.kubectl("scale", "deployment/chat", "--replicas=1", "-n", namespace)
    assert acting.owned(acting.see(lambda view: view.replicas == 1)).suspended is None


def _synced(acting: Acting) -> bool:
    try:
        acting.scalers.all()
    except Exception:
        return False
    return True


def test_a_tool_that_applies_the_count_server_side_owns_it(cluster: Cluster, namespace: str, act: Act) -> None:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/chat"
    cluster.api.request(
        "PATCH", path, chat(), content_type="application/apply-patch+yaml", fieldManager="kustomize-controller"
    )
    acting = act()
    view = acting.see()
    wait_for(lambda: _synced(acting), "scalers are known")
    assert (acting.owned(view).foreign_owner or "").startswith("kustomize-controller; keep spec.replicas out")


def test_a_rollout_holds_what_shrinks_until_it_is_done(cluster: Cluster, namespace: str, act: Act) -> None:
    cluster.apply([chat(3)], namespace=namespace)
    await_ready_pods(cluster, namespace, 3)
    acting = act()
    acting.see(lambda view: view.status_replicas == 3)
    never = pod_template("chat", behaviour={"hold": "unready"})
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/chat"
    cluster.api.patch(path, {"spec": {"template": never}})
    acting.see(lambda view: view.rollout is not None)
    acting.scale(1)
    assert [each.kind for each in acting.notices] == [NoticeKind.SHRINK_HELD]
    acting.scale(4)
    acting.see(lambda view: view.replicas == 4 and view.rollout is not None)
    cluster.kubectl("rollout", "undo", "deployment/chat", "-n", namespace)
    acting.see(lambda view: view.rollout is None and view.status_replicas == 4)
    acting.scale(1)
    await_ready_pods(cluster, namespace, 1)


def test_a_paused_deployment_follows_its_count(cluster: Cluster, namespace: str, act: Act) -> None:
    cluster.apply([chat(1)], namespace=namespace)
    await_ready_pods(cluster, namespace, 1)
    cluster.kubectl("rollout", "pause", "deployment/chat", "-n", namespace)
    acting = act()
    acting.see(lambda view: view.paused)
    acting.scale(3)
    await_ready_pods(cluster, namespace, 3)


def test_a_right_that_is_missing_is_named(cluster: Cluster, namespace: str, act: Act) -> None:
    cluster.apply([chat(), *_reader()], namespace=namespace)
    api = KubernetesApi.of_kubeconfig(cluster.kubeconfig_for_service_account(namespace, "reader"))
    acting = act(CHAT, api)
    acting.see()
    with pytest.raises(RefusedError, match=r"cannot update .*deployments/scale.*\(the role needs get and update"):
        acting.scale(3)


def _reader() -> list[Json]:
    """May read all and write nothing."""
    rbac = "rbac.authorization.k8s.io"
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]
    subject = {"kind": "ServiceAccount", "name": "reader"}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reader"}},
        {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": {"name": "reader"}, "rules": rules},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "reader"},
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "reader"},
            "subjects": [subject],
        },
    ]


def test_a_policy_that_refuses_is_quoted(cluster: Cluster, namespace: str, act: Act) -> None:
    cluster.apply([chat()], namespace=namespace)
    with _at_most(cluster, namespace, 4):
        acting = act()
        acting.see()
        with pytest.raises(RefusedError, match="no more than 4 replicas here") as refused:
            acting.scale(5)
        assert "the role needs" not in str(refused.value)
        acting.scale(4)


@contextmanager
def _at_most(cluster: Cluster, namespace: str, replicas: int) -> Iterator[None]:
    """An admission policy on the scale subresource, from when it is in force."""
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["deployments/scale"]}
    check = {
        "expression": f"object.spec.replicas <= {replicas}",
        "message": f"no more than {replicas} replicas here",
    }
    group, name = "admissionregistration.k8s.io/v1", f"at-most-{namespace}"
    spec = {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [rule]}, "validations": [check]}
    here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    binding = {"policyName": name, "validationActions": ["Deny"], "matchResources": here}
    made = [
        {"apiVersion": group, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": spec},
        {"apiVersion": group, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name}, "spec": binding},
    ]
    cluster.apply(made)
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/chat/scale"
    try:
        wait_for(partial(_refuses, cluster, path), "the policy is in force")
        yield
    finally:
        for each in made:
            cluster.api.delete(cluster.api.path_of(each))


def _refuses(cluster: Cluster, path: str) -> bool:
    try:
        cluster.api.request("PATCH", path, {"spec": {"replicas": 99}}, content_type=MERGE, dryRun="All")
    except ApiError as error:
        return error.status == 422
    return False


def test_what_an_owner_makes_is_scaled_by_the_owner(cluster: Cluster, namespace: str, act: Act) -> None:
    (owner,) = cluster.apply([nim_service()], namespace=namespace)
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": "NIMService",
        "name": "chat",
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    made = chat()
    made["metadata"]["ownerReferences"] = [reference]
    cluster.apply([made], namespace=namespace)
    acting = act()
    assert acting.see().scaled.kind == "NIMService"
    acting.scale(4)
    source = cluster.api.get(f"/apis/apps.nvidia.com/v1alpha1/namespaces/{namespace}/nimservices/chat")
    assert source["spec"]["replicas"] == 4
    assert begun(acting.see(lambda view: view.replicas == 4)).seen == 4
