"""What the controller and the gateway say to one another over the gateway's admin socket.

HTTP over a Unix socket, bodies in the canonical JSON of ``autoscaler.codec``. ``IDENTITY`` is asked first;
it and ``STOP`` keep their path and meaning in every version, so that any version can make room for another. All other
paths carry the version.
"""

from __future__ import annotations

from dataclasses import dataclass

from adapters.local.routes import Endpoint
from adapters.local.template import GatewaySettings, RoutePolicy

PROTOCOL = 1

IDENTITY = "/identity"
STOP = "/stop"
SETTINGS = f"/v{PROTOCOL}/settings"
ROUTES = f"/v{PROTOCOL}/routes"
READINGS = f"/v{PROTOCOL}/readings"
IN_FLIGHT = f"/v{PROTOCOL}/in-flight"
DEMAND = f"/v{PROTOCOL}/demand"

# The longest that one question for demand is left open; the asker asks again.
MAX_POLL_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who answers: ``started_s`` seconds since the epoch, ``port`` the one it listens on (``settings`` may say 0), as
    ``metrics_port`` is for its own pages.
    """

    protocol: int
    pid: int
    started_s: float
    port: int
    settings: GatewaySettings
    metrics_port: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutesUpdate:
    """All services and all their replicas; what is not in it is no longer routed to."""

    policies: tuple[RoutePolicy, ...]
    endpoints: tuple[Endpoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandQuestion:
    """Tell me when requests begin to wait; ``seen``: the ``rise`` of the last answer, None at first."""

    seen: int | None
    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandAnswer:
    """``waiting``: some service has begun to hold requests since ``seen`` and holds some now.

    ``rise``: a number to ask on with; it grows each time that a service begins to hold requests.
    """

    waiting: bool
    rise: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StopOrder:
    """Take no more requests; give those in flight ``grace_s`` seconds."""

    grace_s: float
