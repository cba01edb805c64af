"""Reads an engine's page again and again beside a load, through the controller's own source."""

from __future__ import annotations

import threading
from types import TracebackType

from adapters.engines.pods import PodScraper
from adapters.wallclock import WallClock
from autoscaler.domain.cluster import ClusterSnapshot, Phase, Replica
from autoscaler.domain.reading import EngineReading
from autoscaler.domain.service import Engine, ServiceId

SERVICE = ServiceId("calibrated")
REPLICA = "engine"


class PageWatch:
    """A context: within it the page at ``metrics_url`` is read every ``interval_s``, by a thread of its own.

    ``readings`` holds, once it is left, what could be read, oldest first: the first before the load, the last after it.
    """

    def __init__(self, metrics_url: str, *, interval_s: float) -> None:
        self.readings: list[EngineReading] = []
        self._interval_s = interval_s
        self._clock = WallClock()
        self._scraper = PodScraper(clock=self._clock, engines={SERVICE: Engine.AUTO})
        self._replica = Replica(
            name=REPLICA,
            service=SERVICE,
            variant="default",
            phase=Phase.READY,
            created_s=self._clock.now_s(),
            metrics_url=metrics_url,
        )
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watch", daemon=True)

    def __enter__(self) -> PageWatch:
        self._read()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self._read()
        self._scraper.close()

    def _watch(self) -> None:
        while not self._over.wait(self._interval_s):
            self._read()

    def _read(self) -> None:
        snapshot = ClusterSnapshot(at_s=self._clock.now_s(), devices=(), replicas=(self._replica,), targets=())
        reading = self._scraper.read(snapshot).engines[REPLICA]
        if isinstance(reading, EngineReading):
            self.readings.append(reading)
