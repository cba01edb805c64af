"""An object that can be a target, and what all kinds of it are read by."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from adapters.kubernetes.connection import Collection
from adapters.kubernetes.field_writers import deployers_of, writers_of
from adapters.kubernetes.label_matching import LabelSelector
from adapters.kubernetes.raw_json import JsonObject, flag, objects, optional_whole, text
from adapters.kubernetes.target_view import PodGroup, Rollout, ScaleWrite, TargetView
from autoscaler.domain.resource import TargetRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalable:
    """One object of a kind that can be a target.

    ``views``: what there is to scale in it, by worker group ("" where the kind has none). ``runs``: the object that
    has the count instead. ``controller``: who made it and would set it back. ``refusal``: why nobody but its own
    operator may scale what it makes; None where its operator leaves the count alone.
    """

    ref: TargetRef
    uid: str
    views: Mapping[str, TargetView] = field(default_factory=dict)
    runs: TargetRef | None = None
    controller: TargetRef | None = None
    refusal: str | None = None
    leaves_count: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetKind:
    """A row: ``read`` turns a raw object into a Scalable and raises ShapeError."""

    group: str
    version: str
    plural: str
    kind: str
    read: Callable[[TargetKind, JsonObject], Scalable]

    @property
    def collection(self) -> Collection:
        """Where the objects are served, in all namespaces."""
        return Collection(group=self.group, version=self.version, plural=self.plural)

    def ref(self, source: JsonObject) -> TargetRef:
        """Names the object."""
        return TargetRef(
            api_version=f"{self.group}/{self.version}", kind=self.kind, name=text(source, "metadata", "name")
        )

    def path(self, source: JsonObject) -> str:
        """Of the object."""
        within = self.collection.within(text(source, "metadata", "namespace"))
        return within.item(text(source, "metadata", "name"))


def controller_of(source: JsonObject) -> TargetRef | None:
    """The owner that manages the object (``controller: true`` among its ownerReferences)."""
    for owner in objects(source, "metadata", "ownerReferences"):
        if flag(owner, "controller"):
            return TargetRef(api_version=text(owner, "apiVersion"), kind=text(owner, "kind"), name=text(owner, "name"))
    return None


def scalable(source: JsonObject, view: TargetView) -> Scalable:
    """An object with one count."""
    return Scalable(ref=view.ref, uid=view.uid, views={"": view}, controller=controller_of(source))


def view_of(
    kind: TargetKind,
    source: JsonObject,
    *,
    selector: LabelSelector | None,
    groups: Sequence[PodGroup] | None,
    rollout: Rollout | None = None,
    paused: bool = False,
    leader: LabelSelector | None = None,
    group_label: str | None = None,
    by_cost: bool = False,
    scale: bool = True,
    replicas: int | None = None,
    status_replicas: int | None = None,
    refusal: str | None = None,
) -> TargetView:
    ref, path = kind.ref(source), kind.path(source)
    asked = optional_whole(source, "spec", "replicas") if replicas is None else replicas
    reported = optional_whole(source, "status", "replicas") if status_replicas is None else status_replicas
    return TargetView(
        namespace=text(source, "metadata", "namespace"),
        ref=ref,
        scaled=ref,
        uid=text(source, "metadata", "uid"),
        resource_version=text(source, "metadata", "resourceVersion"),
        write=ScaleWrite(object_path=path, scale_path=f"{path}/scale" if scale else None),
        replicas=1 if asked is None else asked,  # what all these kinds take a missing number for
        status_replicas=reported,
        selector=selector,
        leader=leader,
        group_label=group_label,
        groups=None if groups is None else tuple(groups),
        rollout=rollout,
        paused=paused,
        writers=writers_of(source, "spec", "replicas"),
        deployers=deployers_of(source),
        honours_deletion_cost=by_cost,
        refusal=refusal,
    )
