"""A small world for scenarios with explicit time: replicas whose engines count what they are given.

Not a simulator of latency; it produces the pages (as readings) and snapshots that a tick sees.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from autoscaler.domain.capacity import CapacityLimit, CapacitySource, LoadSample, ReplicaCapacity, RequestShape
from autoscaler.domain.cluster import ClusterSnapshot, Device, Phase, Replica, Target
from autoscaler.domain.demand import Forecast
from autoscaler.domain.learned import Learned
from autoscaler.domain.params import Params
from autoscaler.domain.plan import Decision, ServiceDecision
from autoscaler.domain.reading import (
    AnyGatewayReading,
    EngineReading,
    GatewayReading,
    Histogram,
    Observations,
    Unknown,
    UnknownReason,
)
from autoscaler.domain.service import Service, ServiceId, Slo, Variant
from autoscaler.domain.state import ControllerState
from autoscaler.policy.deciding import decide
from autoscaler.ports import MeasuredRate, Models, Question

CHAT = ServiceId("chat")
BOUNDS_S = (0.1, 0.5, 1.0, 2.0, 5.0)
_EMPTY = Histogram((1.0,), (0.0,), 0.0, 0.0)


@dataclass(frozen=True)
class KnownCapacity:
    """Every replica serves ``rps``; nothing is learned."""

    rps: float

    def start(self) -> Learned:
        return Learned("known", {})

    def learn(self, learned: Learned, sample: LoadSample) -> Learned:
        return learned

    def capacity(
        self, learned: Learned, *, variant: Variant, shape: RequestShape | Unknown, slo: Slo, fleet: int
    ) -> ReplicaCapacity | Unknown:
        return ReplicaCapacity(rps=self.rps, limit=CapacityLimit.ITL, source=CapacitySource.PROFILE)


@dataclass(frozen=True)
class PerVariant:
    """Each variant serves its own rate; nothing is learned."""

    rates: Mapping[str, float]

    def start(self) -> Learned:
        return Learned("known", {})

    def learn(self, learned: Learned, sample: LoadSample) -> Learned:
        return learned

    def capacity(
        self, learned: Learned, *, variant: Variant, shape: RequestShape | Unknown, slo: Slo, fleet: int
    ) -> ReplicaCapacity | Unknown:
        rps = self.rates[variant.name]
        return ReplicaCapacity(rps=rps, limit=CapacityLimit.ITL, source=CapacitySource.PROFILE)


@dataclass(frozen=True)
class ForeseenRate:
    """Foresees what ``rate`` says for the time asked about, or nothing where it says None; and ``kept`` at further
    quantiles, or the same where that is None.
    """

    rate: Callable[[float], float | None] = lambda _: None
    kept: Callable[[float], float] | None = None

    def start(self) -> Learned:
        return Learned("foreseen", {})

    def learn_all(self, memories: Sequence[Learned], rates: Sequence[MeasuredRate]) -> list[Learned]:
        return list(memories)

    def forecast_all(self, memories: Sequence[Learned], questions: Sequence[Question]) -> list[Forecast | Unknown]:
        return [self._answer(question) for question in questions]

    def _answer(self, asked: Question) -> Forecast | Unknown:
        for_s = asked.now_s + asked.lead_s
        rps = self.rate(for_s)
        if rps is None:
            return Unknown(UnknownReason.WARMING_UP)
        return Forecast(
            at_s=asked.now_s,
            lead_s=asked.lead_s,
            quantile=asked.quantile,
            rps=rps,
            median_rps=rps,
            skill=None,
            by="oracle",
            further_rps=tuple(rps if self.kept is None else self.kept(for_s) for _ in asked.further),
        )


@dataclass(frozen=True)
class SlowestStart:
    """The longest start seen."""

    def lead_time_s(self, *, starts_s: Sequence[float], still_starting_s: Sequence[float], assumed_s: float) -> float:
        return max([*starts_s, *still_starting_s], default=assumed_s)


def models(
    *,
    rps: float = 10.0,
    foreseen: Callable[[float], float | None] = lambda _: None,
    kept: Callable[[float], float] | None = None,
) -> Models:
    return Models(forecaster=ForeseenRate(foreseen, kept), capacity=KnownCapacity(rps), startup=SlowestStart())


def service(name: str = "chat", **changes: object) -> Service:
    base = Service(id=ServiceId(name), slo=Slo(ttft_s=2.0, itl_s=0.1), variants=(Variant(name="default"),))
    return replace(base, **changes)  # type: ignore[arg-type]


@dataclass
class Engine:
    """Counters of one replica's engine."""

    started_s: float
    completed: float = 0.0
    first_tokens: float = 0.0
    tokens: float = 0.0
    waiting: float = 0.0
    running: float = 0.0
    late: float = 0.0
    fault: Unknown | None = None

    def serve(self, requests: float, *, late: float = 0.0) -> None:
        self.completed += requests
        self.first_tokens += requests
        self.late += late
        self.tokens += 100 * requests

    def reading(self, name: str, at_s: float) -> EngineReading | Unknown:
        if self.fault is not None:
            return self.fault
        in_time = self.first_tokens - self.late
        ttft = Histogram(BOUNDS_S, (0.0, in_time, in_time, in_time, self.first_tokens), self.first_tokens, 1.0)
        itl = Histogram(BOUNDS_S, (self.tokens,) * 5, self.tokens, 0.05 * self.tokens)
        lengths = Histogram((100.0, 1000.0), (self.completed, self.completed), self.completed, 100 * self.completed)
        absent = Unknown(UnknownReason.MISSING_SERIES)
        return EngineReading(
            replica=name,
            at_s=at_s,
            engine="vllm",
            started_s=self.started_s,
            asleep=False,
            waiting=self.waiting,
            running=self.running,
            kv_fraction=0.1,
            kv_capacity_tokens=absent,
            completed=self.completed,
            refused=0.0,
            preemptions=0.0,
            prompt_tokens=100 * self.first_tokens,
            generation_tokens=self.tokens,
            arrivals_stock=self.waiting + max(self.first_tokens, self.completed + self.running),
            ttft=ttft,
            itl=itl,
            e2e=absent,
            queue_time=absent,
            prompt_length=lengths,
            output_length=lengths,
        )


@dataclass
class World:
    """Services, their replicas and engines; ``tick`` advances the clock, offers load and decides once."""

    services: tuple[Service, ...] = field(default_factory=lambda: (service(),))
    models: Models = field(default_factory=models)
    params: Params = field(default_factory=Params)
    boot_s: float = 30.0
    devices: tuple[Device, ...] = ()
    now_s: float = 1_000_000.0
    state: ControllerState = field(default_factory=lambda: ControllerState(services={}))
    targets: dict[tuple[ServiceId, str], int] = field(default_factory=dict)
    replicas: dict[str, Replica] = field(default_factory=dict)
    engines: dict[str, Engine] = field(default_factory=dict)
    gateways: dict[str, AnyGatewayReading | Unknown] = field(default_factory=dict)
    owner: str | None = None
    created: int = 0

    def start(self, count: int, *, name: ServiceId = CHAT, variant: str = "default", ready: bool = True) -> None:
        """Ask for ``count`` replicas and have them there (ready long ago) at once."""
        self.targets[name, variant] = count
        self.reconcile()
        if ready:
            for key, replica in self.replicas.items():
                if replica.service == name and replica.variant == variant:
                    self.replicas[key] = replace(replica, phase=Phase.READY, ready_s=self.now_s - 3600)

    def ready(self, name: ServiceId = CHAT) -> list[str]:
        return sorted(
            each.name for each in self.replicas.values() if each.service == name and each.phase is Phase.READY
        )

    def reconcile(self) -> None:
        """Replicas follow the targets: new ones start, ready after the boot time, surplus ones go at once."""
        for key, replica in list(self.replicas.items()):
            if replica.phase is Phase.STARTING and self.now_s - replica.created_s >= self.boot_s:
                self.replicas[key] = replace(replica, phase=Phase.READY, ready_s=replica.created_s + self.boot_s)
        for (name, variant), count in self.targets.items():
            mine = sorted(r.name for r in self.replicas.values() if (r.service, r.variant) == (name, variant))
            for gone in mine[count:]:
                del self.replicas[gone], self.engines[gone]
            for _ in range(count - len(mine)):
                self.created += 1
                key = f"{name}-{variant}-{self.created:04d}"
                self.replicas[key] = Replica(
                    name=key,
                    service=name,
                    variant=variant,
                    phase=Phase.STARTING,
                    created_s=self.now_s,
                    metrics_url="http://127.0.0.1/metrics",
                )
                self.engines[key] = Engine(started_s=self.now_s)

    def offer(self, requests: float, *, name: ServiceId = CHAT, late: float = 0.0) -> None:
        """Requests that arrive and are served since the last tick, spread over the ready replicas."""
        ready = self.ready(name)
        for key in ready:
            self.engines[key].serve(requests / len(ready), late=late / len(ready))

    def snapshot(self) -> ClusterSnapshot:
        return ClusterSnapshot(
            at_s=self.now_s,
            devices=self.devices,
            replicas=tuple(sorted(self.replicas.values(), key=lambda each: each.name)),
            targets=tuple(
                Target(service=name, variant=variant, replicas=count, foreign_owner=self.owner)
                for (name, variant), count in sorted(self.targets.items())
            ),
        )

    def observations(self) -> Observations:
        return Observations(
            at_s=self.now_s,
            engines={
                key: self.engines[key].reading(key, self.now_s)
                for key, replica in self.replicas.items()
                if replica.phase is Phase.READY
            },
            gateways=dict(self.gateways),
        )

    def decide(self, observations: Observations | None = None) -> Decision:
        """One decision on these observations, or on its own; targets follow it."""
        decision, self.state = decide(
            now_s=self.now_s,
            state=self.state,
            services=self.services,
            snapshot=self.snapshot(),
            observations=self.observations() if observations is None else observations,
            models=self.models,
            params=self.params,
        )
        for part in decision.services:
            for target in part.targets():
                self.targets[part.service, target.variant] = target.replicas
        return decision

    def tick(self, rps: float | dict[ServiceId, float] = 0.0, *, seconds: float | None = None) -> ServiceDecision:
        """Advance one interval under ``rps`` and decide; the first service's part is returned."""
        step_s = self.params.interval_s if seconds is None else seconds
        self.now_s += step_s
        rates = rps if isinstance(rps, dict) else {self.services[0].id: rps}
        for name, rate in rates.items():
            if self.ready(name):
                self.offer(rate * step_s, name=name)
        self.reconcile()
        decision = self.decide()
        self.reconcile()
        part = decision.of(self.services[0].id)
        assert part is not None
        return part

    def ticks(self, count: int, rps: float | dict[ServiceId, float] = 0.0) -> ServiceDecision:
        """Several ticks under the same load; the last decision."""
        part = self.tick(rps)
        for _ in range(count - 1):
            part = self.tick(rps)
        return part


def gateway(world: World, *, arrivals: float, waiting: float = 0.0, name: str = "chat") -> GatewayReading:
    """The figures of a gateway so far, all that is over in SLO."""
    return GatewayReading(
        service=name,
        at_s=world.now_s,
        started_s=1.0,
        arrivals=arrivals,
        finished=arrivals - waiting,
        failed=0.0,
        refused=0.0,
        waiting=waiting,
        in_flight=waiting,
        judged=arrivals - waiting,
        within_slo=arrivals - waiting,
        ttft=_EMPTY,
        itl=_EMPTY,
        e2e=_EMPTY,
    )
