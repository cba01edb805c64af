"""The loop: wait, observe, decide, act, publish, record. The only loop, and the only catch-all around the world.

It knows the ports alone. What happens in a tick is the same live, in a dry run (an actuator that does nothing) and in
a simulation (a clock that jumps).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from autoscaler.domain.params import Params, Plans
from autoscaler.domain.plan import Decision, Plan
from autoscaler.domain.reading import Observations
from autoscaler.domain.service import Service, ServiceId
from autoscaler.domain.state import ControllerState, Tick
from autoscaler.policy.deciding import decide
from autoscaler.ports import (
    Clock,
    DecisionStore,
    Inventory,
    Journal,
    MetricsSource,
    Models,
    PortError,
    ReplicaActuator,
)

# Wake-ups bring ticks forward, but no closer together than this.
_LEAST_PAUSE_S = 0.2


class Fault(StrEnum):
    """What went wrong in a tick."""

    INVENTORY = "InventoryUnavailable"
    ACTUATION = "ActuationFailed"
    PUBLICATION = "PublicationFailed"
    JOURNAL = "JournalFailed"
    UNEXPECTED = "Unexpected"


class Observer(Protocol):
    """Who wants to hear of ticks (logs, metrics)."""

    def ticked(self, tick: Tick, *, took_s: float) -> None:
        """A tick was completed; ``took_s`` from its start to its decision's publication."""
        ...

    def fault(self, fault: Fault, service: ServiceId | None, error: Exception) -> None:
        """Something failed; the loop goes on."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The world, as the controller sees it."""

    clock: Clock
    inventory: Inventory
    metrics: MetricsSource
    actuator: ReplicaActuator
    store: DecisionStore
    journal: Journal
    observer: Observer


class Controller:
    """Runs ticks on its clock until told to stop."""

    def __init__(self, *, ports: Ports, models: Models, plans: Callable[[], Plans]) -> None:
        self._ports = ports
        self._models = models
        self._plans = plans
        self._state = ports.journal.restore() or ControllerState(services={})
        self._interval_s = Params().interval_s
        self._stopping = False

    @property
    def state(self) -> ControllerState:
        """The memory after the last tick."""
        return self._state

    def stop(self) -> None:
        """Let ``run`` return after the present tick (wake the clock too, or it sleeps to its end)."""
        self._stopping = True

    def run(self, until_s: float | None = None) -> None:
        """Tick every interval until ``until_s``, or for ever. A slow tick delays the next; none queue up."""
        next_s = earliest_s = self._ports.clock.now_s()
        while until_s is None or next_s <= until_s:
            self._ports.clock.wait_until(next_s)
            while not self._stopping and self._ports.clock.now_s() < earliest_s:
                self._ports.clock.wait_until(earliest_s)
            if self._stopping:
                return
            started_s = self._ports.clock.now_s()
            try:
                self.tick()
            except Exception as error:  # whatever a tick dies of, the next one gets its chance
                self._ports.observer.fault(Fault.UNEXPECTED, None, error)
            earliest_s = started_s + min(_LEAST_PAUSE_S, self._interval_s)
            # A wake-up brought this tick forward: the rhythm goes on from here.
            next_s = max(started_s + self._interval_s, self._ports.clock.now_s())

    def tick(self) -> Decision | None:
        """One round. None where even the inventory did not answer: then everything holds."""
        tick = self.observe_and_decide()
        if tick is None:
            return None
        tick_, next_state, plans = tick
        self._act(tick_.decision, plans.services)
        self._publish(tick_.decision)
        self._state = next_state
        try:
            self._ports.journal.record(tick_, plans, next_state)
        except PortError as error:
            self._ports.observer.fault(Fault.JOURNAL, None, error)
        self._ports.observer.ticked(tick_, took_s=self._ports.clock.now_s() - tick_.now_s)
        return tick_.decision

    def observe_and_decide(self) -> tuple[Tick, ControllerState, Plans] | None:
        """The first half of a tick, without effects: what was seen and what is decided."""
        ports, plans = self._ports, self._plans()
        self._interval_s = plans.params.interval_s
        try:
            snapshot = ports.inventory.snapshot()
        except PortError as error:
            ports.observer.fault(Fault.INVENTORY, None, error)
            return None
        observations: Observations = ports.metrics.read(snapshot)
        now_s = ports.clock.now_s()
        decision, next_state = decide(
            now_s=now_s,
            state=self._state,
            services=plans.services,
            snapshot=snapshot,
            observations=observations,
            models=self._models,
            params=plans.params,
        )
        tick = Tick(now_s=now_s, snapshot=snapshot, observations=observations, decision=decision)
        return tick, next_state, plans

    def _act(self, decision: Decision, services: Sequence[Service]) -> None:
        for part in decision.services:
            if isinstance(part.outcome, Plan) and part.outcome.targets != part.current:
                try:
                    self._ports.actuator.scale(part.service, part.outcome.targets)
                except PortError as error:
                    self._ports.observer.fault(Fault.ACTUATION, part.service, error)

    def _publish(self, decision: Decision) -> None:
        for part in decision.services:
            try:
                self._ports.store.publish(part)
            except PortError as error:
                self._ports.observer.fault(Fault.PUBLICATION, part.service, error)
