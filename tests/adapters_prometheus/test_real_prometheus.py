"""A real Prometheus that scrapes forty replicas of four engines: decisions as by direct scraping, and what becomes of
them when it is killed, stopped and robbed of its data.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from shutil import rmtree

import pytest
from aiohttp import web

from adapters.engines.page_reader import PageReader
from adapters.engines.pods import PodScraper
from adapters.prometheus.history import PastRate, read_history
from adapters.prometheus.settings import HistorySettings, PrometheusSettings
from adapters.prometheus.source import PrometheusSource
from adapters.wallclock import WallClock
from autoscaler.domain.cluster import ClusterSnapshot, Phase, Replica, Target
from autoscaler.domain.params import Params
from autoscaler.domain.plan import Plan
from autoscaler.domain.reading import EngineReading, Observations, Unknown
from autoscaler.domain.resource import AutoscalerResource, MetricsEndpoint, Mode, TargetRef, VariantSource
from autoscaler.domain.service import Service, ServiceId
from autoscaler.domain.state import ControllerState
from autoscaler.policy.deciding import decide
from autoscaler.ports import MetricsSource
from autoscaler.through_prometheus import past_of_pods
from tests.adapters_engines.conftest import Serve
from tests.adapters_prometheus.fleets import FLEET, NAMES, PREFIXES, comparable, replica, snapshot
from tests.adapters_prometheus.prometheus_process import RealPrometheus
from tests.adapters_prometheus.steady_engines import KINDS, SteadyEngines, Swing
from tests.cluster.processes import NotReadyError, Processes, wait_for
from tests.policy.world import models, service

pytestmark = pytest.mark.cluster

A_REPLICA_RPS = 10.0
REPLICAS = 10
LAG_TICKS = 3
BARRED_TICKS = 14  # the stable and the down window, and what Prometheus lags behind
PARAMS = Params(
    interval_s=1.0,
    forecasting=False,
    short_window_s=3.0,
    stable_window_s=6.0,
    down_window_s=6.0,
    down_window_without_forecast_s=6.0,
)


def source(prometheus: RealPrometheus, *, timeout_s: float = 10.0) -> PrometheusSource:
    return PrometheusSource(
        PrometheusSettings(url=prometheus.url, timeout_s=timeout_s),
        clock=WallClock(),
        reader=PageReader(),
        names=NAMES,
        prefixes=PREFIXES,
        engines={},
    )


@dataclass
class Lane:
    """Decisions on what one source reads. The fleet stays as it is, whatever is decided."""

    metrics: MetricsSource
    services: tuple[Service, ...]
    replicas: tuple[Replica, ...]
    state: ControllerState = field(default_factory=lambda: ControllerState(services={}))
    seen: Observations | None = None

    def decided(self) -> dict[ServiceId, int]:
        """The replicas that each service is to have; all that it has where nothing is changed."""
        now_s = time.time()
        world = ClusterSnapshot(
            at_s=now_s,
            devices=(),
            replicas=self.replicas,
            targets=tuple(Target(service=each.id, variant="default", replicas=REPLICAS) for each in self.services),
        )
        self.seen = self.metrics.read(world)
        decision, self.state = decide(
            now_s=time.time(),
            state=self.state,
            services=self.services,
            snapshot=world,
            observations=self.seen,
            models=models(rps=A_REPLICA_RPS),
            params=PARAMS,
        )
        return {
            part.service: sum(each.replicas for each in part.outcome.targets)
            if isinstance(part.outcome, Plan)
            else REPLICAS
            for part in decision.services
        }

    def known(self) -> int:
        assert self.seen is not None
        return sum(isinstance(each, EngineReading) for each in self.seen.engines.values())


def fleet(swing_rps: float) -> tuple[tuple[Service, ...], SteadyEngines]:
    """Four services of ten replicas, each of another engine."""
    services = tuple(replace(service(str(kind)), bounds=replace(service().bounds, max_replicas=40)) for kind in KINDS)
    engines = [
        (render, Swing(mean_rps=4.0, swing_rps=swing_rps, period_s=60.0, phase=number))
        for number, render in enumerate(KINDS.values())
        for _ in range(REPLICAS)
    ]
    return services, SteadyEngines(engines)


def replicas_of(services: tuple[Service, ...], engines: SteadyEngines) -> tuple[Replica, ...]:
    created_s = time.time() - 3600
    return tuple(
        Replica(
            name=f"llm/{each.id}-{number}",
            service=each.id,
            variant="default",
            phase=Phase.READY,
            created_s=created_s,
            ready_s=created_s,
            metrics_url=f"http://127.0.0.1:{engines.ports[REPLICAS * index + number]}/metrics",
        )
        for index, each in enumerate(services)
        for number in range(REPLICAS)
    )


def every_second(lanes: list[Lane], seconds: int) -> Iterator[list[dict[ServiceId, int]]]:
    """What the lanes decide, second after second."""
    next_s = time.monotonic()
    for _ in range(seconds):
        time.sleep(max(0.0, next_s - time.monotonic()))
        yield [lane.decided() for lane in lanes]
        next_s = max(next_s + PARAMS.interval_s, time.monotonic())


def targets(replicas: tuple[Replica, ...]) -> dict[str, dict[str, str]]:
    """By address, with the labels that service discovery would set."""
    return {
        str(each.metrics_url).removeprefix("http://").removesuffix("/metrics"): dict(
            zip(("namespace", "pod"), each.name.split("/"), strict=True)
        )
        for each in replicas
    }


def compared(whole: Sequence[bool]) -> frozenset[int]:
    """The ticks before which every replica was read for as long as a missing one may bar a shrink."""
    return frozenset(n for n in range(len(whole)) if n >= BARRED_TICKS and all(whole[n - BARRED_TICKS : n + 1]))


def test_decisions_are_those_of_direct_scraping(tmp_path: Path, processes: Processes) -> None:
    services, engines = fleet(swing_rps=3.0)
    with ExitStack() as opened:
        opened.enter_context(engines)
        replicas = replicas_of(services, engines)
        prometheus = RealPrometheus(processes, tmp_path)
        prometheus.know(targets(replicas))
        prometheus.start()
        direct = Lane(opened.enter_context(PodScraper(clock=WallClock(), engines={})), services, replicas)
        through = Lane(opened.enter_context(source(prometheus)), services, replicas)
        wait_for(lambda: through.decided() and through.known() == len(replicas), "every replica is read")
        direct.state = through.state = ControllerState(services={})
        taken: list[list[dict[ServiceId, int]]] = []
        whole: list[bool] = []
        # A busy machine's Prometheus misses scrapes: then nothing shrinks through it for a while, which is right.
        for counts in every_second([direct, through], 180):
            taken.append(counts)
            whole.append(through.known() == len(replicas))
            if len(compared(whole)) >= 30:
                break
    assert len(compared(whole)) >= 30
    for each in services:
        directly = [one[each.id] for one, _ in taken]
        for number, (_, other) in enumerate(taken):
            # What Prometheus knows is up to a scrape and its evaluation old.
            lately = directly[max(0, number - LAG_TICKS) : number + 1]
            assert min(lately) - 1 <= other[each.id], (number, each.id, taken)
            if number in compared(whole):
                assert other[each.id] <= max(lately) + 1, (number, each.id, taken)
    # It is a test only where there was something to decide.
    for each in services:
        assert max(one[each.id] for one, _ in taken[15:]) - min(one[each.id] for one, _ in taken[15:]) >= 2, taken


def test_a_prometheus_in_trouble_shrinks_nothing(tmp_path: Path, processes: Processes) -> None:
    services, engines = fleet(swing_rps=0.0)
    needed = {each.id: round(REPLICAS * 4.0 / A_REPLICA_RPS) for each in services}
    with ExitStack() as opened:
        opened.enter_context(engines)
        replicas = replicas_of(services, engines)
        prometheus = RealPrometheus(processes, tmp_path)
        prometheus.know(targets(replicas))
        prometheus.start()
        lane = Lane(opened.enter_context(source(prometheus, timeout_s=1.0)), services, replicas)

        def is_sized() -> None:
            for (decided,) in every_second([lane], 60):
                if all(abs(count - needed[each]) <= 1 for each, count in decided.items()):
                    return
            raise AssertionError(f"not sized within 60 decisions; the last one saw {lane.seen}")

        def nothing_shrinks() -> None:
            for (decided,) in every_second([lane], 8):
                assert decided == dict.fromkeys(needed, REPLICAS)
                assert lane.known() == 0
                assert lane.seen is not None
                assert len(lane.seen.engines) == len(replicas)

        is_sized()
        prometheus.kill()
        nothing_shrinks()
        prometheus.start()
        is_sized()
        prometheus.signal(signal.SIGSTOP)
        nothing_shrinks()
        prometheus.signal(signal.SIGCONT)
        is_sized()
        prometheus.kill()
        rmtree(tmp_path / "data")
        nothing_shrinks()
        prometheus.start()
        is_sized()


def test_the_past_is_what_was_asked_of_each_service(tmp_path: Path, processes: Processes) -> None:
    """Of SGLang, whose ranks repeat one another, as of the others."""
    services, engines = fleet(swing_rps=0.0)
    with engines:
        replicas = replicas_of(services, engines)
        prometheus = RealPrometheus(processes, tmp_path)
        prometheus.know(targets(replicas))
        prometheus.start()
        asked = PrometheusSettings(url=prometheus.url, history=HistorySettings(period_s=30.0, step_s=5.0))
        pasts = {each.id: past_of_pods(stateful_set(each)) for each in services}

        def found() -> Mapping[ServiceId, tuple[PastRate, ...] | Unknown]:
            return read_history(asked, pasts, now_s=time.time(), timeout_s=30.0)

        def long_enough() -> bool:
            return all(not isinstance(each, Unknown) and len(each) >= 4 for each in found().values())

        wait_for(long_enough, "four steps are over")
        for name, past in found().items():
            assert not isinstance(past, Unknown)
            # The first step began before the first scrape.
            assert [each.rate_rps for each in past[1:]] == [pytest.approx(4.0 * REPLICAS, rel=0.1)] * len(past[1:]), (
                name
            )


def stateful_set(scaled: Service) -> AutoscalerResource:
    """Its pods are called NAME-0, NAME-1 and so on."""
    return AutoscalerResource(
        namespace="llm",
        name=str(scaled.id),
        uid="1",
        generation=1,
        labels=(),
        created_s=0.0,
        mode=Mode.SCALE,
        service=scaled,
        metrics=MetricsEndpoint(),
        sources=(
            VariantSource(
                variant="default", target=TargetRef(api_version="apps/v1", kind="StatefulSet", name=str(scaled.id))
            ),
        ),
    )


def test_a_fleet_in_every_state_reads_as_it_does_directly(tmp_path: Path, processes: Processes, serve: Serve) -> None:
    replicas = []
    for number, engine in enumerate(FLEET.values()):

        async def fetched(_: web.Request, body: bytes | None = engine.page) -> web.StreamResponse:
            return web.Response(body=body, status=200 if body is not None else 503, content_type="text/plain")

        replicas.append(replica(f"llm/chat-{number}", f"{serve(fetched)}/metrics"))
    prometheus = RealPrometheus(processes, tmp_path)
    prometheus.know(targets(tuple(replicas)))
    prometheus.start()
    with PodScraper(clock=WallClock(), engines={}) as scraper, source(prometheus) as through:
        wanted = {name: comparable(each) for name, each in scraper.read(snapshot(*replicas)).engines.items()}

        def seen() -> dict[str, EngineReading | Unknown]:
            return through.read(snapshot(*replicas)).engines

        def differing() -> list[str]:
            return [name for name, each in seen().items() if comparable(each) != wanted[name]]

        with suppress(NotReadyError):  # what differs is shown below
            wait_for(lambda: not differing(), "all is read as it is directly", within_s=30)
        assert {name: comparable(each) for name, each in seen().items()} == wanted
