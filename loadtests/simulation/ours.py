"""The shipped controller as the one who decides: composed as ever, on the ports of a simulated world."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from adapters.simulation.faults import FaultKind
from autoscaler.compose import build_controller, build_models
from autoscaler.config import Settings
from autoscaler.config.loading import load_text
from autoscaler.controller import Fault, Ports
from autoscaler.domain.params import Plans
from autoscaler.domain.plan import ServiceDecision
from autoscaler.domain.service import Service, ServiceId
from autoscaler.domain.state import Tick
from autoscaler.ports import Models
from loadtests.simulation.journal import HandoverJournal
from loadtests.simulation.setup import FluidServing, Setup
from loadtests.simulation.stated_capacity import StatedCapacity
from loadtests.simulation.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Ours:
    """The controller as configured. ``text``: a user's configuration file, of which the first service counts; its SLO,
    its bounds and its variants are those of the setup, the same for whoever decides.

    ``stated``: requests/s of one replica, by variant, in place of what is learned; None: learned (from engines), or
    the truth times ``capacity_error`` (of a fluid fleet, which shows nothing to learn from).
    """

    text: str
    stated: Mapping[str, float] | None = None
    capacity_error: float = 1.0

    def settings(self) -> Settings:
        """The parsed file. Raises ConfigError."""
        return load_text(self.text.encode(), source="the configuration", folder=Path()).settings


# No more than has to be given: everything else is as shipped.
SHIPPED = Ours(text="services: [{name: service, slo: {ttft: 2s}, command: 'serve --port {port}'}]")


@dataclass(slots=True)
class Told:
    """The Observer and DecisionStore of a run: what went wrong, and what was decided (to whoever wants to hear)."""

    listener: Callable[[ServiceDecision], None] | None = None
    ticks: int = 0
    faults: Counter[Fault] = field(default_factory=Counter)
    errors: list[Exception] = field(default_factory=list)

    def ticked(self, tick: Tick, *, took_s: float) -> None:
        """One more."""
        self.ticks += 1

    def fault(self, fault: Fault, service: ServiceId | None, error: Exception) -> None:
        """Count it; what nobody expects is kept."""
        self.faults[fault] += 1
        if fault is Fault.UNEXPECTED:
            self.errors.append(error)

    def publish(self, decision: ServiceDecision) -> None:
        """Pass it on."""
        if self.listener is not None:
            self.listener(decision)


def control(world: World, ours: Ours, *, told: Told) -> None:
    """Run the controller to the end of the run, or one after another where the leader changes."""
    setup, begin_s = world.setup, world.clock.begin_s
    settings = ours.settings()
    plans = Plans(
        services=tuple(_service(settings, part.service, part.setup) for part in world.parts), params=settings.params
    )
    ports = Ports(
        clock=world.clock,
        inventory=world.inventory,
        metrics=world.source(setup.scraping),
        actuator=world.actuator,
        store=told,
        journal=HandoverJournal(),
        observer=told,
    )
    world.hang_doorbells()
    changes = sorted((each.from_s, each.until_s) for each in setup.faults if each.kind is FaultKind.LEADER_CHANGE)
    for ends_s, next_s in [*changes, (setup.duration_s, setup.duration_s)]:
        build_controller(ports=ports, plans=lambda: plans, models=_models(ours, world)).run(until_s=begin_s + ends_s)
        world.clock.let_pass(begin_s + next_s)


def _service(settings: Settings, service: ServiceId, setup: Setup) -> Service:
    """The configured service in this world: its variants' prices and names are those that exist here."""
    configured = settings.settled(()).services[0]
    known = {variant.name: variant for variant in configured.variants}
    variants = tuple(
        replace(known.get(kind.variant, configured.variants[0]), name=kind.variant, cost=kind.cost, devices=None)
        for kind in setup.kinds
    )
    bounds = replace(setup.bounds, spare=configured.bounds.spare)
    return replace(configured, id=service, slo=setup.slo, bounds=bounds, variants=variants)


def _models(ours: Ours, world: World) -> Models:
    shipped = build_models()
    if ours.stated is not None:
        return replace(shipped, capacity=StatedCapacity(ours.stated))
    rates: dict[str, float] = {}
    for part in world.parts:
        serving = part.setup.serving
        if not isinstance(serving, FluidServing):
            return shipped
        for kind in part.setup.kinds:
            rps = serving.model.capacity_rps * serving.weights.get(kind.variant, 1.0) * ours.capacity_error
            if rates.setdefault(kind.variant, rps) != rps:
                raise ValueError(f"two services have a variant {kind.variant!r}, of different capacity")
    return replace(shipped, capacity=StatedCapacity(rates))
