"""MetricsSource of the gateways in a cluster: what they counted of each service, and a wake-up for those at zero."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from types import TracebackType

import aiohttp
from yarl import URL

from adapters.engines.fetched import DEFAULT_MAX_BYTES, DEFAULT_TIMEOUT_S, FetchedPage
from adapters.engines.fetching import fetch_page, open_session
from adapters.engines.gateway_joining import JoinedGateways
from adapters.engines.gateway_pages import WAITING, GatewayPageReader
from autoscaler.domain.cluster import ClusterSnapshot
from autoscaler.domain.gateway import GatewayPage, GatewayPages
from autoscaler.domain.reading import GatewayReading, Observations, Unknown, UnknownReason
from autoscaler.domain.service import ServiceId
from autoscaler.ports import Clock

_MAX_CONNECTIONS = 64
_CLOSING_TIMEOUT_S = 5.0
# How often gateways are asked whether somebody waits for a service at zero: a request is noticed within this time.
LOOK_S = 0.5


@dataclass(frozen=True, slots=True)
class _Page:
    """A page as it came, or why it didn't."""

    readings: Mapping[str, GatewayReading | Unknown] | Unknown
    at_s: float


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
        self._reader, self._onlooking = GatewayPageReader(), GatewayPageReader()
        self._at_zero: Mapping[str, frozenset[str]] = {}
        self._session: aiohttp.ClientSession | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="scrape-gateways", daemon=True)
        self._thread.start()
        self._looking = asyncio.run_coroutine_threadsafe(self._look_for_waiting(), self._loop)

    def __enter__(self) -> GatewayScraper:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def read(self, snapshot: ClusterSnapshot) -> Observations:
        """The joined reading of each service of the snapshot that has a gateway, or the reason for none."""
        services = {target.service for target in snapshot.targets}
        found = {service: pages for service, pages in self._gateways().items() if service in services}
        self._at_zero = _at_zero(snapshot, found)
        wanted = {page for pages in found.values() if not isinstance(pages, Unknown) for page in pages}
        fetched = self._fetched(wanted)
        self._joined = {service: self._joined.get(service) or JoinedGateways() for service in found}
        gateways = {str(service): self._service(service, pages, fetched) for service, pages in sorted(found.items())}
        return Observations(at_s=self._clock.now_s(), engines={}, gateways=gateways)

    def close(self) -> None:
        """Drop the connections and stop the thread. Idempotent; no read may follow."""
        if self._loop.is_closed():
            return
        stopping = asyncio.run_coroutine_threadsafe(self._stop(), self._loop)
        stopping.result(timeout=_CLOSING_TIMEOUT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=_CLOSING_TIMEOUT_S)
        self._loop.close()

    def _service(
        self, service: ServiceId, pages: tuple[GatewayPage, ...] | Unknown, fetched: Mapping[str, _Page]
    ) -> GatewayReading | Unknown:
        if isinstance(pages, Unknown):
            return pages
        readings: dict[str, GatewayReading] = {}
        at_s = 0.0
        for each in pages:
            page = fetched[each.url]
            told: GatewayReading | Unknown
            if isinstance(page.readings, Unknown):
                told = page.readings
            else:
                missing = Unknown(UnknownReason.MISSING_SERIES, "it has no route for the service yet")
                told = page.readings.get(service, missing)
            if isinstance(told, Unknown):
                return Unknown(told.reason, f"gateway {each.name}: {told.detail}")
            readings[each.name] = told
            at_s = max(at_s, page.at_s)
        if not readings:
            return Unknown(UnknownReason.NO_REPLICAS, "the service has a gateway, but no pod of it runs")
        return self._joined[service].join(readings, at_s=at_s)

    def _fetched(self, pages: Collection[GatewayPage]) -> Mapping[str, _Page]:
        """By URL; each is there."""
        late = Unknown(UnknownReason.TIMEOUT, f"no answer within {2 * self._timeout_s:g} s")
        fetched = {page.url: _Page(late, self._clock.now_s()) for page in pages}
        bodies: dict[str, tuple[FetchedPage | Unknown, float]] = {}
        fetching = asyncio.run_coroutine_threadsafe(self._round(list(fetched), bodies), self._loop)
        try:
            fetching.result(timeout=2 * self._timeout_s)
        except (TimeoutError, CancelledError):
            fetching.cancel()
        for url, (page, at_s) in list(bodies.items()):
            read = page if isinstance(page, Unknown) else self._reader.read(page.body, at_s=at_s)
            fetched[url] = _Page(read, at_s)
        return fetched

    async def _round(self, urls: Sequence[str], bodies: dict[str, tuple[FetchedPage | Unknown, float]]) -> None:
        async def fetch(url: str) -> None:
            page = await self._fetch(url)
            bodies[url] = page, self._clock.now_s()

        await asyncio.gather(*(fetch(url) for url in urls))

    async def _fetch(self, url: str) -> FetchedPage | Unknown:
        if self._session is None:
            self._session = open_session(max_connections=_MAX_CONNECTIONS)
        return await fetch_page(self._session, url, timeout_s=self._timeout_s, max_bytes=2 * DEFAULT_MAX_BYTES)

    async def _look_for_waiting(self) -> None:
        """Wake the controller when requests begin to wait for a service at zero; once for each beginning."""
        known: frozenset[tuple[str, str]] = frozenset()
        while True:
            await asyncio.sleep(self._look_s)
            at_zero = self._at_zero
            found = await asyncio.gather(*(self._waiting(url, services) for url, services in at_zero.items()))
            waiting = frozenset(each for some in found for each in some)
            if waiting - known:
                self._wake()
            known = waiting

    async def _waiting(self, url: str, services: frozenset[str]) -> list[tuple[str, str]]:
        page = await self._fetch(str(URL(url).update_query({"name[]": WAITING})))
        if isinstance(page, Unknown):  # the next tick says so
            return []
        return [(url, service) for service in self._onlooking.waiting(page.body) & services]

    async def _stop(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        if self._session is not None:
            await self._session.close()


def _at_zero(snapshot: ClusterSnapshot, found: GatewayPages) -> Mapping[str, frozenset[str]]:
    """The services without replicas, by the URL of each gateway in front of them."""
    scaled = {target.service for target in snapshot.targets if target.replicas > 0}
    services: dict[str, set[str]] = {}
    for service, pages in found.items():
        if service not in scaled and not isinstance(pages, Unknown):
            for page in pages:
                services.setdefault(page.url, set()).add(service)
    return {url: frozenset(names) for url, names in services.items()}
