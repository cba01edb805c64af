"""Which replica gets the next request: the least loaded one that takes requests. Pure; no clock, no I/O."""

from __future__ import annotations

from collections.abc import Iterable

from adapters.local.routes import Endpoint
from autoscaler.domain.service import ServiceId


class RoutingTable:
    """The replicas of all services, the requests each is answering, and which of them refuse connections.

    A replica that refused a connection gets no request until ``reachable`` says that it accepts connections again.
    Replica names are unique over all services.
    """

    def __init__(self) -> None:
        self._endpoints: dict[str, Endpoint] = {}
        self._in_flight: dict[str, int] = {}
        self._refusing: set[str] = set()
        self._last_turn: dict[str, int] = {}
        self._turns = 0

    def put(self, endpoints: Iterable[Endpoint]) -> None:
        """Replace all endpoints. A replica at a new address is taken as reachable; requests in flight stay counted.

        Raises ValueError where a replica is named twice; the table then stays as it was.
        """
        new: dict[str, Endpoint] = {}
        for endpoint in endpoints:
            if endpoint.replica in new:
                raise ValueError(f"replica {endpoint.replica!r} is listed twice")
            new[endpoint.replica] = endpoint
        self._refusing = {name for name in self._refusing if name in new and new[name].url == self._endpoints[name].url}
        self._endpoints = new
        self._last_turn = {name: turn for name, turn in self._last_turn.items() if name in new}

    def begin(self, service: ServiceId) -> Endpoint | None:
        """Choose a replica and count one request to it; None where no replica of the service can take one.

        Order: fewest in flight, then the one whose last turn is longest ago, then the name. Each request begun must
        be ended once.
        """
        chosen = min(
            (endpoint for endpoint in self._endpoints.values() if self._takes(endpoint, service)),
            key=lambda endpoint: (
                self._in_flight.get(endpoint.replica, 0),
                self._last_turn.get(endpoint.replica, -1),
                endpoint.replica,
            ),
            default=None,
        )
        if chosen is not None:
            self._in_flight[chosen.replica] = self._in_flight.get(chosen.replica, 0) + 1
            self._last_turn[chosen.replica] = self._turns
            self._turns += 1
        return chosen

    def end(self, endpoint: Endpoint) -> None:
        """Count one request to that replica as over."""
        left = self._in_flight[endpoint.replica] - 1
        if left:
            self._in_flight[endpoint.replica] = left
        else:
            del self._in_flight[endpoint.replica]

    def refused(self, endpoint: Endpoint) -> bool:
        """The replica refused a connection; True where that is news about an endpoint still in the table."""
        if not self._is_current(endpoint) or endpoint.replica in self._refusing:
            return False
        self._refusing.add(endpoint.replica)
        return True

    def reachable(self, endpoint: Endpoint) -> None:
        """The replica accepts connections again."""
        if self._is_current(endpoint):
            self._refusing.discard(endpoint.replica)

    def is_refusing(self, endpoint: Endpoint) -> bool:
        """It is in the table, at this address, and its last connection was refused."""
        return self._is_current(endpoint) and endpoint.replica in self._refusing

    def can_begin(self, service: ServiceId) -> bool:
        """Some replica of the service takes requests now."""
        return any(self._takes(endpoint, service) for endpoint in self._endpoints.values())

    def in_flight(self) -> dict[str, int]:
        """Unanswered requests by replica, in order of name; replicas that left the table while they still answer
        included.
        """
        return {name: self._in_flight.get(name, 0) for name in sorted({*self._endpoints, *self._in_flight})}

    def _is_current(self, endpoint: Endpoint) -> bool:
        current = self._endpoints.get(endpoint.replica)
        return current is not None and current.url == endpoint.url

    def _takes(self, endpoint: Endpoint, service: ServiceId) -> bool:
        return endpoint.service == service and endpoint.accepting and endpoint.replica not in self._refusing
