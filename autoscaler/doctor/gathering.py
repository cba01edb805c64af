"""Facts of a live cluster: what the checks look at, asked for once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from adapters.kubernetes.api_errors import NotFoundError
from adapters.kubernetes.connection import Collection, KubernetesApi, PatchKind
from adapters.kubernetes.contents import key_of
from adapters.kubernetes.deletion_cost import COST_ANNOTATION
from adapters.kubernetes.foreign_scalers import HPAS, SCALED_OBJECTS, VPAS
from adapters.kubernetes.raw_json import JsonObject, inner, objects, optional_text
from adapters.kubernetes.resources import RESOURCES, ResourceView
from adapters.kubernetes.status import publication_of
from adapters.kubernetes.target_view import TargetView
from adapters.kubernetes.targets import Targeted, TargetProblem, Targets
from autoscaler.config.kubernetes_settings import KubernetesSettings
from autoscaler.config.resource_reading import parse_resource
from autoscaler.doctor.asking import Account, ask_rights
from autoscaler.doctor.external_metrics import API_SERVICE, is_ours, served_by
from autoscaler.doctor.facts import Certificate, ClockReading, ClusterFacts, GatewayLook, Listed, ThroughPrometheus
from autoscaler.doctor.fetching import WantedPage, fetch_looks, fetch_routes, wanted_pages
from autoscaler.doctor.rights import needed_rights
from autoscaler.doctor.scaled_objects import addressed
from autoscaler.doctor.workloads import any_pod
from autoscaler.domain.publication import DESIRED_REPLICAS
from autoscaler.domain.resource import AutoscalerResource, Mode
from autoscaler.domain.service import ServiceId
from autoscaler.ports import Clock, PortError, RefusedError

T = TypeVar("T")

ReadThrough = Callable[[Sequence[WantedPage]], ThroughPrometheus]

_PAGE = 500
_TARGETS_S = 10.0
_MOST_READS = 20
_DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/inferenceautoscalers.gpu-autoscaler.io"
_LEASE_NAME = "gpu-autoscaler"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What is looked at.

    ``namespaces``: of the InferenceAutoscalers; empty: all. ``account``: whose rights are asked for; None: of whoever
    asks. ``lease_namespace`` None: the Lease is looked for in all. ``through_api_server``: pages come by its pod proxy.
    """

    namespaces: tuple[str, ...] = ()
    account: Account | None = None
    lease_namespace: str | None = None
    through_api_server: bool = False


def gather(
    api: KubernetesApi,
    settings: KubernetesSettings | None,
    scope: Scope,
    clock: Clock,
    *,
    read_through: ReadThrough | None = None,
) -> ClusterFacts:
    """All facts. Whatever can't be read is told in its place. Raises PortError where the server does not answer.

    ``read_through``: asks Prometheus for pages; None where it isn't used.
    """
    api.get("/version")  # every other question would wait in vain for its own timeout
    resources = _asked(lambda: _resources(api, scope.namespaces))
    views_of = () if isinstance(resources, PortError) else resources
    usable = [view.wanted for view in views_of if isinstance(view.wanted, AutoscalerResource)]
    targets = _targets(api, usable, scope.namespaces, clock)
    views = [found for found in targets.values() if isinstance(found, TargetView)]
    pods = _asked(lambda: _each_namespace(api, Collection(group="", version="v1", plural="pods"), views))
    api_service = _asked(lambda: _found(api, f"/apis/apiregistration.k8s.io/v1/apiservices/{API_SERVICE}"))
    scaled_objects = _listed(api, SCALED_OBJECTS, scope.namespaces)
    services = _services(api, api_service, scaled_objects)
    ours = isinstance(api_service, Mapping) and _serves(api_service, services)
    leases = _asked(lambda: _leases(api, settings, scope.lease_namespace))
    rights = needed_rights(
        usable,
        targets,
        settings,
        lease_namespace=scope.lease_namespace or _namespace_of(leases),
        external_metrics=ours or (settings is not None and settings.external_metrics is not None),
    )
    known_pods = () if isinstance(pods, PortError) else pods
    return ClusterFacts(
        now_s=clock.now_s(),
        address=api.address,
        settings=settings,
        version=_asked(lambda: api.get("/version")),
        clock=_asked(lambda: _clock(api, clock)),
        definition=_asked(lambda: api.get(_DEFINITION)),
        resources=resources,
        targets=targets,
        hpas=_listed(api, HPAS, scope.namespaces),
        scaled_objects=scaled_objects,
        vpas=_listed(api, VPAS, scope.namespaces),
        leases=leases,
        nodes=_listed(api, Collection(group="", version="v1", plural="nodes"), ()),
        pods=pods,
        quotas=_of_targets(api, Collection(group="", version="v1", plural="resourcequotas"), views),
        limit_ranges=_of_targets(api, Collection(group="", version="v1", plural="limitranges"), views),
        network_policies=_of_targets(
            api, Collection(group="networking.k8s.io", version="v1", plural="networkpolicies"), views
        ),
        budgets=_of_targets(api, Collection(group="policy", version="v1", plural="poddisruptionbudgets"), views),
        api_service=api_service,
        reads=_reads(api, usable) if ours else {},
        services=services,
        rights=_asked(lambda: ask_rights(api, rights, scope.account or Account())),
        pages=fetch_looks(api, usable, targets, known_pods, through_api_server=scope.through_api_server),
        prometheus=None if read_through is None else read_through(list(wanted_pages(usable, targets, known_pods))),
        gateways=_gateways(
            api, usable, scope.lease_namespace or _namespace_of(leases), through_api_server=scope.through_api_server
        ),
        marked=_marked(api, usable, targets, known_pods),
        certificates=_certificates(settings),
    )


def _asked(ask: Callable[[], T]) -> T | PortError:
    try:
        return ask()
    except PortError as error:
        return error


def _found(api: KubernetesApi, path: str) -> JsonObject | None:
    """An object, None where there is none. Raises PortError."""
    try:
        return api.get(path)
    except NotFoundError:
        return None


def _pages(api: KubernetesApi, collection: Collection, query: Mapping[str, str]) -> Iterator[JsonObject]:
    """All objects of a collection. Raises PortError."""
    asked = {"limit": str(_PAGE), **query}
    while True:
        page = api.get(collection.path, asked)
        yield from objects(page, "items")
        following = optional_text(page, "metadata", "continue")
        if not following:
            return
        asked = {**asked, "continue": following}


def _within(api: KubernetesApi, collection: Collection, namespaces: Iterable[str]) -> list[JsonObject]:
    """The objects of some namespaces, of all without any. Raises PortError."""
    places = [collection.within(namespace) for namespace in namespaces] or [collection]
    return [each for place in places for each in _pages(api, place, {})]


def _listed(api: KubernetesApi, collection: Collection, namespaces: Sequence[str]) -> Listed:
    return _asked(lambda: _within(api, collection, namespaces))


def _each_namespace(api: KubernetesApi, collection: Collection, views: Sequence[TargetView]) -> list[JsonObject]:
    """The objects of the namespaces of targets. Raises PortError."""
    namespaces = sorted({view.namespace for view in views})
    return _within(api, collection, namespaces) if namespaces else []


def _of_targets(api: KubernetesApi, collection: Collection, views: Sequence[TargetView]) -> Listed:
    return _asked(lambda: _each_namespace(api, collection, views))


def _resources(api: KubernetesApi, namespaces: Sequence[str]) -> list[ResourceView]:
    return [
        ResourceView(wanted=parse_resource(each), status=inner(each, "status"), publication=publication_of(each))
        for each in _within(api, RESOURCES, namespaces)
    ]


def _targets(
    api: KubernetesApi, resources: Sequence[AutoscalerResource], namespaces: Sequence[str], clock: Clock
) -> Targeted:
    """The targets, as the controller itself sees them, once all are known or have had their time."""
    wanted = [(resource.namespace, source.target) for resource in resources for source in resource.sources]
    changed = threading.Event()
    only = namespaces[0] if len(namespaces) == 1 else None  # the right to read one may be all that there is
    targets = Targets(api, now_s=clock.now_s, namespace=only, changed=changed.set)
    ends_s = clock.now_s() + _TARGETS_S
    try:
        while True:
            found = targets.refresh(wanted)
            waiting = any(isinstance(each, TargetProblem) and not each.lasting for each in found.values())
            if not waiting or clock.now_s() >= ends_s:
                return found
            changed.wait(0.2)
            changed.clear()
    finally:
        targets.close()


def _clock(api: KubernetesApi, clock: Clock) -> ClockReading:
    before_s = clock.now_s()
    date_s = api.server_date_s()
    return ClockReading(before_s=before_s, date_s=date_s, after_s=clock.now_s())


def _leases(api: KubernetesApi, settings: KubernetesSettings | None, namespace: str | None) -> list[JsonObject]:
    election = settings.election if settings is not None else None
    name = election.lease_name if election is not None else _LEASE_NAME
    collection = Collection(group="coordination.k8s.io", version="v1", plural="leases", namespace=namespace)
    return list(_pages(api, collection, {"fieldSelector": f"metadata.name={name}"}))


def _namespace_of(leases: Listed) -> str | None:
    """Where the controller is, by its Lease, where there is one."""
    found = () if isinstance(leases, PortError) else leases
    return key_of(found[0]).namespace if len(found) == 1 else None


def _services(
    api: KubernetesApi, api_service: JsonObject | PortError | None, scaled_objects: Listed
) -> dict[str, JsonObject | PortError | None]:
    """The Services that an APIService and ScaledObjects name."""
    wanted = {served_by(api_service)} if isinstance(api_service, Mapping) else set()
    if not isinstance(scaled_objects, PortError):
        wanted |= {address.service or "" for address in addressed(scaled_objects)}
    found: dict[str, JsonObject | PortError | None] = {}
    for name in sorted(wanted - {""}):
        namespace, _, service = name.partition("/")
        path = Collection(group="", version="v1", plural="services", namespace=namespace).item(service)
        found[name] = _asked(lambda path=path: _found(api, path))  # type: ignore[misc]
    return found


def _gateways(
    api: KubernetesApi, resources: Sequence[AutoscalerResource], own: str | None, *, through_api_server: bool
) -> dict[ServiceId, GatewayLook]:
    """Of each resource with a gateway. ``own``: the controller's namespace."""
    looks: dict[ServiceId, GatewayLook] = {}
    for resource in resources:
        gateway = resource.gateway
        namespace = own if gateway is None else gateway.namespace or own
        if gateway is None or namespace is None:
            continue
        collection = Collection(group="", version="v1", plural="pods", namespace=namespace)
        query = {"labelSelector": ",".join(f"{key}={value}" for key, value in gateway.labels)}
        pods: Listed = _asked(lambda at=collection, query=query: list(_pages(api, at, query)))  # type: ignore[misc]
        routed = () if isinstance(pods, PortError) else pods
        looks[resource.service.id] = GatewayLook(
            namespace=namespace,
            labels=gateway.labels,
            pods=pods,
            routes=fetch_routes(api, resource, routed, through_api_server=through_api_server),
        )
    return looks


def _serves(api_service: JsonObject, services: Mapping[str, JsonObject | PortError | None]) -> bool:
    service = services.get(served_by(api_service))
    return is_ours(api_service, None if isinstance(service, PortError) else service)


def _reads(api: KubernetesApi, resources: Sequence[AutoscalerResource]) -> dict[str, JsonObject | PortError]:
    """What an HPA gets, by "namespace/name" of the resource."""
    found: dict[str, JsonObject | PortError] = {}
    for resource in resources[:_MOST_READS]:
        path = f"/apis/external.metrics.k8s.io/v1beta1/namespaces/{quote(resource.namespace)}/{DESIRED_REPLICAS}"
        query = {"labelSelector": f"service={resource.name}"}
        found[f"{resource.namespace}/{resource.name}"] = _read(api, path, query)
    return found


def _read(api: KubernetesApi, path: str, query: Mapping[str, str]) -> JsonObject | PortError:
    return _asked(lambda: api.get(path, query))


def _marked(
    api: KubernetesApi, resources: Sequence[AutoscalerResource], targets: Targeted, pods: Sequence[JsonObject]
) -> dict[str, PortError | None]:
    """One pod of each target that we scale, marked without lasting (Kubernetes API Concepts, "Dry-run")."""
    tried: dict[str, PortError | None] = {}
    body = {"metadata": {"annotations": {COST_ANNOTATION: "0"}}}
    for resource in resources:
        for source in resource.sources:
            view = targets.get((resource.namespace, source.target))
            if resource.mode is not Mode.SCALE or not isinstance(view, TargetView) or not view.honours_deletion_cost:
                continue
            if (pod := any_pod(pods, view)) is not None:
                tried[str(key_of(pod))] = _mark(api, pod, body)
    return tried


def _mark(api: KubernetesApi, pod: JsonObject, body: JsonObject) -> PortError | None:
    key = key_of(pod)
    path = Collection(group="", version="v1", plural="pods", namespace=key.namespace).item(key.name)
    answer = _asked(lambda: api.patch(path, body, kind=PatchKind.MERGE, query={"dryRun": "All"}))
    return answer if isinstance(answer, PortError) else None


def _certificates(settings: KubernetesSettings | None) -> list[Certificate]:
    """What our servers show, where the configuration says so."""
    external = settings.external_metrics if settings is not None else None
    scaler = settings.external_scaler if settings is not None else None
    found = []
    if external is not None:
        key = "kubernetes.externalMetrics.certificateFile"
        found.append(_certificate(external.certificate_file, key=key, aggregated=True))
    if scaler is not None and scaler.certificate_file is not None:
        key = "kubernetes.externalScaler.certificateFile"
        found.append(_certificate(scaler.certificate_file, key=key, aggregated=False))
    return found


def _certificate(file: Path, *, key: str, aggregated: bool) -> Certificate:
    pem: bytes | PortError
    try:
        pem = file.read_bytes()
    except OSError as error:
        pem = RefusedError(error.strerror or str(error))
    return Certificate(source=str(file), key=key, pem=pem, aggregated=aggregated)
