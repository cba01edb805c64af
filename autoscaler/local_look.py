"""Looking on: the controller over this machine's recorded fleet, beside a running one or alone, changing nothing."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType

from adapters.engines.pods import PodScraper
from adapters.gpus.nvml_library import load_nvml
from adapters.local.devices import find_devices
from adapters.local.gateway_client import GatewayClient
from adapters.local.gateway_ports import GatewaySource
from adapters.local.recording import Recording
from adapters.serving.store import DecisionBoard
from adapters.wallclock import WallClock
from autoscaler.compose import JoinedSource, NoJournal, build_controller
from autoscaler.config import Settings
from autoscaler.controller import Controller, Ports
from autoscaler.domain.cluster import ClusterSnapshot, Device
from autoscaler.domain.params import Plans
from autoscaler.domain.plan import Decision, VariantTarget
from autoscaler.domain.service import ServiceId
from autoscaler.ports import UnavailableError
from autoscaler.reporting import Reporter


class RecordedFleet:
    """Inventory: the fleet as the controller that owns it last recorded it."""

    def __init__(self, recording: Recording, devices: Sequence[Device], clock: WallClock) -> None:
        self._recording = recording
        self._devices = tuple(devices)
        self._clock = clock

    def snapshot(self) -> ClusterSnapshot:
        """Raises PortError where no fleet is recorded."""
        return self._recording.fleet(at_s=self._clock.now_s(), devices=self._devices)


class HandsOff:
    """A ReplicaActuator that changes nothing."""

    def scale(self, service: ServiceId, targets: Sequence[VariantTarget]) -> None:
        """Leave everything as it is."""


class Onlooker:
    """A controller that only looks; its memory begins empty. A context manager."""

    def __init__(self, settings: Settings) -> None:
        self._clock = WallClock()
        found = settings.devices
        devices = found if found is not None else find_devices(load_nvml(), visible=None).devices
        settings = settings.settled(devices)
        self._plans = Plans(services=settings.services, params=settings.params)
        gateway = GatewayClient(settings.state_dir / "gateway.sock")
        with ExitStack() as opened:
            engines = {service.id: service.engine for service in settings.services}
            scraper = opened.enter_context(PodScraper(clock=self._clock, engines=engines))
            board = DecisionBoard(services=settings.services, stale_after_s=60.0)
            self._fleet = RecordedFleet(Recording(settings.state_dir), devices, self._clock)
            self._controller: Controller = build_controller(
                ports=Ports(
                    clock=self._clock,
                    inventory=self._fleet,
                    metrics=JoinedSource([scraper, GatewaySource(gateway, self._clock)]),
                    actuator=HandsOff(),
                    store=board,
                    journal=NoJournal(),
                    observer=Reporter(board),
                ),
                plans=lambda: self._plans,
            )
            self._opened = opened.pop_all()

    def __enter__(self) -> Onlooker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()

    def once(self, *, after_s: float) -> Decision:
        """Decide from two observations ``after_s`` apart: rates need two. Raises PortError where there is no fleet."""
        self._fleet.snapshot()
        self._controller.tick()
        self._clock.wait_until(self._clock.now_s() + after_s)
        decision = self._controller.tick()
        if decision is None:
            raise UnavailableError("the recorded fleet was lost meanwhile")
        return decision

    def run(self) -> None:
        """Decide at every interval and log what would change, until ``stop``. Raises PortError as ``once``."""
        self._fleet.snapshot()
        self._controller.run()

    def stop(self) -> None:
        """Let ``run`` return. Safe in a signal handler."""
        self._controller.stop()
        self._clock.wake()
