"""Who asks for a service at zero, seen between two ticks on the pages of the gateways in front of it."""

from __future__ import annotations

from collections.abc import Mapping

from yarl import URL

from adapters.engines.foreign_gateways import ForeignPageReader, Told
from adapters.engines.gateway_pages import WAITING, GatewayPageReader
from autoscaler.domain.gateway import GatewayKind, GatewayPage
from autoscaler.domain.reading import Unknown


class Onlooker:
    """Looks at page after page; for one thread."""

    def __init__(self) -> None:
        self._ours = GatewayPageReader()
        self._others = ForeignPageReader()
        self._arrivals: dict[tuple[str, str], float] = {}

    def keep_only(self, looked_at: Mapping[GatewayPage, frozenset[str]]) -> None:
        """Forget the services that nobody looks for any more: what was asked of one while it had replicas is no demand
        when it is at zero again.
        """
        wanted = {(page.url, service) for page, services in looked_at.items() for service in services}
        self._arrivals = {key: arrivals for key, arrivals in self._arrivals.items() if key in wanted}

    def url(self, page: GatewayPage) -> str:
        """Where to look: of our own gateways at the one series that is needed."""
        if page.kind is not GatewayKind.GPU_AUTOSCALER:
            return page.url
        try:
            return str(URL(page.url).update_query({"name[]": WAITING}))
        except ValueError:  # no address: who fetches it says so
            return page.url

    def waiting(self, page: GatewayPage, body: bytes, services: frozenset[str]) -> frozenset[str]:
        """Those of the services that somebody waits for, or has asked for since the last look; none where the page
        can't be read: the next tick says so.
        """
        if page.kind is GatewayKind.GPU_AUTOSCALER:
            return self._ours.waiting(body) & services
        read = self._others.read(body, page.kind, at_s=0.0)
        if isinstance(read, Unknown):
            return frozenset()
        told = {service: read.of(service, page.match) for service in services}
        return frozenset(service for service, each in told.items() if self._is_asked_for(page, service, each))

    def _is_asked_for(self, page: GatewayPage, service: str, told: Told | Unknown) -> bool:
        if isinstance(told, Unknown):
            return False
        before = self._arrivals.get((page.url, service), told.arrivals)
        self._arrivals[page.url, service] = told.arrivals
        held = 0.0 if isinstance(told.waiting, Unknown) else told.waiting
        return held > 0 or told.arrivals > before
