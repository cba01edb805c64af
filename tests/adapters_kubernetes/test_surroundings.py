"""Who else writes a target, and which of its pods may go, as one leadership sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

from adapters.kubernetes.contents import ObjectKey
from adapters.kubernetes.count_history import CountHistories, ForeignChange
from adapters.kubernetes.deletion_cost import Standing
from adapters.kubernetes.foreign_scalers import ForeignScaler
from adapters.kubernetes.pods import PodView, pod_view
from adapters.kubernetes.surroundings import Judges
from adapters.kubernetes.target_view import TargetView
from adapters.kubernetes.targets import Targeted
from autoscaler.domain.resource import AutoscalerResource, Mode, TargetRef
from tests.adapters_kubernetes import target_objects as objects
from tests.adapters_kubernetes.test_owners import resource, seen

NOW_S = 1_796_040_000.0
REF = TargetRef(api_version="apps/v1", kind="Deployment", name="llm")
HPA = ForeignScaler(kind="HorizontalPodAutoscaler", namespace="shop", name="other", target=REF, reads=("cpu",))


class Pods:
    """Pods in memory."""

    def __init__(self) -> None:
        self.kept: dict[ObjectKey, PodView] = {}

    def items(self) -> Mapping[ObjectKey, PodView]:
        return dict(self.kept)

    def unreadable(self) -> Mapping[ObjectKey, str]:
        return {}

    @property
    def heard_s(self) -> float | None:
        return NOW_S

    @property
    def failure(self) -> str | None:
        return None

    def add(self, name: str, *, labels: Mapping[str, str], namespace: str = "shop", ready: bool | None = True) -> None:
        """``ready`` None: no node takes it."""
        conditions = [{"type": "Ready", "status": str(bool(ready)), "lastTransitionTime": objects.CREATED}]
        if ready is None:
            conditions = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
        source = {
            "metadata": {
                **{"name": name, "namespace": namespace, "uid": f"uid-{name}", "creationTimestamp": objects.CREATED},
                "labels": dict(labels),
            },
            "spec": {"containers": [{"name": "engine"}], **({} if ready is None else {"nodeName": "gpu-0"})},
            "status": {"phase": "Pending" if ready is None else "Running", "conditions": conditions},
        }
        self.kept[ObjectKey(namespace, name)] = pod_view(source)


@dataclass
class World:
    """What the judges look at, to be changed by tests. ``news``: counts of ours that others have set."""

    view: TargetView = field(default_factory=lambda: seen(objects.deployment()))
    resources: list[AutoscalerResource] = field(default_factory=lambda: [resource()])
    scalers: list[ForeignScaler] = field(default_factory=list)
    pods: Pods = field(default_factory=Pods)
    busy: dict[str, float] = field(default_factory=dict)
    asked: int | None = None
    news: list[ForeignChange] = field(default_factory=list)
    targeted: Targeted = field(default_factory=dict)

    def look(self) -> None:
        """The targets are read again, as at each tick."""
        self.targeted = {("shop", REF): self.view}

    def judges(self) -> Judges:
        self.look()
        return Judges(
            resources=lambda: self.resources,
            targeted=lambda: self.targeted,
            scalers=lambda: self.scalers,
            pods=self.pods,
            in_flight=self.busy.get,
            histories=CountHistories(),
            now_s=lambda: NOW_S,
            last_asked=lambda resource, variant: self.asked,
            changed=lambda resource, view, change: self.news.append(change),
        )


def test_a_target_of_our_own_may_be_scaled() -> None:
    world = World()
    (asking,) = world.resources
    standing = world.judges().standing(asking, "full", world.view)
    assert standing.foreign_owner is None
    assert standing.suspended is None


@pytest.mark.parametrize(
    ("scaler", "mode", "owns"),
    [
        pytest.param(HPA, Mode.SCALE, True, id="beside us"),
        pytest.param(replace(HPA, follows_us=True), Mode.SCALE, True, id="would carry out what we do ourselves"),
        pytest.param(replace(HPA, follows_us=True), Mode.ADVISE, False, id="carries our numbers out"),
        pytest.param(replace(HPA, namespace="elsewhere"), Mode.SCALE, False, id="in another namespace"),
        pytest.param(replace(HPA, target=replace(REF, name="other")), Mode.SCALE, False, id="of another target"),
    ],
)
def test_another_scaler_of_the_target_is_named(scaler: ForeignScaler, mode: Mode, *, owns: bool) -> None:
    world = World(scalers=[scaler], resources=[resource(mode=mode)])
    (asking,) = world.resources
    found = world.judges().standing(asking, "full", world.view).foreign_owner
    assert (found is not None) == owns
    assert not owns or "other" in str(found)


def test_what_changes_counts_when_the_targets_are_read_again() -> None:
    world = World()
    judges = world.judges()
    (asking,) = world.resources
    assert judges.ownership(asking.service.id, "full").foreign_owner is None
    world.scalers.append(HPA)
    assert judges.ownership(asking.service.id, "full").foreign_owner is None, "within a tick all is as it was"
    world.look()
    assert judges.ownership(asking.service.id, "full").foreign_owner is not None


def test_of_two_that_ask_for_one_target_the_younger_is_refused() -> None:
    older, younger = resource("older", created_s=1.0), resource("younger", created_s=2.0)
    judges = World(resources=[younger, older]).judges()
    assert judges.ownership(older.service.id, "full").foreign_owner is None
    assert "older" in str(judges.ownership(younger.service.id, "full").foreign_owner)


def test_a_resource_is_known_as_long_as_it_is_there() -> None:
    world = World()
    judges = world.judges()
    (asking,) = world.resources
    assert judges.resource(asking.service.id) == asking
    world.resources.clear()
    world.look()
    assert judges.resource(asking.service.id) is None


@pytest.mark.parametrize(
    ("mode", "news"), [pytest.param(Mode.SCALE, 1, id="scale"), pytest.param(Mode.ADVISE, 0, id="advise")]
)
def test_a_count_of_ours_that_somebody_else_has_set_is_news(mode: Mode, news: int) -> None:
    world = World(resources=[resource(mode=mode)], asked=2)
    judges = world.judges()
    judges.ownership(world.resources[0].service.id, "full")
    world.news.clear()
    writer = objects.wrote("kubectl-scale", time="2026-11-30T12:30:00Z")
    world.view = seen(objects.deployment(replicas=7, writers=[writer]))
    world.look()
    judges.ownership(world.resources[0].service.id, "full")
    assert len(world.news) == news


def test_candidates_are_the_targets_pods_that_do_not_end_with_what_they_have_in_flight() -> None:
    world = World(busy={"shop/a": 3.0})
    selector = world.view.selector
    assert selector is not None
    labels = {"app": "llm"}
    assert selector.matches(labels)
    world.pods.add("a", labels=labels)
    world.pods.add("b", labels=labels, ready=None)
    world.pods.add("c", labels={"app": "other"})
    world.pods.add("d", labels=labels, namespace="elsewhere")
    found = {each.name: (each.standing, each.in_flight) for each in world.judges().candidates(world.view)}
    assert found == {"a": (Standing.READY, 3.0), "b": (Standing.UNSCHEDULABLE, None)}


def test_a_target_that_does_not_tell_its_pods_has_no_candidates() -> None:
    world = World()
    world.pods.add("a", labels={"app": "llm"})
    assert world.judges().candidates(replace(world.view, selector=None)) == ()
