"""The whole of it on this machine: state directory, gateway, replicas, scraping, API, and the controller over them."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from types import TracebackType

from adapters.engines.pods import PodScraper
from adapters.engines.triton_statistics import WithStatistics
from adapters.gpus.nvml import NvmlReader
from adapters.gpus.nvml_library import Nvml, load_nvml
from adapters.gpus.watching import DeviceWatch
from adapters.local.cluster import LocalCluster
from adapters.local.device_health import with_health
from adapters.local.devices import find_devices
from adapters.local.gateway_keeping import GatewayKeeper
from adapters.local.gateway_ports import GatewayRoutes, GatewaySource
from adapters.local.gateway_process import GatewayProcess
from adapters.local.journal import SqliteJournal
from adapters.local.recording import Recording
from adapters.local.state_directory import StateDirectory
from adapters.prometheus.source import PrometheusSource
from adapters.serving.api import create_app
from adapters.serving.server import ApiServer
from adapters.serving.store import DecisionBoard
from adapters.wallclock import WallClock
from autoscaler.compose import JoinedSource, build_controller, build_models
from autoscaler.config import ConfigFile, Refused, Settings
from autoscaler.controller import Controller, Ports
from autoscaler.domain.cluster import Device
from autoscaler.domain.gpu_reading import OwnedDevice
from autoscaler.domain.params import Plans
from autoscaler.domain.plan import ServiceDecision
from autoscaler.domain.service import Engine, ServiceId, StatisticsApi
from autoscaler.policy.device_attribution import owned
from autoscaler.ports import Journal, PortError
from autoscaler.reporting import Reporter
from autoscaler.through_prometheus import SeededJournal, open_source, past_of_models

_log = logging.getLogger("local")
_GATEWAY_GRACE_S = 60.0
_PREFILL_S = 7200.0
_PREFILL_DECISIONS = 3000


class StateHistory:
    """The API's DecisionHistory, read from the state file."""

    def __init__(self, directory: Path) -> None:
        self._recording = Recording(directory)

    def decisions(self, service: ServiceId, since_s: float, until_s: float, limit: int) -> Sequence[ServiceDecision]:
        """The newest ``limit`` decisions in [since_s, until_s], oldest first. Raises PortError."""
        return self._recording.decisions(service, since_s=since_s, until_s=until_s, limit=limit)


class LocalRun:
    """Everything that ``gpu-autoscaler run`` starts, as a context manager; ``run`` returns after ``stop``."""

    def __init__(self, config: ConfigFile, *, leave_running: bool) -> None:
        """Open everything in the order in which it depends on one another. Raises PortError where a part can't be.

        ``leave_running``: at the end, leave the replicas and the gateway as they are.
        """
        self._config = config
        self._clock = WallClock()
        self._leave_running = leave_running or not config.settings.stop_replicas_on_exit
        with ExitStack() as opened:
            settings = config.settings
            state = StateDirectory(settings.state_dir, now_s=self._clock.now_s)
            opened.callback(state.close)
            nvml = load_nvml()
            self._devices = _devices(settings, nvml)
            self._healthy = self._devices
            self._gpus = _watched(nvml, opened, now_s=self._clock.now_s)
            self.settings = settings.settled(self._devices)
            gateway = GatewayProcess(directory=state.path, settings=settings.gateway)
            self._routes = GatewayRoutes(gateway.client, self.settings.routes)
            self._keeper = GatewayKeeper(gateway, self._routes, on_demand=self._clock.wake)
            self._keeper.start()
            opened.callback(self._close_gateway)
            self._cluster = LocalCluster(
                state=state,
                templates=self.settings.templates,
                devices=self._devices,
                clock=self._clock,
                routes=self._routes,
                environ=os.environ,
            )
            opened.callback(lambda: self._cluster.close(leave_running=self._leave_running))
            self._engines: dict[ServiceId, Engine] = {}
            scraper = self._scraper()
            opened.callback(scraper.close)
            self._statistics: dict[ServiceId, StatisticsApi] = {}
            engines = WithStatistics(scraper, apis=self._statistics)
            opened.callback(engines.close)
            journal = SqliteJournal(state.database, now_s=self._clock.now_s, retention=settings.retention)
            opened.callback(self._close_journal, journal)
            self.board = DecisionBoard(services=(), stale_after_s=60.0)
            history = StateHistory(state.path)
            api = create_app(
                board=self.board,
                history=history,
                settings=settings.api,
                now_s=self._clock.now_s,
                version=version("gpu-autoscaler"),
                devices=self._owned,
            )
            self.api = ApiServer(api, settings.api)
            self.controller: Controller = build_controller(
                ports=Ports(
                    clock=self._clock,
                    inventory=self._cluster,
                    metrics=JoinedSource([engines, GatewaySource(gateway.client, self._clock)]),
                    actuator=self._cluster,
                    store=self.board,
                    journal=self._with_a_past(journal),
                    observer=Reporter(self.board),
                ),
                plans=self._plans,
            )
            self._use(self.settings)
            self._prefill(history)
            self.api.start()
            opened.callback(self.api.stop)
            self._opened = opened.pop_all()
        for notice in (*self._cluster.notices, *self.settings.warnings):
            _log.warning(notice)

    def __enter__(self) -> LocalRun:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()

    def run(self) -> None:
        """Keep the services until ``stop``."""
        self._cluster.start()
        self.controller.run()

    def stop(self) -> None:
        """Let ``run`` return. Safe in a signal handler."""
        self.controller.stop()
        self._clock.wake()

    def _scraper(self) -> PodScraper | PrometheusSource:
        prometheus = self.settings.prometheus
        if prometheus is None:
            return PodScraper(clock=self._clock, engines=self._engines)
        return open_source(
            prometheus,
            clock=self._clock,
            engines=self._engines,
            interval_s=lambda: self._in_force.params.interval_s,
        )

    def _with_a_past(self, journal: Journal) -> Journal:
        settings = self.settings
        if settings.prometheus is None:
            return journal
        models = {route.service: route.models for route in settings.routes}
        return SeededJournal(
            journal,
            settings.prometheus,
            services=lambda: [(each, past_of_models(each, models[each.id])) for each in settings.services],
            params=lambda: settings.params,
            models=build_models(),
            now_s=self._clock.now_s,
        )

    def _plans(self) -> Plans:
        """The services and parameters in force, after taking in a changed configuration file."""
        news = self._config.poll()
        if isinstance(news, Refused):
            _log.error("the changed configuration is refused, the one before stays: %s", news.error)
        elif news is not None:
            self._use(news.settings.settled(self._devices))
            _log.info("configuration reloaded")
            if news.waiting:
                _log.warning("changed, but used only after a restart: %s", ", ".join(news.waiting))
        self._notice_health()
        return self._in_force

    def _notice_health(self) -> None:
        """Devices that broke, or are well again, since the last time."""
        found = with_health(self._devices, self._gpus.broken() if self._gpus is not None else ())
        if found != self._healthy:
            self._healthy = found
            self._place()

    def _owned(self) -> tuple[OwnedDevice, ...]:
        """This machine's GPUs and who has them."""
        if self._gpus is None:
            return ()
        return owned(self._gpus.latest().devices, self._cluster.snapshot().replicas, self._gpus.broken())

    def _use(self, settings: Settings) -> None:
        self.settings = settings
        self._in_force = Plans(services=settings.services, params=settings.params)
        self._engines.update({service.id: service.engine for service in settings.services})
        self._statistics.clear()
        self._statistics.update({each.id: each.statistics for each in settings.services if each.statistics})
        self.board.configure(services=settings.services, stale_after_s=max(4 * settings.params.interval_s, 10.0))
        self._place()

    def _place(self) -> None:
        """Tell the cluster what to start, and on what."""
        try:
            self._cluster.configure(self.settings.templates, self._healthy)
            self._routes.set_policies(self.settings.routes)
        except PortError as error:
            _log.error("a part of the configuration can't be applied: %s", error)

    def _prefill(self, history: StateHistory) -> None:
        now_s = self._clock.now_s()
        each = max(1, _PREFILL_DECISIONS // max(1, len(self.settings.services)))
        for service in self.settings.services:
            try:
                self.board.prefill(history.decisions(service.id, now_s - _PREFILL_S, now_s, each))
            except PortError as error:
                _log.warning("the past of %s can't be shown: %s", service.id, error)

    def _close_gateway(self) -> None:
        self._keeper.close(leave_running=self._leave_running, grace_s=_GATEWAY_GRACE_S)

    @staticmethod
    def _close_journal(journal: SqliteJournal) -> None:
        try:
            journal.close()
        except PortError as error:
            _log.error("the latest memory could not be kept: %s", error)


def _devices(settings: Settings, nvml: Nvml | None) -> Sequence[Device]:
    """The declared devices, or those found on the machine."""
    if settings.devices is not None:
        return settings.devices
    found = find_devices(nvml, visible=os.environ.get("CUDA_VISIBLE_DEVICES"))
    for note in found.notes:
        _log.info(note)
    return found.devices


def _watched(nvml: Nvml | None, opened: ExitStack, *, now_s: Callable[[], float]) -> DeviceWatch | None:
    """A watch over this machine's GPUs, None where the driver knows none."""
    if nvml is None or not find_devices(nvml, visible=None).devices:
        return None
    reader = NvmlReader(nvml)
    opened.callback(reader.close)
    return opened.enter_context(DeviceWatch(lambda at_s: reader.read(at_s=at_s), now_s=now_s))
