"""What the controller gets to see of a simulated cluster: readings, as late and as patchy as scrapes are."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from adapters.simulation.clock import Order, VirtualClock
from adapters.simulation.cluster import SimulatedCluster
from adapters.simulation.readings import batch_reading, gateway_reading, token_reading
from adapters.simulation.replicas import Record
from autoscaler.domain.cluster import ClusterSnapshot, Phase, Replica
from autoscaler.domain.reading import AnyGatewayReading, EngineReading, Observations, Unknown, UnknownReason
from autoscaler.domain.service import ServiceId

_SCRAPED = (Phase.READY, Phase.DRAINING)
_LOST = Unknown(UnknownReason.TIMEOUT, "no answer in time")
_NOT_YET = Unknown(UnknownReason.MISSING_SERIES, "not scraped yet")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scraping:
    """How pages come to the controller.

    ``interval_s``: between the scrapes of somebody else who collects them (Prometheus), the first at ``phase_s``; None:
    the controller fetches them itself, when it looks. ``lag_s``: from a scrape to where it can be read.
    ``missing``: the part of all scrapes that fail, each by itself.
    """

    interval_s: float | None = None
    phase_s: float = 0.0
    lag_s: float = 0.0
    missing: float = 0.0

    def __post_init__(self) -> None:
        if self.interval_s is not None and not (math.isfinite(self.interval_s) and self.interval_s > 0):
            raise ValueError(f"interval_s must be positive and finite, got {self.interval_s}")
        if not 0 <= self.missing < 1:
            raise ValueError(f"missing must lie in [0, 1), got {self.missing}")
        if self.phase_s < 0 or self.lag_s < 0:
            raise ValueError(f"phase_s and lag_s must be at least 0, got {self.phase_s} and {self.lag_s}")
        if self.interval_s is None and (self.lag_s > 0 or self.phase_s > 0):
            raise ValueError("lag_s and phase_s need an interval_s: pages that are fetched when needed are fresh")


@dataclass(frozen=True, slots=True)
class _Scrape:
    at_s: float
    engines: Mapping[str, EngineReading | Unknown]
    gateways: Mapping[str, AnyGatewayReading | Unknown]


class SimulatedSource:
    """MetricsSource over a simulated cluster. Never tells more than the pages of a real one would.

    ``gateways``: the services that have a gateway in front of them whose counts are read too.
    """

    def __init__(
        self,
        *,
        clock: VirtualClock,
        cluster: SimulatedCluster,
        scraping: Scraping,
        seed: int,
        gateways: tuple[ServiceId, ...] = (),
    ) -> None:
        self._clock = clock
        self._cluster = cluster
        self._scraping = scraping
        self._gateways = gateways
        self._random = np.random.default_rng(seed)
        self._scrapes: deque[_Scrape] = deque()
        if scraping.interval_s is not None:
            clock.every(scraping.interval_s, self._collect, Order.SCRAPE, first_s=scraping.phase_s)

    def read(self, snapshot: ClusterSnapshot) -> Observations:
        """The latest that can be read of every serving replica of the snapshot, and of every gateway."""
        now_s = self._clock.now_s()
        replicas = [each for each in snapshot.replicas if each.phase in _SCRAPED and each.metrics_url is not None]
        if self._scraping.interval_s is None:
            fresh = self._scrape(replicas)
            return Observations(at_s=now_s, engines=dict(fresh.engines), gateways=dict(fresh.gateways))
        known = self._readable(now_s)
        if known is None:
            missing: dict[str, AnyGatewayReading | Unknown] = dict.fromkeys(self._gateways, _NOT_YET)
            return Observations(at_s=now_s, engines={each.name: _NOT_YET for each in replicas}, gateways=missing)
        engines = {each.name: known.engines.get(each.name, _NOT_YET) for each in replicas}
        return Observations(at_s=now_s, engines=engines, gateways=dict(known.gateways))

    def _collect(self) -> None:
        serving = [each for each in self._cluster.snapshot().replicas if each.phase in _SCRAPED]
        self._scrapes.append(self._scrape(serving))
        self._readable(self._clock.now_s())

    def _readable(self, now_s: float) -> _Scrape | None:
        """The newest scrape that had the time to become readable; older ones are forgotten."""
        while len(self._scrapes) > 1 and self._scrapes[1].at_s + self._scraping.lag_s <= now_s:
            self._scrapes.popleft()
        return self._scrapes[0] if self._scrapes and self._scrapes[0].at_s + self._scraping.lag_s <= now_s else None

    def _scrape(self, replicas: list[Replica]) -> _Scrape:
        now_s = self._clock.now_s()
        engines: dict[str, EngineReading | Unknown] = {}
        for each in replicas:
            record = self._cluster.record(each.name)
            if record is None or record.index is None or self._fails():
                engines[each.name] = _LOST
            else:
                engines[each.name] = self._reading(record, now_s)
        gateways: dict[str, AnyGatewayReading | Unknown] = {}
        for service in self._gateways:
            page = self._cluster.fleet(service).gateway()
            begin_s = self._clock.begin_s
            gateways[service] = (
                _LOST if self._fails() else gateway_reading(page, service=service, at_s=now_s, started_s=begin_s)
            )
        return _Scrape(now_s, engines, gateways)

    def _reading(self, record: Record, now_s: float) -> EngineReading:
        assert record.index is not None
        page = self._cluster.fleet(record.service).page(record.index)
        alive_s = now_s - record.started_s
        if page.exec_count is not None:
            return batch_reading(page, replica=record.name, at_s=now_s, alive_s=alive_s)
        return token_reading(page, replica=record.name, at_s=now_s, started_s=record.started_s, alive_s=alive_s)

    def _fails(self) -> bool:
        return self._scraping.missing > 0 and self._random.random() < self._scraping.missing
