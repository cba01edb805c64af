"""MetricsSource of the gateways in a cluster: what they counted of each service, and a wake-up for those at zero."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import CancelledError
from dataclasses import dataclass
from types import TracebackType

from adapters.engines.fetched import DEFAULT_MAX_BYTES, DEFAULT_TIMEOUT_S, FetchedPage
from adapters.engines.foreign_gateways import ForeignPage, ForeignPageReader, JoinedForeignGateways, Told
from adapters.engines.gateway_joining import JoinedGateways
from adapters.engines.gateway_onlooking import Onlooker
from adapters.engines.gateway_pages import GatewayPageReader
from adapters.engines.patience import PatientFetcher
from adapters.loop_thread import LoopThread
from autoscaler.domain.cluster import ClusterSnapshot
from autoscaler.domain.gateway import GatewayKind, GatewayPage, GatewayPages
from autoscaler.domain.reading import AnyGatewayReading, GatewayReading, Observations, Unknown, UnknownReason
from autoscaler.domain.service import ServiceId
from autoscaler.ports import Clock

_log = logging.getLogger(__name__)

_MAX_CONNECTIONS = 64
# How often gateways are asked whether somebody waits for a service at zero: a request is noticed within this time.
LOOK_S = 0.5


@dataclass(frozen=True, slots=True)
class _Page:
    """A page as it was read, or why it wasn't."""

    said: Mapping[str, GatewayReading | Unknown] | ForeignPage | Unknown
    at_s: float


_Key = tuple[str, GatewayKind]


class GatewayScraper:
    """Asks from an event loop in a thread of its own, which also looks after the services at zero.

    A round takes at most ``2 * timeout_s``, whatever the gateways do. A gateway that can't be read makes the services
    behind it unknown, and no others.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        gateways: Callable[[], GatewayPages],
        wake: Callable[[], None],
        timeout_s: float = DEFAULT_TIMEOUT_S,
        look_s: float = LOOK_S,
    ) -> None:
        """``gateways``: the pages of each service that has a gateway. ``wake`` is called, from the thread, when
        requests begin to wait for a service without replicas; ``look_s``: time between two looks for them.
        """
        self._clock = clock
        self._gateways = gateways
        self._wake = wake
        self._timeout_s = timeout_s
        self._look_s = look_s
        self._joined: dict[ServiceId, JoinedGateways] = {}
        self._foreign: dict[ServiceId, JoinedForeignGateways] = {}
        self._reader, self._foreign_reader = GatewayPageReader(), ForeignPageReader()
        self._onlooker = Onlooker()
        self._at_zero: Mapping[GatewayPage, frozenset[str]] = {}
        self._fetcher = PatientFetcher(
            timeout_s=timeout_s, max_bytes=2 * DEFAULT_MAX_BYTES, max_connections=_MAX_CONNECTIONS
        )
        self._loop = LoopThread("scrape-gateways")
        self._looking = self._loop.begin(self._look_for_waiting())

    def __enter__(self) -> GatewayScraper:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def read(self, snapshot: ClusterSnapshot) -> Observations:
        """The joined reading of each service of the snapshot that has a gateway, or the reason for none."""
        if self._looking.done():
            _log.error(
                "looking for requests at zero replicas ended, and begins anew", exc_info=self._looking.exception()
            )
            self._looking = self._loop.begin(self._look_for_waiting())
        services = {target.service for target in snapshot.targets}
        found = {service: pages for service, pages in self._gateways().items() if service in services}
        self._at_zero = _at_zero(snapshot, found)
        wanted = {(page.url, page.kind) for pages in found.values() if not isinstance(pages, Unknown) for page in pages}
        fetched = self._fetched(wanted)
        self._joined = {service: self._joined.get(service) or JoinedGateways() for service in found}
        self._foreign = {service: self._foreign.get(service) or JoinedForeignGateways() for service in found}
        gateways = {str(service): self._service(service, pages, fetched) for service, pages in sorted(found.items())}
        return Observations(at_s=self._clock.now_s(), engines={}, gateways=gateways)

    def close(self) -> None:
        """Drop the connections and stop the thread. Idempotent; no read may follow."""
        self._loop.close(self._fetcher.close)

    def _service(
        self, service: ServiceId, pages: tuple[GatewayPage, ...] | Unknown, fetched: Mapping[_Key, _Page]
    ) -> AnyGatewayReading | Unknown:
        if isinstance(pages, Unknown):
            return pages
        ours: dict[str, GatewayReading] = {}
        others: dict[str, Told] = {}
        at_s = 0.0
        for each in pages:
            page = fetched[each.url, each.kind]
            told = _told(page, each, service)
            if isinstance(told, Unknown):
                return Unknown(told.reason, f"gateway {each.name}: {told.detail}")
            if isinstance(told, Told):
                others[each.name] = told
            else:
                ours[each.name] = told
            at_s = max(at_s, page.at_s)
        if others:  # a service has gateways of one kind
            return self._foreign[service].join(service, others, at_s=at_s)
        if not ours:
            return Unknown(UnknownReason.NO_REPLICAS, "the service has a gateway, but no pod of it runs")
        return self._joined[service].join(ours, at_s=at_s)

    def _fetched(self, pages: Collection[_Key]) -> Mapping[_Key, _Page]:
        """By URL and kind; each is there."""
        late = Unknown(UnknownReason.TIMEOUT, f"no answer within {2 * self._timeout_s:g} s")
        fetched = {key: _Page(late, self._clock.now_s()) for key in pages}
        bodies: dict[str, tuple[FetchedPage | Unknown, float]] = {}
        fetching = self._loop.begin(self._round({url for url, _ in pages}, bodies))
        try:
            fetching.result(timeout=2 * self._timeout_s)
        except (TimeoutError, CancelledError):
            fetching.cancel()
        for url, kind in pages:
            if url in bodies:
                page, at_s = bodies[url]
                fetched[url, kind] = _Page(page if isinstance(page, Unknown) else self._read(page, kind, at_s), at_s)
        return fetched

    def _read(
        self, page: FetchedPage, kind: GatewayKind, at_s: float
    ) -> Mapping[str, GatewayReading | Unknown] | ForeignPage | Unknown:
        if kind is GatewayKind.GPU_AUTOSCALER:
            return self._reader.read(page.body, at_s=at_s)
        return self._foreign_reader.read(page.body, kind, at_s=at_s)

    async def _round(self, urls: Collection[str], bodies: dict[str, tuple[FetchedPage | Unknown, float]]) -> None:
        self._fetcher.keep_only({*urls, *map(self._onlooker.url, self._at_zero)})

        async def fetch(url: str) -> None:
            page = await self._fetcher.fetch(url)
            bodies[url] = page, self._clock.now_s()

        await asyncio.gather(*(fetch(url) for url in urls))

    async def _look_for_waiting(self) -> None:
        """Wake the controller when requests begin to wait for a service at zero; once for each beginning."""
        known: frozenset[tuple[str, str]] = frozenset()
        while True:
            await asyncio.sleep(self._look_s)
            at_zero = self._at_zero
            self._onlooker.keep_only(at_zero)
            found = await asyncio.gather(*(self._waiting(page, services) for page, services in at_zero.items()))
            waiting = frozenset(each for some in found for each in some)
            if waiting - known:
                self._wake()
            known = waiting

    async def _waiting(self, page: GatewayPage, services: frozenset[str]) -> list[tuple[str, str]]:
        url = self._onlooker.url(page)
        fetched = await self._fetcher.fetch(url)
        if isinstance(fetched, Unknown):  # the next tick says so
            return []
        return [(url, service) for service in self._onlooker.waiting(page, fetched.body, services)]


def _told(page: _Page, asked: GatewayPage, service: ServiceId) -> GatewayReading | Told | Unknown:
    if isinstance(page.said, Unknown):
        return page.said
    if isinstance(page.said, ForeignPage):
        return page.said.of(service, asked.match)
    return page.said.get(service, Unknown(UnknownReason.MISSING_SERIES, "it has no route for the service yet"))


def _at_zero(snapshot: ClusterSnapshot, found: GatewayPages) -> Mapping[GatewayPage, frozenset[str]]:
    """The services without replicas, by the page of each gateway in front of them."""
    scaled = {target.service for target in snapshot.targets if target.replicas > 0}
    services: dict[GatewayPage, set[str]] = {}
    for service, pages in found.items():
        if service not in scaled and not isinstance(pages, Unknown):
            for page in pages:
                services.setdefault(page, set()).add(service)
    return {page: frozenset(names) for page, names in services.items()}
