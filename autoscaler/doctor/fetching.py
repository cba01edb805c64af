"""The metrics pages of ready pods, from here or through the API server, read as the controller reads them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from adapters.engines.detection import TABLES
from adapters.engines.exposition import PageParser
from adapters.engines.fetched import DEFAULT_MAX_BYTES, DEFAULT_TIMEOUT_S, FetchedPage
from adapters.engines.fetching import fetch_page, open_session
from adapters.engines.gateway_pages import GatewayPageReader
from adapters.engines.page_reader import lay_out, parse_page
from adapters.engines.reading_report import report_page
from adapters.kubernetes.connection import Collection, KubernetesApi
from adapters.kubernetes.pod_life import Life
from adapters.kubernetes.pods import PodView, pod_view
from adapters.kubernetes.raw_json import JsonObject
from adapters.kubernetes.replicas import metrics_url
from adapters.kubernetes.target_view import TargetView
from adapters.kubernetes.targets import Targeted
from autoscaler.doctor.facts import PageLook, pods_of
from autoscaler.domain.gateway import GatewayKind
from autoscaler.domain.reading import Histogram, Unknown, UnknownReason
from autoscaler.domain.resource import AutoscalerResource, MetricsEndpoint
from autoscaler.domain.service import Engine
from autoscaler.ports import PortError, UnavailableError

# Of each variant: they are replicas of one another.
_MOST_PODS = 10
_AT_A_TIME = 16
_NEARLY_ALL = 0.99


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedPage:
    """One page of a ready pod."""

    resource: AutoscalerResource
    variant: str
    pod: PodView
    url: str


def fetch_looks(
    api: KubernetesApi,
    resources: Sequence[AutoscalerResource],
    targets: Targeted,
    pods: Sequence[JsonObject],
    *,
    through_api_server: bool,
) -> list[PageLook]:
    """The pages of at most ten ready pods of each variant. Raises nothing."""
    wanted = list(wanted_pages(resources, targets, pods))
    if through_api_server:
        return [_look(each, _proxied(api, each), at=_proxy_path(each)) for each in wanted]
    fetched = asyncio.run(_fetch_all([each.url for each in wanted]))
    return [_look(each, page, at=each.url) for each, page in zip(wanted, fetched, strict=True)]


def wanted_pages(
    resources: Sequence[AutoscalerResource], targets: Targeted, pods: Sequence[JsonObject]
) -> Iterator[WantedPage]:
    """Those of at most ten ready pods of each variant."""
    for resource in resources:
        for source in resource.sources:
            view = targets.get((resource.namespace, source.target))
            ready = list(_ready(pods_of(pods, view))) if isinstance(view, TargetView) else []
            for pod in ready[:_MOST_PODS]:
                url = metrics_url(pod, resource.metrics)
                if url is not None:
                    yield WantedPage(resource=resource, variant=source.variant, pod=pod, url=url)


def _ready(pods: Sequence[JsonObject]) -> Iterator[PodView]:
    for source in pods:
        try:
            pod = pod_view(source)
        except PortError:  # the checks of workloads tell of it
            continue
        if pod.life is Life.READY:
            yield pod


def fetch_routes(
    api: KubernetesApi, resource: AutoscalerResource, pods: Sequence[JsonObject], *, through_api_server: bool
) -> dict[str, frozenset[str] | Unknown]:
    """The services that the gateways of a resource tell of, by pod, of at most ten ready ones. Raises nothing.

    Empty for gateways that are not ours: their pages do not tell our services apart.
    """
    gateway = resource.gateway
    if gateway is None or gateway.kind is not GatewayKind.GPU_AUTOSCALER:
        return {}
    endpoint = MetricsEndpoint(port=gateway.port, path=gateway.path)
    wanted = [
        WantedPage(resource=resource, variant="", pod=pod, url=url)
        for pod in list(_ready(pods))[:_MOST_PODS]
        if (url := metrics_url(pod, endpoint)) is not None
    ]
    if through_api_server:
        pages = [_proxied(api, each) for each in wanted]
    else:
        pages = asyncio.run(_fetch_all([each.url for each in wanted]))
    return {each.pod.name: _services_on(page) for each, page in zip(wanted, pages, strict=True)}


def _services_on(page: FetchedPage | Unknown) -> frozenset[str] | Unknown:
    if isinstance(page, Unknown):
        return page
    told = GatewayPageReader().read(page.body, at_s=0.0)
    return told if isinstance(told, Unknown) else frozenset(told)


async def _fetch_all(urls: Sequence[str]) -> list[FetchedPage | Unknown]:
    async with open_session(max_connections=_AT_A_TIME) as session:
        fetching = [fetch_page(session, url, timeout_s=DEFAULT_TIMEOUT_S, max_bytes=DEFAULT_MAX_BYTES) for url in urls]
        return await asyncio.gather(*fetching)


def _proxy_path(wanted: WantedPage) -> str:
    """Kubernetes docs, "Access Services Running on Clusters" (SCHEME:NAME:PORT)."""
    parts = urlsplit(wanted.url)
    scheme = "https:" if parts.scheme == "https" else ""
    collection = Collection(group="", version="v1", plural="pods", namespace=wanted.pod.namespace)
    return f"{collection.path}/{scheme}{wanted.pod.name}:{parts.port}/proxy{parts.path}"


def _proxied(api: KubernetesApi, wanted: WantedPage) -> FetchedPage | Unknown:
    try:
        with api.stream(_proxy_path(wanted), silence_s=DEFAULT_TIMEOUT_S) as lines:
            body = b"".join(line + b"\n" for line in lines)
    except UnavailableError as error:
        return Unknown(UnknownReason.UNREACHABLE, str(error))
    except PortError as error:
        return Unknown(UnknownReason.HTTP_ERROR, str(error))
    return FetchedPage(body)


def _look(wanted: WantedPage, page: FetchedPage | Unknown, *, at: str) -> PageLook:
    engine = wanted.resource.service.engine
    return PageLook(
        service=wanted.resource.service.id,
        variant=wanted.variant,
        pod=wanted.pod.name,
        at=at,
        report=report_page(page, engine=engine),
        longest_s=None if isinstance(page, Unknown) else _longest_s(page, engine),
    )


def _longest_s(page: FetchedPage, engine: Engine) -> float | None:
    """The bound within which 99 % of its requests ended; None where it shows no request, or no such bound."""
    parsed = parse_page(PageParser({name for table in TABLES for name in table.sample_names()}), page.body)
    layout = parsed if isinstance(parsed, Unknown) else lay_out(parsed, engine=engine, model=None)
    if isinstance(parsed, Unknown) or isinstance(layout, Unknown):
        return None
    whole = layout.reading([parsed.values[index] for index in layout.chosen], replica="", at_s=0.0).e2e
    if not isinstance(whole, Histogram) or whole.count <= 0:
        return None
    within = zip(whole.bounds, whole.counts, strict=True)
    return next((bound for bound, count in within if count >= _NEARLY_ALL * whole.count), None)
