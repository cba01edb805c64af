"""What the leader among the controller's replicas does, from its election to the loss of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from types import TracebackType

from adapters.engines.gateway_scraper import GatewayScraper
from adapters.engines.pods import PodScraper
from adapters.engines.triton_statistics import WithStatistics
from adapters.gpus.watching import DeviceWatch
from adapters.kubernetes.collections import WatchedCluster
from adapters.kubernetes.connection import KubernetesApi
from adapters.kubernetes.contents import ObjectKey
from adapters.kubernetes.count_history import CountHistories
from adapters.kubernetes.events import EventRecorder
from adapters.kubernetes.foreign_scalers import ForeignScalers
from adapters.kubernetes.gateways import GatewayPods
from adapters.kubernetes.gpu_exporters import GpuExporters
from adapters.kubernetes.inventory import KubernetesInventory
from adapters.kubernetes.resources import WatchedResources
from adapters.kubernetes.scaling import KubernetesActuator
from adapters.kubernetes.status_conditions import Circumstances
from adapters.kubernetes.status_store import StatusStore
from adapters.kubernetes.surroundings import Judges
from adapters.kubernetes.targets import Targets
from adapters.prometheus.settings import PrometheusSettings
from adapters.prometheus.source import PrometheusSource
from adapters.serving.store import DecisionBoard
from adapters.wallclock import WallClock
from autoscaler.compose import JoinedSource, build_controller
from autoscaler.config.kubernetes_settings import KubernetesSettings, ScrapeSettings
from autoscaler.controller import Controller, Ports
from autoscaler.domain.cluster import ClusterSnapshot, Replica
from autoscaler.domain.params import Params, Plans
from autoscaler.domain.plan import ServiceDecision
from autoscaler.domain.reading import EngineReading, Observations, is_known
from autoscaler.domain.resource import AutoscalerResource, RefusedResource, ResourceProblem
from autoscaler.domain.service import Engine, Service, ServiceId, StatisticsApi
from autoscaler.exporter_reading import ExporterReader
from autoscaler.kubernetes_telling import Telling
from autoscaler.ports import Journal, MetricsSource, PortError
from autoscaler.reporting import Reporter
from autoscaler.through_prometheus import open_source

_log = logging.getLogger(__name__)
_TARGETS_S = 10.0


class Leading:
    """One leadership: its controller with all that it needs, as a context manager; ``run`` ends after ``stop``."""

    def __init__(
        self,
        api: KubernetesApi,
        *,
        settings: KubernetesSettings,
        params: Callable[[], Params],
        resources: WatchedResources,
        cluster: WatchedCluster,
        board: DecisionBoard,
        journal: Journal,
        events: EventRecorder,
        clock: WallClock,
        leads: Callable[[], bool],
        namespace: str | None,
        prometheus: PrometheusSettings | None,
    ) -> None:
        """``namespace``: the controller's own, None where it is not known. ``prometheus``: what replicas are read
        through, None where they are read directly.
        """
        self._resources = resources
        self._params = params
        self._interval_s = params().interval_s
        self._board = board
        self._clock = clock
        self._configured: tuple[Service, ...] | None = None
        self._telling = Telling(events)
        with ExitStack() as opened:
            scalers = ForeignScalers(api, now_s=clock.now_s)
            scalers.start()
            opened.callback(scalers.close)
            targets = Targets(api, now_s=clock.now_s)
            opened.callback(targets.close)
            self._engines: dict[ServiceId, Engine] = {}
            scraper = self._scraper(prometheus, settings.scrape)
            opened.callback(scraper.close)
            self._statistics: dict[ServiceId, StatisticsApi] = {}
            engines = WithStatistics(scraper, apis=self._statistics)
            opened.callback(engines.close)
            gateways = GatewayPods(
                resources=resources.usable, pods=cluster.views.pods, namespace=namespace, now_s=clock.now_s
            )
            counting = GatewayScraper(
                clock=clock, gateways=gateways.pages, wake=clock.wake, timeout_s=settings.scrape.timeout_s
            )
            opened.callback(counting.close)
            self._readings = RememberedReadings(JoinedSource([engines, counting]))
            histories = CountHistories()
            self._judges = Judges(
                resources=resources.usable,
                targeted=targets.latest,
                scalers=scalers.all,
                pods=cluster.views.pods,
                in_flight=self._readings.in_flight,
                histories=histories,
                now_s=clock.now_s,
                last_asked=self._last_asked,
                changed=self._telling.changed_by_others,
            )
            exporters = GpuExporters(cluster.views.pods, cluster.views.nodes)
            pages = ExporterReader(exporters.pages, timeout_s=settings.scrape.timeout_s)
            gpus = opened.enter_context(DeviceWatch(pages.read, now_s=clock.now_s))
            self._inventory = KubernetesInventory(
                resources=resources.usable,
                targets=targets,
                views=cluster.views,
                now_s=clock.now_s,
                standing=self._judges.standing,
                node_autoscaling=settings.node_autoscaling,
                broken=gpus.broken,
            )
            self._store = StatusStore(
                api,
                resources=resources,
                circumstances=self._circumstances,
                stale_after_s=self._stale_after_s,
                leads=leads,
                now_s=clock.now_s,
            )
            self._store.start()
            opened.callback(self._store.close)
            actuator = KubernetesActuator(
                api,
                surroundings=self._judges,
                histories=histories,
                now_s=clock.now_s,
                leads=leads,
                notify=self._telling.noticed,
            )
            self._controller: Controller = build_controller(
                ports=Ports(
                    clock=clock,
                    inventory=self._inventory,
                    metrics=self._readings,
                    actuator=actuator,
                    store=self,
                    journal=journal,
                    observer=Reporter(board),
                ),
                plans=self._plans,
            )
            self._opened = opened.pop_all()

    def __enter__(self) -> Leading:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()

    def run(self) -> None:
        """Decide until ``stop``."""
        # So that no status says of a target that it is not known, only because its watch has just begun.
        self._inventory.await_targets(_TARGETS_S)
        self._controller.run()

    def stop(self) -> None:
        """Let ``run`` return. Safe from any thread."""
        self._controller.stop()
        self._clock.wake()

    def publish(self, decision: ServiceDecision) -> None:
        """As the DecisionStore: on the board and in the resource's status."""
        self._board.publish(decision)
        self._store.publish(decision)
        resource = self._judges.resource(decision.service)
        if resource is not None:
            self._telling.decided(resource, decision)

    def _scraper(self, prometheus: PrometheusSettings | None, scrape: ScrapeSettings) -> PodScraper | PrometheusSource:
        if prometheus is not None:
            return open_source(
                prometheus,
                clock=self._clock,
                engines=self._engines,
                interval_s=lambda: self._params().interval_s,
            )
        return PodScraper(
            clock=self._clock,
            engines=self._engines,
            timeout_s=scrape.timeout_s,
            max_connections=scrape.max_connections,
        )

    def _plans(self) -> Plans:
        """The services that can be decided on now; of the others their statuses say why not."""
        services, params = self._inventory.services(), self._params()
        self._interval_s = params.interval_s
        self._engines.clear()
        self._engines.update({service.id: service.engine for service in services})
        self._statistics.clear()
        self._statistics.update({each.id: each.statistics for each in services if each.statistics})
        if services != self._configured:
            self._board.configure(services=services, stale_after_s=self._stale_after_s())
            self._configured = services
        try:
            self._store.publish_refusals(self._undecidable({service.id for service in services}))
        except PortError as error:
            _log.warning("refused resources can't be told so: %s", error)
        return Plans(services=services, params=params)

    def _undecidable(self, decided: set[ServiceId]) -> Mapping[ObjectKey, RefusedResource]:
        """Resources with a wrong spec, and those whose target is not there."""
        found: dict[ObjectKey, RefusedResource] = {}
        for key, view in self._resources.views().items():
            wanted = view.wanted
            if isinstance(wanted, RefusedResource):
                found[key] = wanted
            elif wanted.service.id not in decided:
                problems = self._inventory.problems(wanted.service.id) or ("its target is not known yet",)
                found[key] = RefusedResource(
                    namespace=wanted.namespace,
                    name=wanted.name,
                    uid=wanted.uid,
                    generation=wanted.generation,
                    problems=tuple(ResourceProblem(path="", message=problem) for problem in problems),
                )
        return found

    def _stale_after_s(self) -> float:
        return max(4 * self._interval_s, 30.0)

    def _circumstances(self, resource: AutoscalerResource, decision: ServiceDecision) -> Circumstances:
        service = resource.service.id
        owners = [self._judges.ownership(service, source.variant) for source in resource.sources]
        for owner in owners:
            for warning in owner.warnings:
                self._telling.warned(resource, warning)
        return Circumstances(
            unusable=self._inventory.problems(service),
            conflicts=tuple(owner.foreign_owner for owner in owners if owner.foreign_owner is not None),
            unschedulable=tuple(
                f"{each.name}: {each.detail}"
                for each in self._readings.replicas(service)
                if each.unschedulable_since_s is not None
                and decision.at_s - each.unschedulable_since_s >= resource.service.unschedulable_deadline_s
            ),
        )

    def _last_asked(self, resource: AutoscalerResource, variant: str) -> int | None:
        publication = self._resources.of(resource.namespace, resource.name)
        return dict(publication.targets).get(variant) if publication is not None else None


class RememberedReadings:
    """A MetricsSource that remembers its last answer, for whoever chooses among pods."""

    def __init__(self, source: MetricsSource) -> None:
        self._source = source
        self._snapshot: ClusterSnapshot | None = None
        self._observations: Observations | None = None

    def read(self, snapshot: ClusterSnapshot) -> Observations:
        """As the source reads."""
        self._snapshot = snapshot
        self._observations = self._source.read(snapshot)
        return self._observations

    def in_flight(self, replica: str) -> float | None:
        """Requests that it ran or held at the last look, None where that is not known."""
        reading = self._observations.engines.get(replica) if self._observations is not None else None
        if not isinstance(reading, EngineReading) or not is_known(reading.running) or not is_known(reading.waiting):
            return None
        return reading.running + reading.waiting

    def replicas(self, service: ServiceId) -> list[Replica]:
        """Those of the last snapshot."""
        if self._snapshot is None:
            return []
        return [each for each in self._snapshot.replicas if each.service == service]
