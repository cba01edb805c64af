"""What the checks look at: answers of one cluster, each there or with the reason why it is not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from adapters.engines.reading_report import PageReport
from adapters.kubernetes.api_errors import NotFoundError
from adapters.kubernetes.contents import key_of
from adapters.kubernetes.raw_json import JsonObject
from adapters.kubernetes.resources import ResourceView
from adapters.kubernetes.target_view import TargetView
from adapters.kubernetes.targets import Targeted
from autoscaler.config.kubernetes_settings import KubernetesSettings
from autoscaler.doctor.rights import Asked
from autoscaler.domain.reading import EngineReading, Unknown
from autoscaler.domain.resource import AutoscalerResource
from autoscaler.domain.service import ServiceId
from autoscaler.ports import PortError

T = TypeVar("T")
Listed = Sequence[JsonObject] | PortError

NOT_ASKED = PortError("was not asked for")


def known(answer: T | PortError) -> T:
    """The answer. Raises the PortError that came in its place."""
    if isinstance(answer, PortError):
        raise answer
    return answer


def known_or_none(answer: Listed) -> Sequence[JsonObject]:
    """The objects of a kind that need not be installed. Raises the PortError that came in their place."""
    return () if isinstance(answer, NotFoundError) else known(answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockReading:
    """The server's clock (``date_s``, in whole seconds) as told between two looks at this machine's."""

    before_s: float
    date_s: float
    after_s: float

    @property
    def skew_s(self) -> float:
        """By how much at least the server's clock is ahead of this one; negative: behind; 0: within the doubt."""
        if self.date_s > self.after_s:
            return self.date_s - self.after_s
        return min(0.0, self.date_s + 1.0 - self.before_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageLook:
    """The metrics page of one pod. ``at``: where it was asked for. ``longest_s``: 99 % of its requests ended within
    it; None where the page does not tell.
    """

    service: str
    variant: str
    pod: str
    at: str
    report: PageReport
    longest_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayLook:
    """The pods that an InferenceAutoscaler names as its gateway. ``routes``: by pod, the services of which its page
    tells, or why it can't be read; of gateways of other kinds there is none.
    """

    namespace: str
    labels: tuple[tuple[str, str], ...]
    pods: Listed
    routes: Mapping[str, frozenset[str] | Unknown]


@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughPrometheus:
    """What a Prometheus has of ready pods, by "namespace/name"; or why it tells nothing of one."""

    url: str
    readings: Mapping[str, EngineReading | Unknown]


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A certificate in PEM, or the reason why it can't be read. ``source``: where it is; ``key``: who names it there.

    ``aggregated``: it is shown to the API server, which compares it with an APIService.
    """

    source: str
    key: str
    pem: bytes | PortError
    aggregated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewed:
    """One variant of a resource, with its target."""

    resource: AutoscalerResource
    variant: str
    view: TargetView


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """All answers.

    ``settings``: of the configuration file, None without one. ``pods``: of the namespaces with InferenceAutoscalers.
    ``leases``: those of the controller's name. ``api_service``: None where nobody serves external metrics.
    ``reads``: what an HPA gets of our number, by namespace; empty where somebody else serves it. ``services``: by
    "namespace/name", those that APIService and ScaledObjects name; None where there is none. ``marked``: what became
    of a pod-deletion-cost that was tried on a pod without lasting, by pod. ``certificates``: what we serve with.
    ``gateways``: of the services that name one, as far as its namespace is known.
    ``prometheus``: None where replicas are read directly.
    """

    now_s: float
    address: str
    settings: KubernetesSettings | None = None
    version: JsonObject | PortError = NOT_ASKED
    clock: ClockReading | PortError = NOT_ASKED
    definition: JsonObject | PortError = NOT_ASKED
    resources: Sequence[ResourceView] | PortError = NOT_ASKED
    targets: Targeted = field(default_factory=dict)
    hpas: Listed = NOT_ASKED
    scaled_objects: Listed = NOT_ASKED
    vpas: Listed = NOT_ASKED
    leases: Listed = NOT_ASKED
    nodes: Listed = NOT_ASKED
    pods: Listed = NOT_ASKED
    quotas: Listed = NOT_ASKED
    limit_ranges: Listed = NOT_ASKED
    network_policies: Listed = NOT_ASKED
    budgets: Listed = NOT_ASKED
    api_service: JsonObject | PortError | None = NOT_ASKED
    reads: Mapping[str, JsonObject | PortError] = field(default_factory=dict)
    services: Mapping[str, JsonObject | PortError | None] = field(default_factory=dict)
    rights: Sequence[Asked] | PortError = NOT_ASKED
    pages: Sequence[PageLook] = ()
    prometheus: ThroughPrometheus | None = None
    gateways: Mapping[ServiceId, GatewayLook] = field(default_factory=dict)
    marked: Mapping[str, PortError | None] = field(default_factory=dict)
    certificates: Sequence[Certificate] = ()

    def usable(self) -> list[AutoscalerResource]:
        """The InferenceAutoscalers whose spec can be used. Raises PortError where they can't be read."""
        return [view.wanted for view in known(self.resources) if isinstance(view.wanted, AutoscalerResource)]

    def viewed(self) -> Iterator[tuple[AutoscalerResource, str, TargetView]]:
        """Each variant of theirs whose target is known, with its target."""
        for resource in self.usable():
            for source in resource.sources:
                found = self.targets.get((resource.namespace, source.target))
                if isinstance(found, TargetView):
                    yield resource, source.variant, found

    def viewed_by_name(self) -> list[tuple[str, Viewed]]:
        """The same, each under its resource's name. Raises PortError where the resources can't be read."""
        return [
            (subject_of(resource.namespace, resource.name), Viewed(resource=resource, variant=variant, view=view))
            for resource, variant, view in self.viewed()
        ]

    def pods_of(self, view: TargetView) -> list[JsonObject]:
        """The pods of a target. Raises PortError where they can't be read."""
        return pods_of(known(self.pods), view)


def pods_of(pods: Sequence[JsonObject], view: TargetView) -> list[JsonObject]:
    """Those of a target: the ones that answer for their replica, where not each does."""
    selector = view.leader or view.selector
    if selector is None:
        return []
    return [pod for pod in pods if key_of(pod).namespace == view.namespace and selector.matches(labels_of(pod))]


def labels_of(source: JsonObject) -> Mapping[str, str]:
    """The labels of an object."""
    metadata = source.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, Mapping) else None
    return labels if isinstance(labels, Mapping) else {}


def subject_of(namespace: str, name: str) -> str:
    """What a person calls an InferenceAutoscaler."""
    return f"InferenceAutoscaler {namespace}/{name}"


def named(kind: str, items: Sequence[JsonObject]) -> list[tuple[str, JsonObject]]:
    """Objects with what a person calls them: "HorizontalPodAutoscaler shop/chat"."""
    return [(f"{kind} {key_of(item)}", item) for item in items]
