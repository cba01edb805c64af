"""Collections that are followed from the moment somebody first asks for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from adapters.kubernetes.connection import Collection, KubernetesApi
from adapters.kubernetes.contents import ObjectKey
from adapters.kubernetes.raw_json import JsonObject
from adapters.kubernetes.watching import Watched
from autoscaler.ports import InvalidAnswerError, RefusedError, UnavailableError

T = TypeVar("T")
# The server ends each watch after half a minute at the latest, so one that is well is heard more often than that.
STALE_AFTER_S = 120.0


class Following(Generic[T]):
    """Watches by collection. ``namespace``: the only one that is looked at, None for all."""

    def __init__(
        self,
        api: KubernetesApi,
        *,
        now_s: Callable[[], float],
        namespace: str | None = None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """``changed`` is called after each change, in the thread of the watch."""
        self._api = api
        self._now_s = now_s
        self._namespace = namespace
        self._changed = changed
        self._watched: dict[Collection, Watched[T]] = {}

    def of(self, collection: Collection, translate: Callable[[JsonObject], T]) -> Watched[T]:
        """The watch of it, started if it is new."""
        if (watched := self._watched.get(collection)) is None:
            within = collection if self._namespace is None else collection.within(self._namespace)
            watched = Watched(self._api, within, translate, now_s=self._now_s, optional=True)
            watched.subscribe(self._changed)
            watched.start()
            self._watched[collection] = watched
        return watched

    def heard_s(self) -> Sequence[float | None]:
        """When each of them last heard of the server."""
        return [watched.heard_s for watched in self._watched.values()]

    def close(self) -> None:
        """End all watches."""
        for watched in self._watched.values():
            watched.close()
        self._watched.clear()


def item_of(watched: Watched[T], key: ObjectKey, *, kind: str) -> T:
    """One object. Raises RefusedError (none of that name, no such kind), UnavailableError (not known yet, or not heard
    of for too long to be believed), InvalidAnswerError (it can't be read).
    """
    items = current(watched, kind=kind)
    if (found := items.get(key)) is not None:
        return found
    if reason := watched.unreadable().get(key):
        raise InvalidAnswerError(f"{kind} {key} can't be read: {reason}")
    if watched.absent:
        raise RefusedError(f"the cluster has no kind {kind} (is its operator installed?)")
    raise RefusedError(f"there is no {kind} {key}")


def current(watched: Watched[T], *, kind: str) -> Mapping[ObjectKey, T]:
    """All objects. Raises UnavailableError where they are not known yet, or were not heard of for too long."""
    items = watched.items()
    silent_s = watched.silent_s
    if silent_s > STALE_AFTER_S:
        failure = f": {watched.failure}" if watched.failure else ""
        raise UnavailableError(f"the {kind}s of the cluster were not heard of for {silent_s:.0f} s{failure}")
    return items
