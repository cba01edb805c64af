"""The gateway as the controller's parts know it: a table of routes, and a source of demand."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from adapters.local.gateway_client import GatewayClient
from adapters.local.routes import Endpoint
from adapters.local.template import RoutePolicy
from autoscaler.domain.cluster import ClusterSnapshot
from autoscaler.domain.reading import AnyGatewayReading, Observations, Unknown, UnknownReason
from autoscaler.ports import Clock, PortError


class GatewayRoutes:
    """RouteTable. The latest routes are remembered for a gateway that does not answer now: see GatewayKeeper."""

    def __init__(self, client: GatewayClient, policies: Sequence[RoutePolicy]) -> None:
        self._client = client
        self._policies = tuple(policies)
        self._endpoints: tuple[Endpoint, ...] | None = None
        self._lock = threading.Lock()

    def set_policies(self, policies: Sequence[RoutePolicy]) -> None:
        """Treat the services so from now on. Raises PortError; they are remembered all the same."""
        with self._lock:
            self._policies = tuple(policies)
            self._put()

    def set_routes(self, endpoints: Sequence[Endpoint]) -> None:
        """Make these the routes. A gateway that does not answer sends no request anywhere, and gets them later."""
        with self._lock:
            self._endpoints = tuple(endpoints)
            try:
                self._put()
            except PortError:
                return

    def put_again(self) -> None:
        """Tell the gateway, which may be another one by now, the latest routes. Raises PortError."""
        with self._lock:
            self._put()

    def in_flight(self) -> Mapping[str, int]:
        """Unanswered requests by replica name; empty (unknown) where the gateway does not answer."""
        try:
            return self._client.in_flight()
        except PortError:
            return {}

    def _put(self) -> None:
        # Before the replicas are known, a running gateway's routes are better than none.
        if self._endpoints is not None:
            self._client.put_routes(self._policies, self._endpoints)


class GatewaySource:
    """MetricsSource: what the gateway counted of each service. Says nothing of replicas."""

    def __init__(self, client: GatewayClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    def read(self, snapshot: ClusterSnapshot) -> Observations:
        """A reading of each service of the snapshot, or the reason for none."""
        services = {target.service for target in snapshot.targets}
        services.update(replica.service for replica in snapshot.replicas)
        now_s = self._clock.now_s()
        try:
            read = self._client.readings(now_s)
            missing = Unknown(UnknownReason.MISSING_SERIES, "the gateway has no route for the service")
        except PortError as error:
            read, missing = {}, Unknown(UnknownReason.UNREACHABLE, str(error))
        gateways: dict[str, AnyGatewayReading | Unknown] = {
            service: read.get(service, missing) for service in sorted(services)
        }
        return Observations(at_s=now_s, engines={}, gateways=gateways)
