"""Which pods are the gateway in front of a service, and where their pages are: from the watched pods alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from adapters.kubernetes.collections import Kept
from adapters.kubernetes.contents import ObjectKey
from adapters.kubernetes.label_matching import equal_labels
from adapters.kubernetes.pod_life import Life
from adapters.kubernetes.pods import PodView
from adapters.kubernetes.replicas import metrics_url, no_metrics_port
from autoscaler.domain.gateway import GatewayPage, GatewayPages
from autoscaler.domain.reading import Unknown, UnknownReason
from autoscaler.domain.resource import AutoscalerResource, GatewayRef, MetricsEndpoint
from autoscaler.domain.service import ServiceId
from autoscaler.ports import UnavailableError


class _Selection(NamedTuple):
    """Pods by namespace and labels."""

    namespace: str
    labels: tuple[tuple[str, str], ...]


class GatewayPods:
    """The pages of each service that has a gateway; for one thread."""

    def __init__(
        self,
        *,
        resources: Callable[[], Sequence[AutoscalerResource]],
        pods: Kept[PodView],
        namespace: str | None,
        now_s: Callable[[], float],
    ) -> None:
        """``namespace``: the controller's own, None where it is not known."""
        self._resources = resources
        self._pods = pods
        self._namespace = namespace
        self._now_s = now_s
        self._seen: Mapping[ObjectKey, PodView] | None = None
        self._selected: dict[_Selection, list[PodView]] = {}
        self._last: Sequence[AutoscalerResource] = ()

    def pages(self) -> GatewayPages:
        """As of now. A service whose gateway has no pod that takes requests has none; raises nothing."""
        try:
            self._last = self._resources()
            pods = self._pods.items()
        except UnavailableError as error:
            unknown = Unknown(UnknownReason.UNREACHABLE, str(error))
            return {each.service.id: unknown for each in self._last if each.gateway is not None}
        if pods is not self._seen:
            self._seen, self._selected = pods, {}
        found: dict[ServiceId, tuple[GatewayPage, ...] | Unknown] = {}
        for resource in self._last:
            if resource.gateway is not None:
                found[resource.service.id] = self._of(resource.gateway, pods)
        return found

    def _of(self, gateway: GatewayRef, pods: Mapping[ObjectKey, PodView]) -> tuple[GatewayPage, ...] | Unknown:
        namespace = gateway.namespace or self._namespace
        if namespace is None:
            detail = "say spec.gateway.namespace: the controller's own, which it would be, is not known"
            return Unknown(UnknownReason.UNREACHABLE, detail)
        endpoint = MetricsEndpoint(port=gateway.port, path=gateway.path)
        pages = []
        for pod in self._selection(_Selection(namespace, gateway.labels), pods):
            if not self._counts(pod):
                continue
            url = metrics_url(pod, endpoint)
            if url is None:
                why = no_metrics_port(pod, endpoint) if pod.ip else "it has no address"
                return Unknown(UnknownReason.UNREACHABLE, f"gateway {pod.namespace}/{pod.name}: {why}")
            name = f"{pod.namespace}/{pod.name}"
            pages.append(GatewayPage(name=name, url=url, kind=gateway.kind, match=gateway.match))
        return tuple(sorted(pages))

    def _counts(self, pod: PodView) -> bool:
        """Whether it may have taken requests since the last look.

        One that still starts takes none. One that should have ended by now is on a node that is gone.
        """
        if pod.life is Life.ENDING:
            return pod.lived.started_s is not None and (pod.deleting_s is None or self._now_s() < pod.deleting_s)
        return pod.life in (Life.READY, Life.UNREADY)

    def _selection(self, wanted: _Selection, pods: Mapping[ObjectKey, PodView]) -> list[PodView]:
        """Looked for once for all services, until a pod changes."""
        known = self._selected.get(wanted)
        if known is None:
            selector = equal_labels(dict(wanted.labels))
            known = [
                pod for key, pod in pods.items() if key.namespace == wanted.namespace and selector.matches(pod.labels)
            ]
            self._selected[wanted] = known
        return known
