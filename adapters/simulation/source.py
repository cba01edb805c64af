"""What the controller gets to see of a simulated cluster: readings, as late and as patchy as scrapes are."""

from __future__ import annotations

import math
import zlib
from collections import defaultdict, deque
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

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
# Enough for pages to be spread evenly over the interval, and few enough to cost little with a thousand replicas.
_PHASES = 16

_Said = TypeVar("_Said")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scraping:
    """How pages come to the controller.

    ``interval_s``: between the scrapes of somebody else who collects them (Prometheus); None: the controller fetches
    them itself, when it looks. ``phase_s``: of the first scrape; None: each page has a phase of its own, drawn with the
    seed, as Prometheus spreads its targets over the interval (``Target.offset`` in prometheus/prometheus,
    ``scrape/target.go``). ``lag_s``: from a scrape to where it can be read. ``missing``: the part of all scrapes that
    fail, each by itself.
    """

    interval_s: float | None = None
    phase_s: float | None = None
    lag_s: float = 0.0
    missing: float = 0.0

    def __post_init__(self) -> None:
        if self.interval_s is not None and not (math.isfinite(self.interval_s) and self.interval_s > 0):
            raise ValueError(f"interval_s must be positive and finite, got {self.interval_s}")
        if not 0 <= self.missing < 1:
            raise ValueError(f"missing must lie in [0, 1), got {self.missing}")
        if (self.phase_s or 0.0) < 0 or self.lag_s < 0:
            raise ValueError(f"phase_s and lag_s must be at least 0, got {self.phase_s} and {self.lag_s}")
        if self.interval_s is None and (self.lag_s > 0 or self.phase_s is not None):
            raise ValueError("lag_s and phase_s need an interval_s: pages that are fetched when needed are fresh")


class _Collected(Generic[_Said]):
    """What was scraped of each page: the newest that can be read, and what can't be read yet."""

    def __init__(self, lag_s: float) -> None:
        self._lag_s = lag_s
        self._scrapes: defaultdict[str, deque[tuple[float, _Said]]] = defaultdict(deque)

    def put(self, page: str, said: _Said, *, at_s: float) -> None:
        """One more scrape; those that a newer readable one has replaced are forgotten."""
        self._scrapes[page].append((at_s, said))
        self.readable(page, at_s)

    def readable(self, page: str, now_s: float) -> _Said | Unknown:
        """The newest scrape that had the time to become readable."""
        scrapes = self._scrapes.get(page)
        if not scrapes:
            return _NOT_YET
        while len(scrapes) > 1 and scrapes[1][0] + self._lag_s <= now_s:
            scrapes.popleft()
        at_s, said = scrapes[0]
        return said if at_s + self._lag_s <= now_s else _NOT_YET

    def keep_only(self, pages: Collection[str]) -> None:
        """Forget all others."""
        for page in self._scrapes.keys() - set(pages):
            del self._scrapes[page]


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
        self._seed = seed
        self._random = np.random.default_rng(seed)
        self._engines_seen = _Collected[EngineReading | Unknown](scraping.lag_s)
        self._gateways_seen = _Collected[AnyGatewayReading | Unknown](scraping.lag_s)
        interval_s = scraping.interval_s
        if interval_s is None:
            return
        if scraping.phase_s is not None:
            clock.every(interval_s, partial(self._collect, None), Order.SCRAPE, first_s=scraping.phase_s)
            return
        for phase in range(_PHASES):
            first_s = interval_s * (phase + 0.5) / _PHASES
            clock.every(interval_s, partial(self._collect, phase), Order.SCRAPE, first_s=first_s)

    def read(self, snapshot: ClusterSnapshot) -> Observations:
        """The latest that can be read of every serving replica of the snapshot, and of every gateway."""
        now_s = self._clock.now_s()
        replicas = [each for each in snapshot.replicas if each.phase in _SCRAPED and each.metrics_url is not None]
        if self._scraping.interval_s is None:
            engines = {each.name: self._engine(each) for each in replicas}
            gateways = {str(service): self._gateway(service) for service in self._gateways}
        else:
            engines = {each.name: self._engines_seen.readable(each.name, now_s) for each in replicas}
            gateways = {str(each): self._gateways_seen.readable(each, now_s) for each in self._gateways}
        return Observations(at_s=now_s, engines=engines, gateways=gateways)

    def _collect(self, phase: int | None) -> None:
        """Scrape the pages of that phase; None: all."""
        now_s = self._clock.now_s()
        serving = [each for each in self._cluster.snapshot().replicas if each.phase in _SCRAPED]
        for each in serving:
            if phase is None or phase == self._phase(each.name):
                self._engines_seen.put(each.name, self._engine(each), at_s=now_s)
        for service in self._gateways:
            if phase is None or phase == self._phase(f"gateway of {service}"):
                self._gateways_seen.put(service, self._gateway(service), at_s=now_s)
        if not phase:
            self._engines_seen.keep_only([each.name for each in serving])

    def _phase(self, page: str) -> int:
        return zlib.crc32(f"{self._seed}/{page}".encode()) % _PHASES

    def _engine(self, replica: Replica) -> EngineReading | Unknown:
        record = self._cluster.record(replica.name)
        if record is None or record.index is None or self._fails():
            return _LOST
        return self._reading(record, self._clock.now_s())

    def _gateway(self, service: ServiceId) -> AnyGatewayReading | Unknown:
        page = self._cluster.fleet(service).gateway()
        if self._fails():
            return _LOST
        return gateway_reading(page, service=service, at_s=self._clock.now_s(), started_s=self._clock.begin_s)

    def _reading(self, record: Record, now_s: float) -> EngineReading:
        assert record.index is not None
        page = self._cluster.fleet(record.service).page(record.index)
        alive_s = now_s - record.started_s
        if page.exec_count is not None:
            return batch_reading(page, replica=record.name, at_s=now_s, alive_s=alive_s)
        return token_reading(page, replica=record.name, at_s=now_s, started_s=record.started_s, alive_s=alive_s)

    def _fails(self) -> bool:
        return self._scraping.missing > 0 and self._random.random() < self._scraping.missing
