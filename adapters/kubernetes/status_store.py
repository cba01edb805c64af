"""The DecisionStore of a cluster: each decision becomes the status of its resource, written in a thread of its own.

Writing must not hold up deciding, so the latest status of each resource waits for its turn and replaces an earlier one
that still waits.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from adapters.kubernetes.api_errors import NotFoundError
from adapters.kubernetes.connection import KubernetesApi, PatchKind
from adapters.kubernetes.contents import ObjectKey, is_older
from adapters.kubernetes.raw_json import JsonObject, found
from adapters.kubernetes.resources import RESOURCES, ResourceView, WatchedResources
from adapters.kubernetes.status import refused_status, status_of, worth_writing
from adapters.kubernetes.status_conditions import Circumstances
from adapters.kubernetes.waiting import Backoff
from autoscaler.domain.plan import ServiceDecision
from autoscaler.domain.publishing import published
from autoscaler.domain.resource import AutoscalerResource, RefusedResource
from autoscaler.ports import ConflictError, PortError, RefusedError

_log = logging.getLogger(__name__)
_CALL_S = 5.0


@dataclass(frozen=True, slots=True)
class _Written:
    """What was last written, as that version of the object: until the watch tells a later one it counts."""

    uid: str
    status: JsonObject
    version: str = ""


class StatusStore:
    """Writes while ``leads`` says so; another leader's statuses are not to be written over."""

    def __init__(
        self,
        api: KubernetesApi,
        *,
        resources: WatchedResources,
        circumstances: Callable[[AutoscalerResource, ServiceDecision], Circumstances],
        stale_after_s: Callable[[], float],
        leads: Callable[[], bool],
        now_s: Callable[[], float],
    ) -> None:
        """``circumstances``: what the cluster shows of a resource's targets, asked in the thread that publishes."""
        self._api = api
        self._resources = resources
        self._circumstances = circumstances
        self._stale_after_s = stale_after_s
        self._leads = leads
        self._now_s = now_s
        self._written: dict[ObjectKey, _Written] = {}
        self._waiting: dict[ObjectKey, _Written] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._backoff = Backoff(first_s=0.5, most_s=10.0)
        self._thread = threading.Thread(target=self._run, name="status", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def close(self) -> None:
        """Write what waits, as far as a few seconds allow, and end."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(timeout=_CALL_S)

    def publish(self, decision: ServiceDecision) -> None:
        """Make it the status of its resource, if that says anything new. Raises RefusedError where there is none."""
        namespace, _, name = decision.service.partition("/")
        key = ObjectKey(namespace, name)
        view = self._resources.view(key)
        if view is None or not isinstance(view.wanted, AutoscalerResource):
            raise RefusedError(f"there is no usable InferenceAutoscaler {decision.service} any more")
        resource = view.wanted
        publication = published(
            decision,
            namespace=namespace,
            name=name,
            labels=resource.labels,
            stale_after_s=self._stale_after_s(),
        )
        previous = self._latest(key, view, resource.uid)
        status = status_of(
            resource,
            decision,
            publication,
            circumstances=self._circumstances(resource, decision),
            previous=previous,
            now_s=self._now_s(),
        )
        self._offer(key, resource.uid, previous, status)

    def publish_refusals(self, refused: Mapping[ObjectKey, RefusedResource]) -> None:
        """Say of resources that nothing is decided on them, and why."""
        views = self._resources.views()
        for key in tuple(self._written):  # those that are gone
            if key not in views:
                self._written.pop(key, None)
        for key, each in refused.items():
            view = views.get(key)
            if view is not None:
                previous = self._latest(key, view, each.uid)
                status = refused_status(
                    each, previous=previous, stale_after_s=self._stale_after_s(), now_s=self._now_s()
                )
                self._offer(key, each.uid, previous, status)

    def _latest(self, key: ObjectKey, view: ResourceView, uid: str) -> JsonObject:
        """The status as last written here, or as last seen where the resource is another one or was changed since.

        What somebody else writes over ours is so seen, and set right at the next decision.
        """
        written = self._written.get(key)
        if written is None or written.uid != uid or is_older(written.version, view.version):
            return view.status
        return written.status

    def _offer(self, key: ObjectKey, uid: str, previous: JsonObject, status: JsonObject) -> None:
        if not worth_writing(previous, status, self._now_s()):
            return
        with self._changed:
            self._waiting[key] = _Written(uid, status)
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._closed:
                    self._changed.wait()
                if not self._waiting:
                    return
                key = next(iter(self._waiting))
                wanted = self._waiting.pop(key)
            if not self._leads():
                self._written.pop(key, None)
            elif not self._write(key, wanted):
                with self._changed:
                    if self._closed:
                        return
                    self._waiting.setdefault(key, wanted)
                    self._changed.wait(timeout=self._backoff.next_s())

    def _write(self, key: ObjectKey, wanted: _Written) -> bool:
        """Whether it is done with: written, or never to be."""
        view = self._resources.view(key)
        known: JsonObject = self._latest(key, view, wanted.uid) if view is not None else {}
        gone = {name: None for name in known if name not in wanted.status}
        body: JsonObject = {"metadata": {"uid": wanted.uid}, "status": {**wanted.status, **gone}}
        path = RESOURCES.within(key.namespace).subresource(key.name, "status")
        try:
            answer = self._api.patch(path, body, kind=PatchKind.MERGE, timeout_s=_CALL_S)
        except NotFoundError:
            _log.info("the status of %s is not written: the resource, or its namespace, is gone", key)
            self._written.pop(key, None)
            return True
        except (RefusedError, ConflictError) as error:  # another one of that name, or no right to
            _log.error("the status of %s is not written: %s", key, error)
            self._written.pop(key, None)
            return True
        except PortError as error:
            _log.warning("the status of %s can't be written now: %s", key, error)
            return False
        self._backoff.reset()
        version = found(answer, "metadata", "resourceVersion")
        self._written[key] = replace(wanted, version=version if isinstance(version, str) else "")
        return True
