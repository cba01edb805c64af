"""A plausible half hour of one service, decision by decision, and an API that serves it on a free port."""

from __future__ import annotations

import http.client
import json
import math
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from adapters.serving.api import create_app
from adapters.serving.auth import ApiSettings
from adapters.serving.server import ApiServer
from adapters.serving.store import DecisionBoard, DecisionHistory
from autoscaler.domain.capacity import CapacityLimit, CapacitySource, ReplicaCapacity, RequestShape
from autoscaler.domain.demand import Demand, DemandSource, Forecast
from autoscaler.domain.plan import Hold, Plan, Reason, ServiceDecision, Stage, StageResult, VariantTarget
from autoscaler.domain.reading import Unknown, UnknownReason
from autoscaler.domain.service import Bounds, Service, ServiceId, Slo, Variant
from autoscaler.ports import Publications

START_S = 1_760_000_000.0
INTERVAL_S = 5.0
LEAD_S = 75.0
CAPACITY_RPS = 2.9


def a_service(name: str = "chat-8b", *, cost: float = 2.5, share: float = 0.99) -> Service:
    """A service with one variant."""
    return Service(
        id=ServiceId(name),
        slo=Slo(ttft_s=2.0, itl_s=0.08, share=share),
        variants=(Variant(name="h100", cost=cost),),
        bounds=Bounds(min_replicas=1, max_replicas=8),
    )


@dataclass
class Fleet:
    """Replicas that take LEAD_S to start and 25 s to drain; the desired number falls after 90 s."""

    ready: int = 2
    starting: list[float] = field(default_factory=list)
    draining: list[float] = field(default_factory=list)
    wanted: list[tuple[float, int]] = field(default_factory=list)
    desired: int = 2

    def step(self, at_s: float, need: int) -> None:
        self.ready += sum(due <= at_s for due in self.starting)
        self.starting = [due for due in self.starting if due > at_s]
        self.draining = [due for due in self.draining if due > at_s]
        self.wanted = [(then, n) for then, n in [*self.wanted, (at_s, need)] if at_s - then <= 90]
        self.desired = max(n for _, n in self.wanted)
        live = self.ready + len(self.starting)
        self.starting += [at_s + LEAD_S] * max(0, self.desired - live)
        surplus = min(max(0, live - self.desired), self.ready)
        self.ready -= surplus
        self.draining += [at_s + 25] * surplus


def offered_rps(t_s: float) -> float:
    """A calm start, a rise to three times as much, a plateau, a short burst and a fall."""
    rise = 1 / (1 + math.exp(-(t_s - 560) / 70)) - 1 / (1 + math.exp(-(t_s - 1330) / 80))
    burst = 5.5 * math.exp(-(((t_s - 1010) / 45) ** 2))
    return 4.3 + 9.6 * rise + burst + 0.5 * math.sin(t_s / 95)


def half_hour(
    name: str = "chat-8b", *, start_s: float = START_S, minutes: float = 30, seed: int = 7, scale: float = 1.0
) -> list[ServiceDecision]:
    """Decisions every INTERVAL_S; for a minute from 21:00 on, no page can be read."""
    noise, fleet, decisions = random.Random(seed), Fleet(ready=max(1, round(2 * scale))), []
    for tick in range(int(minutes * 60 / INTERVAL_S)):
        t_s = tick * INTERVAL_S
        rate = scale * offered_rps(t_s) * noise.gauss(1, 0.045)
        ahead = scale * offered_rps(t_s + LEAD_S - 20) * noise.gauss(1, 0.015)
        blind = 1260 <= t_s < 1330
        high = 1.13 * ahead + 0.5
        before = fleet.desired
        need = max(1, math.ceil(max(rate, high) / CAPACITY_RPS))
        fleet.step(start_s + t_s, before if blind else need)
        strain = rate / (fleet.ready * CAPACITY_RPS)
        attained = min(1.0, 0.9985 - max(0.0, strain - 0.97) * 0.35 + noise.gauss(0, 0.0006))
        decisions.append(
            a_decision(
                name,
                at_s=start_s + t_s,
                rps=rate,
                high_rps=high,
                median_rps=ahead,
                attained=attained,
                need=need,
                before=before,
                fleet=fleet,
                blind=blind,
            )
        )
    return decisions


def a_decision(
    name: str = "chat-8b",
    *,
    at_s: float = START_S,
    rps: float = 6.0,
    high_rps: float = 8.0,
    median_rps: float = 6.5,
    attained: float = 0.998,
    need: int = 3,
    before: int = 3,
    fleet: Fleet | None = None,
    blind: bool = False,
) -> ServiceDecision:
    """One decision; ``blind``: no page could be read."""
    fleet = fleet or Fleet(ready=before, desired=need)
    desired = fleet.desired
    timeout = Unknown(UnknownReason.TIMEOUT, "no answer within 2.0 s from 4 of 4 replicas")
    by_forecast = high_rps > rps
    return ServiceDecision(
        service=ServiceId(name),
        at_s=at_s,
        outcome=Hold(reason=Reason.UNKNOWN_DEMAND, detail="No metrics page of the 4 replicas could be read.")
        if blind
        else Plan(targets=(VariantTarget(variant="h100", replicas=desired),)),
        stages=stages_of(rps, high_rps, need, before, desired, blind=blind),
        binding=Reason.UNKNOWN_DEMAND if blind else binding_of(need, before, desired, by_forecast=by_forecast),
        current=(VariantTarget(variant="h100", replicas=before),),
        demand=timeout if blind else a_demand(at_s, rps, attained),
        forecast=Forecast(
            at_s=at_s,
            lead_s=LEAD_S,
            quantile=0.97,
            rps=high_rps,
            median_rps=median_rps,
            skill=0.31,
            by="mixture",
        ),
        capacity=ReplicaCapacity(rps=CAPACITY_RPS, limit=CapacityLimit.ITL, source=CapacitySource.FITTED),
        ready=fleet.ready,
        starting=len(fleet.starting),
        draining=len(fleet.draining),
        failed=0,
        lead_s=LEAD_S,
        ages=(("engines", 31.0 if blind else 0.4), ("gateway", 0.1)),
    )


def binding_of(need: int, before: int, desired: int, *, by_forecast: bool) -> Reason:
    if desired > need:
        return Reason.SCALE_DOWN_STABILIZED
    if desired > before:
        return Reason.FORECAST_LOAD if by_forecast else Reason.MEASURED_LOAD
    return Reason.SHRINK if desired < before else Reason.STEADY


def stages_of(
    rps: float, high_rps: float, need: int, before: int, desired: int, *, blind: bool
) -> tuple[StageResult, ...]:
    """The stages as ``explain`` shows them."""
    if blind:
        measure = StageResult(
            stage=Stage.MEASURE,
            replicas=None,
            reason=Reason.UNKNOWN_DEMAND,
            detail="No metrics page of the 4 replicas could be read: no answer within 2.0 s.",
            inputs=(("replicas", 4.0), ("coverage", 0.0)),
        )
        hold = StageResult(
            stage=Stage.STABILIZE,
            replicas=before,
            reason=Reason.NO_SHRINK_ON_UNKNOWN,
            detail="What is not known lowers nothing; the present number stays.",
        )
        return (measure, hold)
    by_forecast = high_rps > rps
    kept = desired > need
    source = "the forecast" if by_forecast else "the measured rate"
    return (
        StageResult(
            stage=Stage.MEASURE,
            replicas=None,
            reason=Reason.MEASURED,
            detail=f"{rps:.2f} requests/s over the last 15 s, counted by the gateway.",
            inputs=(("short_rps", rps), ("backlog", 0.0), ("coverage", 1.0)),
        ),
        StageResult(
            stage=Stage.FORECAST,
            replicas=None,
            reason=Reason.FORECAST,
            detail=f"At most {high_rps:.2f} requests/s in {LEAD_S:.0f} s, with a probability of 97 %.",
            inputs=(("quantile", 0.97), ("lead_s", LEAD_S), ("skill", 0.31), ("by", "mixture")),
        ),
        StageResult(
            stage=Stage.CAPACITY,
            replicas=None,
            reason=Reason.CAPACITY_KNOWN,
            detail=f"One replica serves {CAPACITY_RPS:.2f} requests/s within the SLO; time between tokens binds.",
            inputs=(("rps", CAPACITY_RPS), ("limit", "ITL"), ("source", "Fitted")),
        ),
        StageResult(
            stage=Stage.SIZE,
            replicas=need,
            reason=Reason.FORECAST_LOAD if by_forecast else Reason.MEASURED_LOAD,
            detail=f"{max(rps, high_rps):.2f} requests/s by {source} need {need} replicas.",
            inputs=(("need_rps", max(rps, high_rps)), ("per_replica_rps", CAPACITY_RPS)),
        ),
        StageResult(
            stage=Stage.STABILIZE,
            replicas=desired,
            reason=Reason.SCALE_DOWN_STABILIZED if kept else binding_of(need, before, desired, by_forecast=by_forecast),
            detail=f"{desired} were needed within the last 90 s." if kept else "",
            inputs=(("window_s", 90.0), ("largest", float(desired))),
        ),
        StageResult(
            stage=Stage.LIMIT,
            replicas=desired,
            reason=Reason.WITHIN_BOUNDS,
            detail="Between 1 and 8.",
            inputs=(("min", 1.0), ("max", 8.0)),
        ),
        StageResult(stage=Stage.PACK, replicas=desired, reason=Reason.PLACED, detail=f"h100: {desired}."),
    )


def a_demand(at_s: float, rps: float, attained: float) -> Demand:
    return Demand(
        at_s=at_s,
        source=DemandSource.GATEWAY,
        short_rps=rps,
        burst_rps=rps * 0.9,
        stable_rps=rps * 0.98,
        high_rps=rps,
        tick_rps=rps,
        tick_span_s=INTERVAL_S,
        felt_rps=rps,
        load_rps=rps,
        backlog=0.0 if attained > 0.99 else 6.0,
        in_flight=rps * 3.1,
        shape=RequestShape.of_means(412, 187),
        coverage=1.0,
        window_full=True,
        attained=attained,
        arrived=rps * INTERVAL_S,
        missed=rps * INTERVAL_S * (1 - attained),
        idle_s=0.0,
    )


@dataclass
class SteppedClock:
    """A clock that a test sets."""

    at_s: float = START_S

    def __call__(self) -> float:
        return self.at_s


@dataclass(frozen=True)
class Reply:
    """An answer as it came over the wire."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Served:
    """A listening API with its board."""

    board: DecisionBoard
    clock: SteppedClock
    server: ApiServer

    def ask(
        self, path: str, headers: dict[str, str] | None = None, *, method: str = "GET", body: str | None = None
    ) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=20)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return Reply(answer.status, answer.headers, answer.read())
        finally:
            connection.close()


@contextmanager
def serving(
    *,
    services: tuple[Service, ...],
    settings: ApiSettings | None = None,
    history: DecisionHistory | None = None,
    publications: Publications | None = None,
) -> Iterator[Served]:
    """A real server on a free port of this machine."""
    settings = replace(settings or ApiSettings(), port=0)
    clock, board = SteppedClock(), DecisionBoard(services=services, stale_after_s=15.0)
    api = create_app(
        board=board,
        history=history or board,
        settings=settings,
        now_s=clock,
        version="1.2.3",
        publications=publications,
    )
    server = ApiServer(api, settings)
    server.start()
    try:
        yield Served(board, clock, server)
    finally:
        server.stop()


@pytest.fixture(scope="session")
def serve() -> Callable[..., Any]:
    """The context manager ``serving``."""
    return serving


@pytest.fixture
def served() -> Iterator[Served]:
    """An API over one service without a decision."""
    with serving(services=(a_service(),)) as running:
        yield running


@pytest.fixture(scope="session")
def service() -> Callable[..., Service]:
    """Makes a service."""
    return a_service


@pytest.fixture(scope="session")
def decision() -> Callable[..., ServiceDecision]:
    """Makes a decision."""
    return a_decision


@pytest.fixture(scope="session")
def run_of() -> Callable[..., list[ServiceDecision]]:
    """Makes a half hour of decisions."""
    return half_hour
