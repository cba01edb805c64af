"""MetricsSource by Prometheus: the pages of all replicas, as it scraped them last, in a few queries."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Protocol

from adapters.loop_thread import LoopThread
from adapters.prometheus.answers import RangedSeries
from adapters.prometheus.client import QueryClient
from adapters.prometheus.finding import Way, address_of, names_another
from adapters.prometheus.promql import duration, literal, matching, one_of, selector
from adapters.prometheus.scrapes import UP, Scrape, Target, latest_scrape, targets_of
from adapters.prometheus.settings import PrometheusSettings
from autoscaler.domain.cluster import ClusterSnapshot, Phase, Replica
from autoscaler.domain.reading import EngineReading, Observations, Unknown, UnknownReason
from autoscaler.domain.service import Engine, ServiceId
from autoscaler.ports import Clock

_READ = (Phase.READY, Phase.DRAINING)
_LOOKBACK_S = 300.0
_AHEAD_S = 5.0
_SPACINGS = 2.5  # scrapes within the time that is asked for, so that one may be late


class ReadPage(Protocol):
    """Reads pages of engines, as whoever scrapes them directly does."""

    def read(
        self, body: bytes, *, replica: str, at_s: float, engine: Engine = ..., model: str | None = ...
    ) -> EngineReading | Unknown:
        """The reading of one page, or why there is none. ``model``: count only this model's series."""
        ...

    def keep_only(self, replicas: Collection[str]) -> None:
        """Forget the pages of all other replicas."""
        ...


@dataclass(slots=True)
class _Round:
    """What is known of each replica so far, and who is still looked for."""

    replicas: Sequence[Replica]
    scrapes: dict[str, Scrape | Unknown]
    missing: list[Replica]
    spacings_s: list[float]


class PrometheusSource:
    """Asks from an event loop in a thread of its own, and reads the pages in the caller's thread.

    A scrape older than ``max_age_s``, by Prometheus's clock or by ours, is Unknown(STALE): never taken as present,
    however long Prometheus itself goes on to show it. Whatever Prometheus does, a round takes at most twice the
    timeout, and a replica of which it says nothing is Unknown, never gone and never idle.
    """

    def __init__(
        self,
        settings: PrometheusSettings,
        *,
        clock: Clock,
        reader: ReadPage,
        names: Collection[str],
        prefixes: Collection[str],
        engines: Mapping[ServiceId, Engine],
        models: Mapping[ServiceId, str] | None = None,
        interval_s: Callable[[], float] | None = None,
    ) -> None:
        """``reader``: of the pages; ``names``: of the samples that it wants; ``prefixes``: of names by which it knows
        an engine that shows none of them yet. ``engines``: by service; one not named is AUTO. ``models``: the model
        whose series alone count. ``interval_s``: between decisions, for a warning where scrapes are further apart.
        """
        self._settings = settings
        self._clock = clock
        self._reader = reader
        gauges = [name for name in names if not name.endswith(("_bucket", "_sum", "_count", "_total"))]
        self._wanted = one_of("__name__", [*names, UP])
        self._gauges = one_of("__name__", gauges)
        self._any_of_engines = matching("__name__", "|".join([UP, *(f"{literal(each)}.*" for each in prefixes)]))
        self._engines = engines
        self._models = models or {}
        self._interval_s = interval_s
        self._ways = list(Way)
        self._spacing_s: float | None = None
        self._client = QueryClient(settings)
        self._loop = LoopThread("prometheus")

    def __enter__(self) -> PrometheusSource:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def read(self, snapshot: ClusterSnapshot) -> Observations:
        """One reading, or the reason for none, for each ready or draining replica with a metrics address."""
        replicas = [one for one in snapshot.replicas if one.phase in _READ and one.metrics_url is not None]
        known = _Round(replicas, {}, replicas, [])
        asking = self._loop.begin(self._look(known))
        bound_s = 2 * self._settings.timeout_s
        late = Unknown(UnknownReason.TIMEOUT, f"Prometheus did not tell within {bound_s:g} s")
        try:
            asking.result(timeout=bound_s)
        except (TimeoutError, CancelledError):
            asking.cancel()
        scrapes = dict(known.scrapes)
        engines = {one.name: self._reading(one, scrapes.get(one.name, late)) for one in replicas}
        self._reader.keep_only(engines)
        return Observations(at_s=self._clock.now_s(), engines=engines, gateways={})

    def close(self) -> None:
        """Drop the connections and stop the thread. Idempotent; no read may follow."""
        self._loop.close(self._client.close)

    def _reading(self, replica: Replica, scrape: Scrape | Unknown) -> EngineReading | Unknown:
        if isinstance(scrape, Unknown):
            return scrape
        age_s = self._clock.now_s() - scrape.at_s
        if age_s > self._settings.max_age_s:
            return Unknown(UnknownReason.STALE, f"Prometheus scraped it last {age_s:.0f} s ago by this clock")
        if age_s < -_AHEAD_S:
            return Unknown(UnknownReason.STALE, f"Prometheus's clock is {-age_s:.0f} s ahead of this one")
        reading = self._reader.read(
            scrape.page,
            replica=replica.name,
            at_s=scrape.at_s,
            engine=self._engines.get(replica.service, Engine.AUTO),
            model=self._models.get(replica.service),
        )
        if isinstance(reading, Unknown) or self._interval_s is None or self._spacing_s is None:
            return reading
        if self._spacing_s <= 1.05 * self._interval_s():
            return reading
        warning = (
            f"Prometheus scrapes every {self._spacing_s:.0f} s, less often than decisions are made: "
            "many decisions have nothing new to go by"
        )
        return replace(reading, warnings=(*reading.warnings, warning))

    async def _look(self, known: _Round) -> None:
        """First as it went well last time, in the shortest time that holds two scrapes; then further."""
        settings = self._settings
        window_s = settings.max_age_s
        if self._spacing_s is not None:
            window_s = min(window_s, _SPACINGS * self._spacing_s + 1.0)
        if window_s < settings.max_age_s:
            await self._pass(known, self._ways[0], self._wanted, window_s)
        for way in tuple(self._ways):
            before = len(known.missing)
            await self._pass(known, way, self._wanted, settings.max_age_s)
            if len(known.missing) < before:
                self._ways.sort(key=lambda each: each is not way)
        for way in tuple(self._ways):
            await self._say_since_when(known, way)
        await self._look_at_empty(known)
        for each in known.missing:
            detail = "Prometheus has no series of an engine for it: is it scraped, with the labels pod and namespace?"
            known.scrapes[each.name] = Unknown(UnknownReason.MISSING_SERIES, detail)
        known.missing = []
        if known.spacings_s:
            self._spacing_s = sorted(known.spacings_s)[len(known.spacings_s) // 2]

    async def _look_at_empty(self, known: _Round) -> None:
        """A page without any of the samples that are wanted may be an engine's that has served nothing yet."""
        empty = [each for each in known.replicas if _is_empty(known.scrapes.get(each.name))]
        again = _Round(empty, {}, empty, [])
        for way in tuple(self._ways):
            await self._pass(again, way, self._any_of_engines, self._settings.max_age_s)
        known.scrapes.update(again.scrapes)

    async def _pass(self, known: _Round, way: Way, names: str, window_s: float) -> None:
        """Look for those that are missing; who is found, or can't be asked for, is missing no more."""
        now_s = self._clock.now_s()
        for replica, targets in await self._targets(known, way, names, window_s):
            scrape = latest_scrape(
                targets,
                address=address_of(replica),
                replica_labels=self._settings.replica_labels,
                now_s=now_s,
            )
            known.scrapes[replica.name] = scrape
            known.spacings_s.extend(s for each in targets if (s := each.spacing_s()) is not None)
        known.missing = [each for each in known.missing if each.name not in known.scrapes]

    async def _say_since_when(self, known: _Round, way: Way) -> None:
        """Of those still missing, who was scraped at all within Prometheus's own look-back."""
        for replica, targets in await self._targets(known, way, self._gauges, _LOOKBACK_S):
            last_s = max((at_s for target in targets for at_s in _times(target)), default=None)
            if last_s is not None:
                age_s, most_s = self._clock.now_s() - last_s, self._settings.max_age_s
                detail = f"Prometheus scraped it last {age_s:.0f} s ago; at most {most_s:g} s count as present"
                known.scrapes[replica.name] = Unknown(UnknownReason.STALE, detail)
        known.missing = [each for each in known.missing if each.name not in known.scrapes]

    async def _targets(
        self, known: _Round, way: Way, names: str, window_s: float
    ) -> list[tuple[Replica, list[Target]]]:
        """The targets of each missing replica that has any. Where a query fails, its replicas are told so."""
        askable = [each for each in known.missing if way.key(each) is not None]
        size = self._settings.replicas_per_query
        batches = [askable[start : start + size] for start in range(0, len(askable), size)]

        async def ask(batch: Sequence[Replica]) -> list[tuple[Replica, list[Target]]]:
            chosen = selector([names, *way.matchers(batch)], self._settings.matchers)
            answer = await self._client.series_now(f"{chosen}[{duration(window_s)}]")
            if isinstance(answer, Unknown):
                known.scrapes.update((each.name, answer) for each in batch)
                return []
            return [
                (replica, targets_of(series, {*self._settings.replica_labels, *way.value}))
                for replica, series in _by_replica(answer, way, batch)
            ]

        return [each for part in await asyncio.gather(*(ask(batch) for batch in batches)) for each in part]


def _by_replica(
    answer: Sequence[RangedSeries], way: Way, replicas: Sequence[Replica]
) -> list[tuple[Replica, list[RangedSeries]]]:
    """Each replica's series, where there are any of an engine or any ``up``."""
    found: dict[tuple[str, ...], list[RangedSeries]] = {}
    for series in answer:
        found.setdefault(way.found(series.labels), []).append(series)
    by_replica = []
    for replica in replicas:
        mine = found.get(way.key(replica) or (), [])
        if way is Way.INSTANCE:
            mine = _without_former(mine, replica)
        if mine:
            by_replica.append((replica, mine))
    return by_replica


def _without_former(series: Sequence[RangedSeries], replica: Replica) -> list[RangedSeries]:
    """Those that were scraped at its address since it has it. A page may have a label ``pod`` for its own purposes."""
    former = {
        frozenset(each.labels.items()) for each in series if each.name == UP and names_another(each.labels, replica)
    }
    if former or not any(each.name == UP for each in series):
        kept = [each for each in series if not names_another(each.labels, replica)]
        return [each for each in kept if not any(labels <= each.labels.items() for labels in former)]
    return list(series)


def _is_empty(scrape: Scrape | Unknown | None) -> bool:
    return isinstance(scrape, Unknown) and scrape.reason is UnknownReason.EMPTY_PAGE


def _times(target: Target) -> list[float]:
    return [at_s for each in target.series for at_s, _ in each.samples]
