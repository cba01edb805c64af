"""``gpu-autoscaler gateway``: a gateway in a pod of its own, with its routes kept as the cluster has them.

The gateway is a process beside this one, so that requests go on whatever becomes of the API server or of this process.
Routes follow the watches: a pod gets requests as soon as the API server tells that it is ready, and no new ones once it
is being deleted. While the API server is away the last routes stay.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from adapters.kubernetes.collections import PODS
from adapters.kubernetes.pods import pod_view
from adapters.kubernetes.resources import WatchedResources
from adapters.kubernetes.serving_pods import ServingPods
from adapters.kubernetes.targets import Targets
from adapters.kubernetes.watching import Watched
from adapters.local.gateway_keeping import GatewayKeeper
from adapters.local.gateway_ports import GatewayRoutes
from adapters.local.gateway_process import GatewayProcess
from adapters.local.routes import Endpoint
from adapters.local.template import GatewaySettings, RoutePolicy
from adapters.wallclock import WallClock
from autoscaler.cluster_access import connect
from autoscaler.config import ConfigFile
from autoscaler.config.kubernetes_settings import ClusterGatewaySettings, KubernetesSettings
from autoscaler.config.resource_reading import parse_resource
from autoscaler.domain.reading import GatewayReading
from autoscaler.domain.resource import AutoscalerResource
from autoscaler.ports import PortError, RefusedError

_log = logging.getLogger(__name__)
# Changes are put together for so long; and looked for after so long where none was told.
_GATHER_S = 0.05
_LOOK_S = 1.0


class GatewayRun:
    """A gateway and what keeps its routes, as a context manager; ``run`` returns after ``stop``."""

    def __init__(self, config: ConfigFile, settings: KubernetesSettings) -> None:
        """Start the gateway and follow the cluster. Raises PortError where a part can't be had.

        A cluster that does not answer is waited for; until it does the gateway says that it is not ready.
        """
        self._clock = WallClock()
        self._stopping = False
        self._grace_s = settings.gateway.grace_s
        self._policies: tuple[RoutePolicy, ...] = ()
        self._endpoints: tuple[Endpoint, ...] | None = None
        self._told: frozenset[str] = frozenset()
        with ExitStack() as opened:
            api = connect(settings)
            directory = config.settings.state_dir
            _make(directory)
            gateway = GatewayProcess(
                directory=directory, settings=_listening(settings.gateway), log_path=_own_standard_error()
            )
            self._client = gateway.client
            self._routes = GatewayRoutes(gateway.client, ())
            self._keeper = GatewayKeeper(gateway, self._routes, on_demand=lambda: None)
            self.identity = self._keeper.start()
            opened.callback(self._close_gateway)
            now_s, changed = self._clock.now_s, self._clock.wake
            self._resources = WatchedResources(api, parse=parse_resource, namespaces=settings.namespaces, now_s=now_s)
            self._resources.subscribe(changed)
            self._resources.start()
            opened.callback(self._resources.close)
            only = settings.namespaces[0] if len(settings.namespaces) == 1 else None
            pods = PODS if only is None else PODS.within(only)
            self._pods = Watched(api, pods, pod_view, now_s=now_s)
            self._pods.subscribe(changed)
            self._pods.start()
            opened.callback(self._pods.close)
            targets = Targets(api, now_s=now_s, namespace=only, changed=changed)
            opened.callback(targets.close)
            self._serving = ServingPods(targets=targets, pods=self._pods)
            self._opened = opened.pop_all()

    def __enter__(self) -> GatewayRun:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()

    def run(self) -> None:
        """Keep the routes until ``stop``, and then for those whose request is held, as long as the grace lasts."""
        while not self._stopping:
            self._follow()
        ends_s = self._clock.now_s() + self._grace_s
        while self._clock.now_s() < ends_s and self._holds_requests():
            self._follow()
        self._grace_s = max(0.0, ends_s - self._clock.now_s())

    def stop(self) -> None:
        """Let ``run`` return. Safe in a signal handler."""
        self._stopping = True
        self._clock.wake()

    def _follow(self) -> None:
        """Set the routes, and return when they may have changed."""
        try:
            self._route()
        except PortError as error:
            self._tell([f"the routes stay as they are: {error}"])
        seen_s = self._clock.now_s()
        self._clock.wait_until(seen_s + _LOOK_S)
        while not self._stopping and self._clock.now_s() < seen_s + _GATHER_S:
            self._clock.wait_until(seen_s + _GATHER_S)

    def _holds_requests(self) -> bool:
        try:
            readings = self._client.readings(self._clock.now_s())
        except PortError:
            return False
        return any(isinstance(each, GatewayReading) and each.waiting > 0 for each in readings.values())

    def _close_gateway(self) -> None:
        self._keeper.close(leave_running=False, grace_s=self._grace_s)

    def _route(self) -> None:
        resources = routed(self._resources.usable())
        policies, clashes = policies_of(resources)
        serving = self._serving.of(resources)
        endpoints = tuple(
            Endpoint(service=each.service, replica=each.name, url=each.url, accepting=each.accepting)
            for each in serving.pods
        )
        if policies != self._policies:
            self._routes.set_policies(policies)
            self._policies = policies
            self._endpoints = None
        if endpoints != self._endpoints:
            self._routes.set_routes(endpoints)
            self._endpoints = endpoints
        problems = [f"{service}: {problem}" for service, told in serving.problems.items() for problem in told]
        self._tell([*clashes, *problems])

    def _tell(self, problems: Sequence[str]) -> None:
        """Each once, until it is over."""
        for problem in problems:
            if problem not in self._told:
                _log.warning(problem)
        self._told = frozenset(problems)


def routed(resources: Sequence[AutoscalerResource]) -> list[AutoscalerResource]:
    """Those with a gateway, the older first."""
    return sorted(
        (resource for resource in resources if resource.gateway is not None),
        key=lambda resource: (resource.created_s, resource.service.id),
    )


def policies_of(resources: Sequence[AutoscalerResource]) -> tuple[tuple[RoutePolicy, ...], list[str]]:
    """How each is to be treated, and which model names two of them claim; the first of them has such a name.

    A service that is left without a name is still reached by the service header.
    """
    owners: dict[str, str] = {}
    policies, clashes = [], []
    for resource in resources:
        service, requests = resource.service, resource.requests
        models = []
        for model in requests.models or (resource.name,):
            owner = owners.setdefault(model, service.id)
            if owner == service.id:
                models.append(model)
            else:
                clashes.append(
                    f"{service.id}: {owner} is older and serves the model {model} too, so it gets its requests; give "
                    "one of them another name (spec.models)"
                )
        policies.append(
            RoutePolicy(
                service=service.id,
                models=tuple(models),
                slo=service.slo,
                max_waiting=requests.max_waiting,
                max_wait_s=requests.max_wait_s,
                request_timeout_s=requests.timeout_s,
            )
        )
    return tuple(policies), clashes


def _listening(settings: ClusterGatewaySettings) -> GatewaySettings:
    return GatewaySettings(
        host=settings.host,
        port=settings.port,
        max_body_bytes=settings.max_body_bytes,
        connect_timeout_s=settings.connect_timeout_s,
        metrics_host=settings.metrics_host,
        metrics_port=settings.metrics_port,
    )


def _make(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RefusedError(f"stateDir {directory} can't be made: {error.strerror}") from error


def _own_standard_error() -> Path | None:
    """Where a pod's log is read from; None where another process can't write to it by a name."""
    path = Path(f"/proc/{os.getpid()}/fd/2")
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_APPEND))
    except OSError:  # not Linux, or a socket
        return None
    return path
