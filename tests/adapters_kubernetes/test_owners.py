"""Whoever else writes a count is named, a hand is obeyed, and a quarrel ends."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, datetime
from time import monotonic

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.kubernetes.connection import KubernetesApi
from adapters.kubernetes.count_history import CountHistories, CountHistory, begun
from adapters.kubernetes.foreign_scalers import ForeignScaler, ForeignScalers, hpa_of, scaled_object_of, vpa_of
from adapters.kubernetes.owners import Claim, Ownership, contested, ownership
from adapters.kubernetes.scaling import shrink_held
from adapters.kubernetes.target_kinds import TARGET_KINDS
from adapters.kubernetes.target_view import FieldWriter, Rollout, TargetView
from autoscaler.domain.resource import AutoscalerResource, Mode, TargetRef, VariantSource
from autoscaler.domain.service import Bounds, Service, ServiceId, Slo, Variant
from autoscaler.ports import UnavailableError
from tests.adapters_kubernetes import target_objects as objects
from tests.adapters_kubernetes.object_server import ObjectServer
from tests.adapters_kubernetes.scripted_server import ScriptedServer
from tests.adapters_kubernetes.target_objects import Json

T0_S = datetime(2026, 11, 30, 12, tzinfo=UTC).timestamp()
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "llm"}
OURS = {"type": "External", "external": {"metric": {"name": "desired_replicas"}, "target": {"type": "AverageValue"}}}
CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}


def seen(source: Json) -> TargetView:
    kind = next(kind for kind in TARGET_KINDS if kind.kind == source["kind"])
    return kind.read(kind, source).views[""]


VIEW = seen(objects.deployment())


def resource(
    name: str = "llm",
    mode: Mode = Mode.SCALE,
    *,
    least: int = 1,
    created_s: float = T0_S,
    variants: tuple[str, ...] = ("full",),
    target: str = "llm",
) -> AutoscalerResource:
    ref = TargetRef(api_version="apps/v1", kind="Deployment", name=target)
    return AutoscalerResource(
        namespace="shop",
        name=name,
        uid=f"uid-{name}",
        generation=1,
        created_s=created_s,
        labels=(),
        mode=mode,
        service=Service(
            id=ServiceId(f"shop/{name}"),
            slo=Slo(ttft_s=1.0),
            variants=tuple(Variant(name=each) for each in variants),
            bounds=Bounds(min_replicas=least),
        ),
        sources=tuple(VariantSource(variant=each, target=ref) for each in variants),
    )


def judged(
    *scalers: ForeignScaler,
    view: TargetView = VIEW,
    mode: Mode = Mode.SCALE,
    history: CountHistory | None = None,
    least: int = 1,
    others: int = 0,
) -> Ownership:
    return ownership(
        view,
        resource(mode=mode, least=least),
        scalers=scalers,
        history=history or begun(view),
        other_replicas=others,
    )


def hpa(*metrics: Json, name: str = "hpa", target: Json = DEPLOYMENT, made_by: Json | None = None) -> ForeignScaler:
    source = objects.scaler("HorizontalPodAutoscaler", name, target, metrics=list(metrics))
    source["metadata"].update(made_by or {})
    return hpa_of(source)


def scaled_object(*triggers: Json, paused: bool = False, target: Json | None = None) -> ForeignScaler:
    source = objects.scaler("ScaledObject", "so", target or {"name": "llm"}, triggers=list(triggers))
    if paused:
        source["metadata"]["annotations"] = {"autoscaling.keda.sh/paused": "true"}
    return scaled_object_of(source)


def vpa(mode: str | None) -> ForeignScaler:
    policy = {} if mode is None else {"updatePolicy": {"updateMode": mode}}
    return vpa_of(objects.scaler("VerticalPodAutoscaler", "vpa", DEPLOYMENT, **policy))


PUSH: Json = {"type": "external-push", "metadata": {"scalerAddress": "gpu-autoscaler:6000"}}
KEDAS_HPA = objects.made_by("keda.sh/v1alpha1", "ScaledObject", "so")


@pytest.mark.parametrize(
    ("scalers", "owner"),
    [
        pytest.param([], None, id="nobody"),
        pytest.param([hpa(CPU)], "HorizontalPodAutoscaler hpa", id="an HPA on CPU"),
        pytest.param([hpa(OURS)], "HorizontalPodAutoscaler hpa", id="an HPA on our number, but we write ourselves"),
        pytest.param([hpa(CPU, target={**DEPLOYMENT, "name": "llm-2"})], None, id="an HPA on another Deployment"),
        pytest.param([hpa(CPU, target={**DEPLOYMENT, "kind": "StatefulSet"})], None, id="an HPA on another kind"),
        pytest.param([scaled_object(PUSH)], "ScaledObject so", id="a ScaledObject, kind left out"),
        pytest.param([scaled_object(PUSH), hpa(OURS, made_by=KEDAS_HPA)], "ScaledObject so", id="and KEDA's own HPA"),
        pytest.param([scaled_object(PUSH, paused=True)], None, id="a paused ScaledObject"),
        pytest.param([vpa("Auto")], None, id="a VPA leaves the count alone"),
        pytest.param(
            [hpa(CPU), hpa(CPU, name="other")],
            "HorizontalPodAutoscaler hpa and HorizontalPodAutoscaler other",
            id="two HPAs",
        ),
    ],
)
def test_scalers_beside_us(scalers: list[ForeignScaler], owner: str | None) -> None:
    assert judged(*scalers).foreign_owner == owner


@pytest.mark.parametrize(
    ("scalers", "warning"),
    [
        pytest.param([hpa(OURS)], None, id="an HPA carries our number out"),
        pytest.param([scaled_object(PUSH), hpa(OURS, made_by=KEDAS_HPA)], None, id="KEDA carries it out"),
        pytest.param([hpa(CPU)], "scales the target on cpu, not on our number", id="an HPA on CPU"),
        pytest.param([hpa(OURS, CPU)], "scales the target on desired_replicas, cpu", id="an HPA on both"),
        pytest.param(
            [scaled_object({"type": "prometheus", "metadata": {}})], "on prometheus, not", id="KEDA elsewhere"
        ),
    ],
)
def test_advice_is_nobodys_rival(scalers: list[ForeignScaler], warning: str | None) -> None:
    told = judged(*scalers, mode=Mode.ADVISE)
    assert (told.foreign_owner, told.suspended) == (None, None)
    assert (warning is None and told.warnings == ()) or (warning is not None and warning in told.warnings[0])


@pytest.mark.parametrize(
    ("mode", "warned"),
    [("Auto", True), ("Recreate", True), ("InPlaceOrRecreate", True), (None, True), ("Initial", False), ("Off", False)],
)
def test_a_vpa_that_evicts_is_reported(mode: str | None, *, warned: bool) -> None:
    assert any("cold start" in warning for warning in judged(vpa(mode)).warnings) is warned


def test_all_that_scale_are_known_where_keda_is_not_installed(server: ScriptedServer, api: KubernetesApi) -> None:
    server.otherwise = ObjectServer([objects.scaler("HorizontalPodAutoscaler", "hpa", DEPLOYMENT, metrics=[CPU])])
    changed = threading.Event()
    scalers = ForeignScalers(api, now_s=lambda: T0_S, changed=changed.set)
    with pytest.raises(UnavailableError, match="not known yet"):
        scalers.all()
    scalers.start()
    try:
        ends_s = monotonic() + 20.0
        while not _known(scalers) and monotonic() < ends_s:
            changed.wait(0.1)
        assert [str(each) for each in scalers.all()] == ["HorizontalPodAutoscaler hpa"]
    finally:
        server.stop()
        scalers.close()
        server.start()


def _known(scalers: ForeignScalers) -> bool:
    try:
        scalers.all()
    except UnavailableError:
        return False
    return True


def test_an_hpa_on_what_the_target_is_made_by_is_a_rival() -> None:
    made = replace(VIEW, between=(TargetRef(api_version="example.org/v1", kind="EngineSet", name="engine"),))
    above = hpa(CPU, target={"apiVersion": "example.org/v1beta1", "kind": "EngineSet", "name": "engine"})
    assert judged(above, view=made).foreign_owner == "HorizontalPodAutoscaler hpa"


def written_by(*writers: FieldWriter, replicas: int = 3, version: str = "100") -> TargetView:
    return replace(VIEW, writers=writers, replicas=replicas, resource_version=version)


def writer(manager: str, operation: str = "Update", at_s: float = T0_S) -> FieldWriter:
    return FieldWriter(manager=manager, operation=operation, at_s=at_s)


@pytest.mark.parametrize(
    ("view", "owner", "warning"),
    [
        pytest.param(
            written_by(writer("kustomize-controller", "Apply")), "kustomize-controller", None, id="flux applies"
        ),
        pytest.param(written_by(writer("argocd-controller", "Apply")), "argocd-controller", None, id="argo applies"),
        pytest.param(written_by(writer("argocd-controller")), None, "may set it back", id="argo made it, perhaps once"),
        pytest.param(written_by(writer("helm-controller")), None, "may set it back", id="a helm release at rest"),
        pytest.param(written_by(writer("kubectl-client-side-apply")), None, None, id="a hand"),
        pytest.param(written_by(writer("kubectl", "Apply")), None, None, id="a hand, server-side"),
        pytest.param(written_by(writer("gpu-autoscaler")), None, None, id="we"),
    ],
)
def test_tools_that_apply_manifests(view: TargetView, owner: str | None, warning: str | None) -> None:
    told = judged(view=view)
    assert (told.foreign_owner or "").startswith(owner or "")
    assert (told.foreign_owner is None) is (owner is None)
    assert [warning in each for each in told.warnings if warning] == ([True] if warning else [])


class Quarrel:
    """A target, what we write and what others do."""

    def __init__(self) -> None:
        self.histories = CountHistories()
        self.now_s, self.version, self.replicas = T0_S, 100, 3
        self.last: FieldWriter = writer("kubectl-client-side-apply")
        self.look()

    @property
    def view(self) -> TargetView:
        return written_by(self.last, replicas=self.replicas, version=str(self.version))

    def look(self) -> list[str]:
        return [str(change) for _, change in self.histories.look([self.view], now_s=self.now_s)]

    def set(self, replicas: int, manager: str = "gpu-autoscaler", after_s: float = 20.0) -> None:
        self.now_s += after_s
        before = self.view
        self.version, self.replicas, self.last = self.version + 7, replicas, writer(manager, at_s=self.now_s)
        if manager == "gpu-autoscaler":
            self.histories.wrote(before, replicas, version=str(self.version), at_s=self.now_s)

    def owner(self) -> str | None:
        return judged(view=self.view, history=self.histories.of(self.view)).foreign_owner


def test_a_hand_is_obeyed_once_and_a_second_time_stops_us() -> None:
    quarrel = Quarrel()
    quarrel.set(5)
    quarrel.set(4, "kubectl-scale")
    assert quarrel.look() == ["kubectl-scale changed the count from 5 to 4"]
    assert quarrel.look() == []
    assert quarrel.owner() is None
    quarrel.set(6)
    quarrel.set(4, "kubectl-scale")
    quarrel.look()
    assert (quarrel.owner() or "").startswith("kubectl-scale, which sets ours back (6 -> 4 at 2026-11-30T12:01:20Z)")


def test_switching_the_service_off_and_on_again_is_no_quarrel() -> None:
    quarrel = Quarrel()
    for _ in range(2):
        quarrel.set(5)
        quarrel.set(0, "kubectl-scale")
        quarrel.look()
        quarrel.set(1, "kubectl-scale")
        quarrel.look()
    assert quarrel.owner() is None


def test_one_answer_of_argo_stops_us() -> None:
    quarrel = Quarrel()
    quarrel.set(5)
    quarrel.set(3, "argocd-controller", after_s=2.0)
    # The count is what it was at our last look: only the version says that it changed twice.
    assert quarrel.look() == ["argocd-controller changed the count from 5 to 3"]
    assert "docs/coexistence.md" in (quarrel.owner() or "")


def test_another_installation_of_ours_is_told_by_counts_we_never_wrote() -> None:
    quarrel = Quarrel()
    for _ in range(2):
        quarrel.set(5)
        quarrel.version, quarrel.replicas = quarrel.version + 1, 2
        quarrel.look()
    assert "another installation of GPU Autoscaler" in (quarrel.owner() or "")


@pytest.mark.parametrize(
    ("after_s", "stopped"), [pytest.param(60.0, True, id="an answer"), pytest.param(900.0, False, id="a later wish")]
)
def test_only_prompt_changes_are_answers(*, after_s: float, stopped: bool) -> None:
    quarrel = Quarrel()
    for _ in range(2):
        quarrel.set(5)
        quarrel.set(3, "kubectl-scale", after_s=after_s)
        quarrel.look()
    assert (quarrel.owner() is not None) is stopped


def test_a_quarrel_is_forgotten_after_an_hour_of_peace() -> None:
    quarrel = Quarrel()
    for _ in range(2):
        quarrel.set(5)
        quarrel.set(3, "kubectl-scale")
        quarrel.look()
    assert quarrel.owner() is not None
    quarrel.now_s += 3601.0
    quarrel.look()
    assert quarrel.owner() is None


def test_a_target_that_is_out_of_sight_for_a_while_keeps_its_past() -> None:
    quarrel = Quarrel()
    quarrel.set(5)
    assert quarrel.histories.look([], now_s=quarrel.now_s + 60.0) == []
    quarrel.set(4, "kubectl-scale")
    assert quarrel.look() == ["kubectl-scale changed the count from 5 to 4"]


def test_a_new_leader_knows_what_was_asked_for_before() -> None:
    histories = CountHistories()
    histories.recall(BY_SCALE, 3, now_s=T0_S)
    assert histories.look([BY_SCALE], now_s=T0_S) == []
    assert judged(view=BY_SCALE, history=histories.of(BY_SCALE), least=0).suspended is not None
    histories.recall(BY_SCALE, 0, now_s=T0_S)
    assert histories.of(BY_SCALE).written == 3


def test_a_change_is_told_once_whoever_names_the_target() -> None:
    quarrel = Quarrel()
    quarrel.set(4, "kubectl-scale")
    assert len(quarrel.histories.look([quarrel.view, quarrel.view], now_s=quarrel.now_s)) == 1


def test_an_object_made_anew_has_no_past() -> None:
    quarrel = Quarrel()
    quarrel.set(5)
    anew = replace(quarrel.view, uid="another", replicas=1)
    assert quarrel.histories.look([anew], now_s=quarrel.now_s) == []
    assert quarrel.histories.of(anew).written is None


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), max_size=20))
def test_our_own_writes_are_never_taken_for_anothers(steps: list[tuple[int, int]]) -> None:
    """However late the watch is: it may show any earlier state, but never one from before what it showed already."""
    quarrel = Quarrel()
    shown = [quarrel.view]
    for replicas, lag in steps:
        quarrel.set(replicas)
        shown.append(quarrel.view)
        late = shown[max(0, len(shown) - 1 - lag)]
        shown = shown[shown.index(late) :]
        assert quarrel.histories.look([late], now_s=quarrel.now_s) == []
    assert quarrel.owner() is None


ZERO = written_by(writer("kubectl-edit"), replicas=0)
BY_SCALE = written_by(replicas=0)  # a zero that came through /scale has no owner
HAD = begun(VIEW).wrote(3, version="90", at_s=T0_S)
SEEN_TO_FALL, _ = HAD.observed(BY_SCALE, now_s=T0_S)
EDITED = "Deployment llm was set to 0 by kubectl-edit at 2026-11-30T12:00:00Z; set it to 1 or more to hand it back"
SCALED = "Deployment llm was set to 0 at 2026-11-30T12:00:00Z; set it to 1 or more to hand it back"


@pytest.mark.parametrize(
    ("view", "history", "least", "others", "suspended"),
    [
        pytest.param(ZERO, None, 1, 0, EDITED, id="by hand, against the minimum"),
        pytest.param(ZERO, None, 0, 0, None, id="by hand, but it may sleep"),
        pytest.param(ZERO, HAD, 0, 0, EDITED, id="by hand while we wanted more"),
        pytest.param(BY_SCALE, SEEN_TO_FALL, 0, 0, SCALED, id="by kubectl scale while we wanted more"),
        pytest.param(BY_SCALE, HAD.wrote(0, version="95", at_s=T0_S), 1, 2, None, id="through /scale by us"),
        pytest.param(ZERO, None, 1, 2, None, id="a variant that is not used yet"),
        pytest.param(ZERO, HAD, 1, 2, EDITED, id="a variant that was put aside"),
        pytest.param(written_by(writer("gpu-autoscaler"), replicas=0), HAD, 1, 0, None, id="by us"),
        pytest.param(written_by(writer("kube-controller-manager"), replicas=0), None, 1, 0, None, id="by an HPA"),
        pytest.param(written_by(writer("keda"), replicas=0), None, 1, 0, None, id="by KEDA"),
        pytest.param(written_by(writer("kubectl-scale"), replicas=1), HAD, 1, 0, None, id="handed back"),
    ],
)
def test_zero_by_hand(
    view: TargetView, history: CountHistory | None, *, least: int, others: int, suspended: str | None
) -> None:
    assert judged(view=view, history=history, least=least, others=others).suspended == suspended


def test_a_paused_deployment_is_followed_and_told_of() -> None:
    paused = replace(VIEW, paused=True)
    told = judged(view=paused)
    assert (told.foreign_owner, told.suspended) == (None, None)
    assert "is paused" in told.warnings[0]


@pytest.mark.parametrize(
    ("view", "held"),
    [
        pytest.param(VIEW, False, id="at rest"),
        pytest.param(replace(VIEW, rollout=Rollout(updated=1, wanted=4)), True, id="rolling out"),
        pytest.param(replace(VIEW, rollout=Rollout(updated=1, wanted=4, stalled=True)), False, id="stuck"),
        pytest.param(replace(VIEW, rollout=Rollout(updated=1, wanted=4), paused=True), False, id="paused half way"),
    ],
)
def test_when_a_count_may_not_go_down(view: TargetView, *, held: bool) -> None:
    assert (shrink_held(view) is not None) is held


def claim(which: AutoscalerResource, variant: str = "full", view: TargetView = VIEW) -> Claim:
    return Claim(resource=which, variant=variant, view=view)


OLD, YOUNG = resource("old"), resource("young", created_s=T0_S + 5)


@pytest.mark.parametrize(
    ("claims", "lost"),
    [
        pytest.param([claim(YOUNG), claim(OLD)], {"shop/young": "InferenceAutoscaler old"}, id="the older has it"),
        pytest.param([claim(resource("b")), claim(resource("a"))], {"shop/b": "InferenceAutoscaler a"}, id="by name"),
        pytest.param(
            [claim(OLD), claim(YOUNG, view=replace(VIEW, ref=replace(VIEW.ref, kind="InferenceService")))],
            {"shop/young": "InferenceAutoscaler old"},
            id="the same Deployment under another name",
        ),
        pytest.param(
            [claim(OLD), claim(YOUNG, view=seen(objects.deployment("other")))], {}, id="two Deployments"
        ),
        pytest.param(
            [claim(OLD), claim(YOUNG, view=replace(VIEW, namespace="elsewhere"))], {}, id="another namespace"
        ),
        pytest.param([claim(OLD), claim(resource("young", Mode.ADVISE, created_s=T0_S + 5))], {"shop/young": "InferenceAutoscaler old"}, id="advice too"),  # noqa: E501
    ],
)  # fmt: skip
def test_two_resources_on_one_target(claims: list[Claim], lost: dict[str, str]) -> None:
    found = contested(claims)
    assert {service: said.split(",")[0] for (service, _), said in found.items()} == lost
    assert found == contested(list(reversed(claims)))


def test_two_variants_on_one_target() -> None:
    both = resource(variants=("full", "slice"))
    found = contested([claim(both, "slice"), claim(both, "full")])
    assert list(found) == [("shop/llm", "slice")]
    told = ownership(
        VIEW,
        both,
        scalers=(),
        history=begun(VIEW),
        other_replicas=0,
        contested_by=found[ServiceId("shop/llm"), "slice"],
    )
    assert "variant full of the same resource" in (told.foreign_owner or "")


def test_what_its_operator_scales_is_its_operators() -> None:
    nim = seen(objects.nim_service(scale={"enabled": True}))
    assert "set spec.scale.enabled to false" in (judged(view=nim).foreign_owner or "")
    assert "set spec.scale.enabled to false" in judged(view=nim, mode=Mode.ADVISE).warnings[0]
