"""The InferenceAutoscalers of a cluster in memory: what is asked of us, and what their statuses tell others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from adapters.kubernetes.connection import Collection, KubernetesApi
from adapters.kubernetes.contents import ObjectKey, key_of
from adapters.kubernetes.raw_json import JsonObject, optional_text, optional_whole, strings, text
from adapters.kubernetes.status import publication_of
from adapters.kubernetes.watching import Watched
from autoscaler.domain.publication import Publication
from autoscaler.domain.resource import AutoscalerResource, RefusedResource
from autoscaler.ports import UnavailableError

RESOURCES: Final = Collection(group="gpu-autoscaler.io", version="v1alpha1", plural="inferenceautoscalers")

# So many specs of resources that are gone may stay.
_SPECS_SPARE = 64
ParseResource = Callable[[JsonObject], AutoscalerResource | RefusedResource]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceView:
    """One InferenceAutoscaler: what its spec asks for, what its status says, and what that tells others.

    ``version``: of the object, with each of its changes another one.
    """

    wanted: AutoscalerResource | RefusedResource
    status: JsonObject
    publication: Publication
    version: str = ""


@dataclass(frozen=True, slots=True)
class _Told:
    """The publications at some versions of the watches."""

    versions: tuple[int, ...]
    by_namespace: Mapping[str, Sequence[Publication]]


def _by_namespace(views: Mapping[ObjectKey, ResourceView]) -> dict[str, list[Publication]]:
    found: dict[str, list[Publication]] = {}
    for key in sorted(views):
        found.setdefault(key.namespace, []).append(views[key].publication)
    return found


class WatchedResources:
    """All of them (or those of some namespaces), each kept current by a watch. Implements ``Publications``."""

    def __init__(
        self,
        api: KubernetesApi,
        *,
        parse: ParseResource,
        namespaces: Sequence[str],
        now_s: Callable[[], float],
    ) -> None:
        """``parse``: raises nothing. ``namespaces``: empty for all. A definition that isn't installed is no resource,
        looked for again from time to time.
        """
        self._parse = parse
        self._specs: dict[ObjectKey, tuple[object, AutoscalerResource | RefusedResource]] = {}
        collections = [RESOURCES.within(namespace) for namespace in namespaces] or [RESOURCES]
        self._watches = tuple(Watched(api, each, self._view, now_s=now_s, optional=True) for each in collections)
        self._forgetting = threading.Lock()
        self._told: _Told | None = None

    def start(self) -> None:
        """Begin to follow them."""
        for watch in self._watches:
            watch.start()

    def close(self) -> None:
        """End it."""
        for watch in self._watches:
            watch.close()

    def wait_synced(self, timeout_s: float) -> bool:
        """Wait until all are known; whether they are."""
        return all(watch.wait_synced(timeout_s) for watch in self._watches)

    @property
    def absent(self) -> bool:
        """The cluster does not know the kind."""
        return all(watch.absent for watch in self._watches)

    @property
    def failure(self) -> str | None:
        """Why they can't be read now, None while all is well."""
        return next((watch.failure for watch in self._watches if watch.failure), None)

    def views(self) -> Mapping[ObjectKey, ResourceView]:
        """All of them. Raises UnavailableError before all are known."""
        if len(self._watches) == 1:
            return self._watches[0].items()
        merged: dict[ObjectKey, ResourceView] = {}
        for watch in self._watches:
            merged.update(watch.items())
        return merged

    def view(self, key: ObjectKey) -> ResourceView | None:
        """One of them. Raises UnavailableError before all are known."""
        found = (watch.items().get(key) for watch in self._watches)
        return next((view for view in found if view is not None), None)

    def usable(self) -> list[AutoscalerResource]:
        """Those that can be decided on, as far as their spec goes. Raises UnavailableError."""
        return [view.wanted for view in self.views().values() if isinstance(view.wanted, AutoscalerResource)]

    def of(self, namespace: str, name: str) -> Publication | None:
        """What is told of one of them."""
        self._known()
        view = self.view(ObjectKey(namespace, name))
        return None if view is None else view.publication

    def within(self, namespace: str) -> Sequence[Publication]:
        """What is told of those of a namespace, sorted by name."""
        self._known()
        versions = tuple(watch.version for watch in self._watches)
        told = self._told
        if told is None or told.versions != versions:
            # Read before the items: what changes meanwhile is gathered again at the next call.
            self._told = told = _Told(versions, _by_namespace(self.views()))
        return told.by_namespace.get(namespace, ())

    def subscribe(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call ``wake`` after each change."""
        ends = [watch.subscribe(wake) for watch in self._watches]

        def end() -> None:
            for each in ends:
                each()

        return end

    def _known(self) -> None:
        if self.absent:
            raise UnavailableError(
                "the cluster does not know InferenceAutoscaler; install its definition: "
                "`gpu-autoscaler schema --resource | kubectl apply -f -`"
            )

    def _view(self, source: JsonObject) -> ResourceView:
        status = source.get("status")
        return ResourceView(
            wanted=self._wanted(source),
            # One that is no object was written under another definition, and is written over.
            status=status if isinstance(status, Mapping) else {},
            publication=publication_of(source),
            version=optional_text(source, "metadata", "resourceVersion") or "",
        )

    def _wanted(self, source: JsonObject) -> AutoscalerResource | RefusedResource:
        """Parsed anew only when spec or labels changed: our own writes of the status come back here all the time."""
        identity = (
            text(source, "metadata", "uid"),
            optional_whole(source, "metadata", "generation") or 0,
            tuple(sorted(strings(source, "metadata", "labels").items())),
        )
        known = self._specs.get(key_of(source))
        if known is not None and known[0] == identity:
            return known[1]
        wanted = self._parse(source)
        self._specs[key_of(source)] = identity, wanted
        self._forget_gone()
        return wanted

    def _forget_gone(self) -> None:
        """Specs of resources that are no more; looked for only once they may be half of all, as it takes a while."""
        with self._forgetting:
            try:
                views = self.views()
            except UnavailableError:
                return
            if len(self._specs) > 2 * len(views) + _SPECS_SPARE:
                for key in [key for key in list(self._specs) if key not in views]:
                    self._specs.pop(key, None)
