"""All that the gateway knows at a moment: the services, their replicas, who waits, and what was counted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from adapters.local.gateway_metrics import ServiceMeter
from adapters.local.gateway_protocol import RoutesUpdate
from adapters.local.gateway_routing import RoutingTable
from adapters.local.gateway_waiting import DemandSignal, WaitingRoom
from adapters.local.routes import Endpoint
from adapters.local.template import RoutePolicy
from autoscaler.domain.reading import GatewayReading
from autoscaler.domain.service import ServiceId


@dataclass(slots=True, kw_only=True)
class Lane:
    """One service: how it is treated, who waits for it and what was counted of it."""

    policy: RoutePolicy
    room: WaitingRoom
    meter: ServiceMeter


class Traffic:
    """Changed by the controller through the admin socket, read by each request."""

    def __init__(self, *, started_s: float) -> None:
        """``started_s``: when the gateway started, seconds since the epoch."""
        self.started_s = started_s
        self.table = RoutingTable()
        self.demand = DemandSignal()
        self._lanes: dict[ServiceId, Lane] = {}
        self._meters: dict[ServiceId, ServiceMeter] = {}
        self._is_told = False
        self.is_closed = False

    @property
    def is_ready(self) -> bool:
        """Its routes were told, even if there are none, and it does not stop."""
        return self._is_told and not self.is_closed

    def put(self, update: RoutesUpdate) -> None:
        """Take over services and endpoints, and let those go on who waited for them.

        The requests waiting for a service that is no longer there are turned away; its counts are kept, so that they
        never run back should it return. Raises ValueError where a name comes twice; nothing is changed then.
        """
        names = [policy.service for policy in update.policies]
        if len(set(names)) != len(names):
            raise ValueError(f"a service is listed twice: {names}")
        self.table.put(update.endpoints)
        self._is_told = True
        gone = [lane for service, lane in self._lanes.items() if service not in names]
        self._lanes = {policy.service: self._lane_for(policy) for policy in update.policies}
        for lane in gone:
            lane.room.close()
        self._release_waiting()

    def policies(self) -> tuple[RoutePolicy, ...]:
        """Of all services, in the order they were given."""
        return tuple(lane.policy for lane in self._lanes.values())

    def lane(self, service: ServiceId) -> Lane:
        """Raises KeyError."""
        return self._lanes[service]

    def reachable(self, endpoint: Endpoint) -> None:
        """A replica that refused connections accepts them again."""
        self.table.reachable(endpoint)
        self._release_waiting()

    def is_anyone_waiting(self) -> bool:
        """Some service holds requests."""
        return any(len(lane.room) for lane in self._lanes.values())

    def readings(self) -> Iterator[GatewayReading]:
        """One of each service, ``at_s`` left at 0 for the asker, who knows the time, to fill in."""
        for service, lane in self._lanes.items():
            yield lane.meter.reading(service, started_s=self.started_s, at_s=0.0, waiting=len(lane.room))

    def close(self) -> None:
        """Turn all away who wait; it stops."""
        self.is_closed = True
        for lane in self._lanes.values():
            lane.room.close()

    def _lane_for(self, policy: RoutePolicy) -> Lane:
        meter = self._meters.setdefault(policy.service, ServiceMeter(policy.slo))
        meter.set_slo(policy.slo)
        present = self._lanes.get(policy.service)
        room = present.room if present is not None else WaitingRoom(on_first=self.demand.raised)
        return Lane(policy=policy, room=room, meter=meter)

    def _release_waiting(self) -> None:
        for service, lane in self._lanes.items():
            if len(lane.room) and self.table.can_begin(service):
                lane.room.release()
