"""How the supervisor tells a gateway where requests may go, and hears how many are still being answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from autoscaler.domain.service import ServiceId


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One replica that answers requests. ``accepting`` False: it finishes those it has and gets no new ones.

    ``url``: scheme, host and port, without a path.
    """

    service: ServiceId
    replica: str
    url: str
    accepting: bool


class RouteTable(Protocol):
    """Where requests go. Both methods return at once and are called from one thread."""

    def set_routes(self, endpoints: Sequence[Endpoint]) -> None:
        """Replace all routes. Once it has returned, no request is newly sent to an endpoint that does not accept."""
        ...

    def in_flight(self) -> Mapping[str, int]:
        """Unanswered requests by replica name. A replica that is missing has an unknown number, not zero."""
        ...


class DirectRoutes:
    """No gateway: clients reach the replicas themselves, so nobody knows what is in flight."""

    def set_routes(self, endpoints: Sequence[Endpoint]) -> None:
        """Nobody to tell."""

    def in_flight(self) -> Mapping[str, int]:
        """Nothing is known."""
        return {}
