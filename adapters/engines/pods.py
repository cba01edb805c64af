"""MetricsSource by direct scrape: every replica's page at once, each bounded in time and size."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from types import TracebackType

from adapters.engines.fetched import DEFAULT_MAX_BYTES, DEFAULT_TIMEOUT_S, FetchedPage
from adapters.engines.page_reader import PageReader
from adapters.engines.patience import PatientFetcher
from adapters.loop_thread import LoopThread
from autoscaler.domain.cluster import ClusterSnapshot, Phase, Replica
from autoscaler.domain.reading import EngineReading, Observations, Unknown, UnknownReason
from autoscaler.domain.service import Engine, ServiceId
from autoscaler.ports import Clock

_SCRAPED = (Phase.READY, Phase.DRAINING)
_CLOSED_S = 5.0  # how long after a round's end its last answer is waited for


@dataclass(frozen=True, slots=True)
class _Answer:
    replica: Replica
    page: FetchedPage | Unknown
    at_s: float


class PodScraper:
    """Scrapes from an event loop in a thread of its own and reads the pages in the caller's thread as they come.

    Connections are kept between rounds. One round takes at most ``round_timeout_s`` plus the reading of its pages,
    whatever the replicas do: what isn't there by then is Unknown(TIMEOUT). A replica that hangs delays one round alone
    (adapters/engines/patience.py).
    """

    def __init__(
        self,
        *,
        clock: Clock,
        engines: Mapping[ServiceId, Engine],
        models: Mapping[ServiceId, str] | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        round_timeout_s: float | None = None,
        max_page_bytes: int = DEFAULT_MAX_BYTES,
        max_connections: int = 256,
    ) -> None:
        """``engines``: by service; one not named is AUTO. ``models``: the model whose series alone count, by service.

        ``timeout_s`` bounds one replica's answer, ``round_timeout_s`` (twice that unless given) all of them.
        """
        self._clock = clock
        self._engines = engines
        self._models = models or {}
        self._round_timeout_s = 2 * timeout_s if round_timeout_s is None else round_timeout_s
        self._max_connections = max_connections
        self._reader = PageReader()
        self._fetcher = PatientFetcher(timeout_s=timeout_s, max_bytes=max_page_bytes, max_connections=max_connections)
        self._loop = LoopThread("scrape")

    def __enter__(self) -> PodScraper:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def read(self, snapshot: ClusterSnapshot) -> Observations:
        """One reading, or the reason for none, for each ready or draining replica with a metrics address.

        A replica that still starts is left alone: its page may answer long before it can serve.
        """
        replicas = [one for one in snapshot.replicas if one.phase in _SCRAPED and one.metrics_url is not None]
        answers: SimpleQueue[_Answer | None] = SimpleQueue()
        scraping = self._loop.begin(self._round(replicas, answers))
        scraping.add_done_callback(lambda _: answers.put(None))
        lost = Unknown(UnknownReason.UNREACHABLE, "the scrape ended without an answer")
        engines: dict[str, EngineReading | Unknown] = {one.name: lost for one in replicas}
        try:
            while (answer := answers.get(timeout=self._round_timeout_s + _CLOSED_S)) is not None:
                engines[answer.replica.name] = self._reading(answer)
        except Empty:  # closed meanwhile by another thread
            scraping.cancel()
        self._reader.keep_only(engines)
        return Observations(at_s=self._clock.now_s(), engines=engines, gateways={})

    def close(self) -> None:
        """End a round in progress, drop the connections and stop the thread. Idempotent; no read may follow."""
        self._loop.close(self._fetcher.close)

    def _reading(self, answer: _Answer) -> EngineReading | Unknown:
        if isinstance(answer.page, Unknown):
            return answer.page
        service = answer.replica.service
        return self._reader.read(
            answer.page.body,
            replica=answer.replica.name,
            at_s=answer.at_s,
            engine=self._engines.get(service, Engine.AUTO),
            model=self._models.get(service),
        )

    async def _round(self, replicas: list[Replica], answers: SimpleQueue[_Answer | None]) -> None:
        self._fetcher.keep_only({one.metrics_url or "" for one in replicas})
        turns = asyncio.Semaphore(self._max_connections)
        tasks = {asyncio.create_task(self._scrape(one, turns, answers)): one for one in replicas}
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=self._round_timeout_s)
        for task in late:
            task.cancel()
            detail = f"no answer within the round's {self._round_timeout_s:g} s"
            answers.put(self._answer(tasks[task], Unknown(UnknownReason.TIMEOUT, detail)))
        if late:
            await asyncio.wait(late)

    async def _scrape(
        self,
        replica: Replica,
        turns: asyncio.Semaphore,
        answers: SimpleQueue[_Answer | None],
    ) -> None:
        async with turns:
            page = await self._fetcher.fetch(replica.metrics_url or "")
        answers.put(self._answer(replica, page))

    def _answer(self, replica: Replica, page: FetchedPage | Unknown) -> _Answer:
        return _Answer(replica, page, self._clock.now_s())
