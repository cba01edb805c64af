"""Objects of any kind that has a scale subresource.

Where the count is in such an object only its definition knows; ``/scale`` tells it (Kubernetes docs, "Extend the
Kubernetes API with CustomResourceDefinitions", scale subresource). The objects are watched, and ``/scale`` is read
again when one of them has changed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from adapters.kubernetes.api_errors import NotFoundError
from adapters.kubernetes.connection import Collection, KubernetesApi
from adapters.kubernetes.contents import ObjectKey
from adapters.kubernetes.field_writers import deployers_of, writers_of
from adapters.kubernetes.following import Following, item_of
from adapters.kubernetes.label_matching import written_selector
from adapters.kubernetes.raw_json import JsonObject, objects, optional_text, optional_whole, text
from adapters.kubernetes.scalable import Scalable, controller_of
from adapters.kubernetes.target_view import Deployer, FieldWriter, ScaleWrite, TargetView
from autoscaler.domain.resource import TargetRef
from autoscaler.ports import PortError, RefusedError, UnavailableError

_READ_TIMEOUT_S = 2.0
_ASK_AGAIN_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomObject:
    """What every object tells, whatever its kind."""

    ref: TargetRef
    namespace: str
    uid: str
    resource_version: str
    controller: TargetRef | None
    writers: tuple[FieldWriter, ...]
    deployers: tuple[Deployer, ...]


class CustomKinds:
    """Finds objects of kinds without a row of their own. For one thread."""

    def __init__(self, api: KubernetesApi, following: Following[CustomObject], *, now_s: Callable[[], float]) -> None:
        self._api = api
        self._following = following
        self._now_s = now_s
        self._collections: dict[tuple[str, str], Collection] = {}
        self._unknown: dict[tuple[str, str], tuple[float, PortError]] = {}
        self._scales: dict[tuple[str, TargetRef], tuple[str, Scalable]] = {}
        self._silent: UnavailableError | None = None

    def begin(self) -> None:
        """A new round: a server that did not answer in the last one may be asked again."""
        self._silent = None

    def find(self, namespace: str, ref: TargetRef) -> Scalable:
        """From memory, but for an object that is new or has changed. Raises PortError."""
        if ref.worker_group is not None:
            raise RefusedError(f"{ref}: objects of kind {ref.kind} have no worker groups")
        collection = self._collection(ref)
        watched = self._following.of(collection, partial(_custom_object, ref.api_version, ref.kind))
        known = item_of(watched, ObjectKey(namespace, ref.name), kind=ref.kind)
        cached = self._scales.get((namespace, ref))
        if cached is not None and cached[0] == known.resource_version:
            return cached[1]
        path = collection.within(namespace).item(ref.name)
        scalable = _scalable(known, self._read(f"{path}/scale"), path=path)
        self._scales[namespace, ref] = (known.resource_version, scalable)
        return scalable

    def _collection(self, ref: TargetRef) -> Collection:
        """Where a kind is served, if it can be scaled. Raises PortError."""
        key = (ref.api_version, ref.kind)
        if (known := self._collections.get(key)) is not None:
            return known
        if key in self._unknown:
            asked_s, error = self._unknown[key]
            if self._now_s() - asked_s < _ASK_AGAIN_S:
                raise error
        try:
            self._collections[key] = self._discover(ref)
        except PortError as error:
            self._unknown[key] = (self._now_s(), error)
            raise
        return self._collections[key]

    def _discover(self, ref: TargetRef) -> Collection:
        root = f"/apis/{ref.api_version}" if ref.group else f"/api/{ref.version}"
        try:
            resources = objects(self._read(root), "resources")
        except NotFoundError as error:
            raise RefusedError(f"the cluster has no API {ref.api_version} ({ref}): {error}") from error
        names = {text(each, "name") for each in resources}
        plural = next(
            (name for each in resources if text(each, "kind") == ref.kind and "/" not in (name := text(each, "name"))),
            None,
        )
        if plural is None:
            raise RefusedError(f"the cluster's API {ref.api_version} has no kind {ref.kind}")
        if f"{plural}/scale" not in names:
            raise RefusedError(f"kind {ref.kind} of {ref.api_version} has no scale subresource")
        return Collection(group=ref.group, version=ref.version, plural=plural)

    def _read(self, path: str) -> JsonObject:
        # One silence is enough to wait for: the other objects of this round would be asked of the same server.
        if self._silent is not None:
            raise self._silent
        try:
            return self._api.get(path, timeout_s=_READ_TIMEOUT_S)
        except UnavailableError as error:
            self._silent = error
            raise


def _custom_object(api_version: str, kind: str, source: JsonObject) -> CustomObject:
    ref = TargetRef(api_version=api_version, kind=kind, name=text(source, "metadata", "name"))
    return CustomObject(
        ref=ref,
        namespace=text(source, "metadata", "namespace"),
        uid=text(source, "metadata", "uid"),
        resource_version=text(source, "metadata", "resourceVersion"),
        controller=controller_of(source),
        # Nearly all definitions have the count there; of the others only writers of /scale are known.
        writers=writers_of(source, "spec", "replicas", by_scale=True),
        deployers=deployers_of(source),
    )


def _scalable(known: CustomObject, scale: JsonObject, *, path: str) -> Scalable:
    selector = optional_text(scale, "status", "selector")
    view = TargetView(
        namespace=known.namespace,
        ref=known.ref,
        scaled=known.ref,
        uid=known.uid,
        resource_version=text(scale, "metadata", "resourceVersion"),
        write=ScaleWrite(object_path=path, scale_path=f"{path}/scale"),
        replicas=optional_whole(scale, "spec", "replicas") or 0,  # a Scale leaves a zero out
        status_replicas=optional_whole(scale, "status", "replicas") or 0,
        selector=written_selector(selector) if selector else None,
        writers=known.writers,
        deployers=known.deployers,
    )
    return Scalable(ref=known.ref, uid=known.uid, views={"": view}, controller=known.controller)
