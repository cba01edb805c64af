"""``gpu-autoscaler run`` in a cluster: every replica answers HPA and KEDA from the resources' statuses, one decides."""

from __future__ import annotations

import logging
import os
import secrets
import socket
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from types import TracebackType

from adapters.kubernetes.authentication import ApiReviews, TrustWatch
from adapters.kubernetes.collections import WatchedCluster
from adapters.kubernetes.election import Terms
from adapters.kubernetes.events import EventRecorder
from adapters.kubernetes.leadership import Leadership
from adapters.kubernetes.resources import WatchedResources
from adapters.local.journal import SqliteJournal
from adapters.local.state_directory import StateDirectory
from adapters.serving.api import create_app
from adapters.serving.external.server import ExternalMetricsServer
from adapters.serving.keda.credentials import TlsFiles
from adapters.serving.keda.server import ScalerServer, ScalerSettings
from adapters.serving.server import ApiServer
from adapters.serving.store import DecisionBoard
from adapters.wallclock import WallClock
from autoscaler.cluster_access import connect, own_namespace
from autoscaler.compose import NoJournal, build_models
from autoscaler.config import ConfigFile
from autoscaler.config.kubernetes_settings import (
    ElectionSettings,
    ExternalScalerSettings,
    KubernetesSettings,
)
from autoscaler.config.resource_reading import parse_resource
from autoscaler.config.watching import Refused
from autoscaler.domain.params import Params
from autoscaler.kubernetes_leading import Leading
from autoscaler.ports import Journal, PortError, RefusedError
from autoscaler.through_prometheus import SeededJournal, past_of_pods

_log = logging.getLogger(__name__)
_SYNC_S = 30.0
_LOOK_S = 1.0
# So often a leader that can't begin tries it before it lets another replica in.
_MOST_FAILURES = 3


class KubernetesRun:
    """Everything that a replica of the controller starts, as a context manager; ``run`` returns after ``stop``."""

    def __init__(self, config: ConfigFile, settings: KubernetesSettings) -> None:
        """Open everything. Raises PortError where a part can't be; a cluster that does not answer is waited for."""
        self._config = config
        self._settings = settings
        self._clock = WallClock()
        self._stopping = False
        self._leading: Leading | None = None
        with ExitStack() as opened:
            self._api = connect(settings)
            identity = f"{os.environ.get('POD_NAME') or socket.gethostname()}_{secrets.token_hex(4)}"
            self._resources = WatchedResources(
                self._api, parse=parse_resource, namespaces=settings.namespaces, now_s=self._clock.now_s
            )
            self._resources.start()
            opened.callback(self._resources.close)
            self._cluster = WatchedCluster(self._api, now_s=self._clock.now_s)
            self._cluster.start()
            opened.callback(self._cluster.close)
            self._events = EventRecorder(self._api, instance=identity, now_s=self._clock.now_s)
            self._events.start()
            opened.callback(self._events.close)
            self._board = DecisionBoard(services=(), stale_after_s=60.0)
            self._serve(opened)
            self._leadership = self._election(identity, settings.election)
            if self._leadership is not None:
                self._leadership.start()
                opened.callback(self._leadership.close)
            self._opened = opened.pop_all()

    def __enter__(self) -> KubernetesRun:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()

    def run(self) -> None:
        """Lead whenever elected, until ``stop``."""
        failures = 0
        while not self._stopping:
            if self._leads():
                if self._lead_if_able():
                    failures = 0
                    continue
                failures += 1
                if failures == _MOST_FAILURES and self._leadership is not None and not self._stopping:
                    _log.error("another replica is let in: leading did not begin %d times in a row", failures)
                    self._leadership.step_aside()
                    failures = 0
            self._board.leave_to(self._leader())
            self._clock.wait_until(self._clock.now_s() + _LOOK_S)

    def stop(self) -> None:
        """Let ``run`` return. Safe in a signal handler."""
        self._stopping = True
        leading = self._leading
        if leading is not None:
            leading.stop()
        self._clock.wake()

    def _lead_if_able(self) -> bool:
        """Lead to the end of this leadership; whether that began."""
        if not (self._cluster.wait_synced(_SYNC_S) and self._resources.wait_synced(_SYNC_S)):
            _log.error("leading did not begin: the cluster is not known yet")
            return False
        try:
            self._lead()
        except PortError as error:
            _log.error("leading did not begin, and is tried again: %s", error)
            return False
        return True

    def _lead(self) -> None:
        """One leadership, to its end. Raises PortError where it can't begin."""
        with ExitStack() as opened:
            journal = self._with_a_past(self._journal(opened))
            leading = opened.enter_context(
                Leading(
                    self._api,
                    settings=self._settings,
                    params=self._params,
                    resources=self._resources,
                    cluster=self._cluster,
                    board=self._board,
                    journal=journal,
                    events=self._events,
                    clock=self._clock,
                    leads=self._leads,
                    namespace=own_namespace(),
                    prometheus=self._config.settings.prometheus,
                )
            )
            self._leading = leading
            self._board.leave_to(None)
            _log.info("leading")
            if self._leads() and not self._stopping:
                leading.run()
            self._leading = None
        _log.info("not leading any more")

    def _journal(self, opened: ExitStack) -> Journal:
        """The state directory's; where that can't be used none, because a service without a leader is worse."""
        settings, now_s = self._config.settings, self._clock.now_s
        try:
            state = StateDirectory(settings.state_dir, now_s=now_s)
            opened.callback(state.close)
            journal = SqliteJournal(state.database, now_s=now_s, retention=settings.retention)
        except PortError as error:
            _log.error("no memory is kept and none is continued: %s", error)
            return NoJournal()
        opened.callback(_close_journal, journal)
        return journal

    def _with_a_past(self, journal: Journal) -> Journal:
        prometheus = self._config.settings.prometheus
        if prometheus is None:
            return journal
        return SeededJournal(
            journal,
            prometheus,
            services=lambda: [(each.service, past_of_pods(each)) for each in self._resources.usable()],
            params=self._params,
            models=build_models(),
            now_s=self._clock.now_s,
        )

    def _leads(self) -> bool:
        return self._leadership is None or self._leadership.is_leader()

    def _leader(self) -> str | None:
        """Who leads instead of this one: "" where nobody was seen to."""
        return None if self._leadership is None else self._leadership.holder or ""

    def _elected(self, leads: bool) -> None:  # noqa: FBT001
        leading = self._leading
        if not leads and leading is not None:
            leading.stop()
        self._clock.wake()

    def _election(self, identity: str, settings: ElectionSettings | None) -> Leadership | None:
        if settings is None:
            return None
        terms = Terms(identity=identity, lease_s=settings.lease_s, renew_s=settings.renew_s, retry_s=settings.retry_s)
        return Leadership(
            self._api,
            namespace=_lease_namespace(settings),
            name=settings.lease_name,
            terms=terms,
            now_s=self._clock.now_s,
            on_change=self._elected,
        )

    def _params(self) -> Params:
        """The parameters in force, after taking in a changed configuration file."""
        news = self._config.poll()
        if isinstance(news, Refused):
            _log.error("the changed configuration is refused, the one before stays: %s", news.error)
        elif news is not None:
            _log.info("configuration reloaded")
            if news.waiting:
                _log.warning("changed, but used only after a restart: %s", ", ".join(news.waiting))
        return self._config.settings.params

    def _serve(self, opened: ExitStack) -> None:
        """The API with the dashboard, and what HPA and KEDA ask."""
        settings, now_s = self._settings, self._clock.now_s
        api = create_app(
            board=self._board,
            history=self._board,
            settings=self._config.settings.api,
            now_s=now_s,
            version=version("gpu-autoscaler"),
            publications=self._resources,
            certificates=_certificates(settings),
        )
        self.api = ApiServer(api, self._config.settings.api)
        self.api.start()
        opened.callback(self.api.stop)
        self.external_metrics: ExternalMetricsServer | None = None
        if settings.external_metrics is not None:
            self.external_metrics = ExternalMetricsServer(
                settings.external_metrics, self._resources, ApiReviews(self._api), now_s=now_s
            )
            self.external_metrics.start()
            opened.callback(self.external_metrics.stop)
            trust = TrustWatch(self._api, self.external_metrics.set_trust, now_s=now_s)
            trust.start()
            opened.callback(trust.close)
        self.external_scaler: ScalerServer | None = None
        if settings.external_scaler is not None:
            self.external_scaler = ScalerServer(
                self._resources, _scaler_settings(settings.external_scaler), now_s=now_s
            )
            self.external_scaler.start()
            opened.callback(self.external_scaler.stop)


def _certificates(settings: KubernetesSettings) -> dict[str, Path]:
    """Files of those that we serve with, by server."""
    servers = {"external-metrics": settings.external_metrics, "external-scaler": settings.external_scaler}
    files = {name: None if server is None else server.certificate_file for name, server in servers.items()}
    return {name: file for name, file in files.items() if file is not None}


def _close_journal(journal: SqliteJournal) -> None:
    try:
        journal.close()
    except PortError as error:
        _log.error("the latest memory could not be kept: %s", error)


def _lease_namespace(settings: ElectionSettings) -> str:
    """Where the Lease is: here, unless another place is named."""
    namespace = settings.namespace or own_namespace()
    if namespace is None:
        raise RefusedError(
            "kubernetes.leaderElection.namespace: say where the Lease is to be; this is no pod, and POD_NAMESPACE is "
            "not set"
        )
    return namespace


def _scaler_settings(settings: ExternalScalerSettings) -> ScalerSettings:
    tls = None
    if settings.certificate_file is not None and settings.key_file is not None:
        tls = TlsFiles(certificate=settings.certificate_file, key=settings.key_file, client_ca=settings.client_ca_file)
    return ScalerSettings(host=settings.host, port=settings.port, tls=tls)
