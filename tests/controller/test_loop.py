"""The loop on a clock that jumps: rhythm, wake-ups, and that no part's failure ends it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from autoscaler.compose import build_models
from autoscaler.controller import Controller, Fault, Ports
from autoscaler.domain.cluster import ClusterSnapshot, Target
from autoscaler.domain.params import Params, Plans
from autoscaler.domain.plan import Hold, Plan, Reason, ServiceDecision, VariantTarget
from autoscaler.domain.reading import GatewayReading, Histogram, Observations
from autoscaler.domain.service import Bounds, Service, ServiceId, Slo, Variant
from autoscaler.domain.state import ControllerState, Tick
from autoscaler.ports import RefusedError, UnavailableError

CHAT = ServiceId("chat")
NONE = Histogram((1.0,), (0.0,), 0.0, 0.0)


@dataclass
class JumpingClock:
    """Waiting is jumping; ``wakes`` are moments at which a wait ends early."""

    at_s: float = 1000.0
    wakes: list[float] = field(default_factory=list)

    def now_s(self) -> float:
        return self.at_s

    def wait_until(self, at_s: float) -> None:
        early = [wake for wake in self.wakes if self.at_s < wake < at_s]
        self.at_s = max(self.at_s, min([at_s, *early]))


@dataclass
class MemoryWorld:
    """Inventory, metrics, actuator, store, journal and observer that remember what they were told."""

    clock: JumpingClock = field(default_factory=JumpingClock)
    replicas: int = 0
    arrivals: float = 0.0
    waiting: float = 0.0
    tick_takes_s: float = 0.0
    failing: set[str] = field(default_factory=set)
    published: list[ServiceDecision] = field(default_factory=list)
    recorded: list[Tick] = field(default_factory=list)
    scaled: list[tuple[float, int]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    ticks: list[float] = field(default_factory=list)
    asked: int = 0
    kept: ControllerState | None = None

    def snapshot(self) -> ClusterSnapshot:
        if "inventory" in self.failing:
            raise UnavailableError("no inventory")
        target = Target(service=CHAT, variant="default", replicas=self.replicas)
        return ClusterSnapshot(at_s=self.clock.at_s, devices=(), replicas=(), targets=(target,))

    def read(self, snapshot: ClusterSnapshot) -> Observations:
        if "metrics" in self.failing:
            raise RuntimeError("a bug in an adapter")
        self.clock.at_s += self.tick_takes_s
        reading = GatewayReading(
            service=CHAT,
            at_s=self.clock.at_s,
            started_s=1.0,
            arrivals=self.arrivals,
            finished=0.0,
            failed=0.0,
            refused=0.0,
            waiting=self.waiting,
            in_flight=self.waiting,
            judged=0.0,
            within_slo=0.0,
            ttft=NONE,
            itl=NONE,
            e2e=NONE,
        )
        return Observations(at_s=self.clock.at_s, engines={}, gateways={CHAT: reading})

    def scale(self, service: ServiceId, targets: Sequence[VariantTarget]) -> None:
        if "actuator" in self.failing:
            raise RefusedError("quota")
        self.replicas = sum(target.replicas for target in targets)
        self.scaled.append((self.clock.at_s, self.replicas))

    def publish(self, decision: ServiceDecision) -> None:
        if "store" in self.failing:
            raise UnavailableError("no store")
        self.published.append(decision)

    def restore(self) -> ControllerState | None:
        return self.kept

    def record(self, tick: Tick, plans: Plans, next_state: ControllerState) -> None:
        if "journal" in self.failing:
            raise RefusedError("disk full")
        self.recorded.append(tick)
        self.kept = next_state

    def ticked(self, tick: Tick, *, took_s: float) -> None:
        self.ticks.append(tick.now_s)

    def fault(self, fault: Fault, service: ServiceId | None, error: Exception) -> None:
        self.faults.append(fault)


def controller(world: MemoryWorld, *, interval_s: float = 10.0) -> Controller:
    chat = Service(
        id=CHAT,
        slo=Slo(ttft_s=1.0),
        variants=(Variant(name="default"),),
        bounds=Bounds(min_replicas=0, max_replicas=4),
    )

    def plans() -> Plans:
        world.asked += 1
        return Plans(services=(chat,), params=Params(interval_s=interval_s))

    return Controller(
        ports=Ports(
            clock=world.clock,
            inventory=world,
            metrics=world,
            actuator=world,
            store=world,
            journal=world,
            observer=world,
        ),
        models=build_models(),
        plans=plans,
    )


def test_ticks_come_at_the_interval() -> None:
    world = MemoryWorld()
    controller(world).run(until_s=1045.0)
    assert world.ticks == [1000.0, 1010.0, 1020.0, 1030.0, 1040.0]


def test_each_tick_asks_once_what_there_is_to_do() -> None:
    world = MemoryWorld()
    controller(world).run(until_s=1045.0)
    assert world.asked == len(world.ticks) == 5


def test_a_slow_tick_delays_the_next_and_none_queue_up() -> None:
    world = MemoryWorld(tick_takes_s=25.0)
    controller(world).run(until_s=1080.0)
    assert world.ticks == [1025.0, 1050.0, 1075.0, 1100.0]


def test_a_wake_up_brings_the_tick_forward_and_the_request_is_answered_in_it() -> None:
    world = MemoryWorld()
    loop = controller(world)
    loop.run(until_s=1015.0)
    world.clock.wakes = [1022.5]
    world.arrivals, world.waiting = 1.0, 1.0
    world.clock.at_s = 1020.1
    loop.run(until_s=1020.1)
    assert world.scaled[-1] == (1020.1, 1)
    world.clock.wait_until(1030.0)
    assert world.clock.at_s == 1022.5


@pytest.mark.parametrize(
    ("failing", "fault"),
    [
        pytest.param("inventory", Fault.INVENTORY, id="inventory"),
        pytest.param("metrics", Fault.UNEXPECTED, id="metrics"),
        pytest.param("actuator", Fault.ACTUATION, id="actuator"),
        pytest.param("store", Fault.PUBLICATION, id="store"),
        pytest.param("journal", Fault.JOURNAL, id="journal"),
    ],
)
def test_a_failing_part_is_reported_and_the_loop_recovers(failing: str, fault: Fault) -> None:
    world = MemoryWorld(failing={failing}, arrivals=5.0, waiting=5.0)
    loop = controller(world)
    loop.run(until_s=1025.0)
    assert set(world.faults) == {fault}
    world.failing.clear()
    world.faults.clear()
    loop.run(until_s=world.clock.at_s + 25.0)
    assert world.faults == []
    assert world.replicas >= 1
    assert world.published
    assert world.recorded


def test_without_an_inventory_nothing_is_changed() -> None:
    world = MemoryWorld(failing={"inventory"}, replicas=3)
    assert controller(world).tick() is None
    assert world.scaled == []


def test_memory_is_restored_from_the_journal() -> None:
    world = MemoryWorld(arrivals=5.0)
    controller(world).run(until_s=1025.0)
    again = controller(world)
    assert again.state is world.kept


def test_an_unchanged_target_is_not_written_again() -> None:
    world = MemoryWorld(arrivals=1.0, waiting=1.0)
    controller(world).run(until_s=1060.0)
    assert [count for _, count in world.scaled] == [1]


def test_every_decision_says_what_was_decided_and_why() -> None:
    world = MemoryWorld()
    controller(world).run(until_s=1015.0)
    first, second = world.published
    assert isinstance(first.outcome, Hold)
    assert first.outcome.reason is Reason.UNKNOWN_DEMAND
    assert isinstance(second.outcome, Plan)
