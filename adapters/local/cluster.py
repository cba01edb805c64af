"""This machine behind the controller's ports: the supervisor in a thread, and a snapshot that nobody waits for."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence

from adapters.local.fleet_store import FleetStore
from adapters.local.lifecycle import Pace
from adapters.local.os_processes import OsProcesses
from adapters.local.probes import HttpProbes
from adapters.local.routes import RouteTable
from adapters.local.state_directory import StateDirectory
from adapters.local.supervisor import Supervisor
from adapters.local.template import ReplicaTemplate
from autoscaler.domain.cluster import ClusterSnapshot, Device
from autoscaler.domain.plan import VariantTarget
from autoscaler.domain.service import ServiceId
from autoscaler.ports import Clock

_log = logging.getLogger(__name__)
_KILLED_S = 10.0  # how long killed processes may take to be gone


class LocalCluster:
    """Inventory and ReplicaActuator of this machine.

    ``notices``: what was found at the start that a person should know.
    """

    def __init__(
        self,
        *,
        state: StateDirectory,
        templates: Sequence[ReplicaTemplate],
        devices: Sequence[Device],
        clock: Clock,
        routes: RouteTable,
        environ: Mapping[str, str],
        pace: Pace | None = None,
    ) -> None:
        """Adopt the replicas that run. Their number changes only after ``start``. Raises PortError."""
        self._clock = clock
        self._pace = pace or Pace()
        self._probes = HttpProbes()
        self._supervisor = Supervisor(
            store=FleetStore(state.database),
            processes=OsProcesses(owner=state.owner, environ=environ),
            probes=self._probes,
            routes=routes,
            logs=state.logs,
            pace=self._pace,
        )
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)
        try:
            self.notices = self._supervisor.adopt(templates, devices, now_s=clock.now_s())
        except BaseException:
            self._probes.close()
            raise
        self._view = self._supervisor.view()

    def start(self) -> None:
        """Begin to bring the replicas to their targets."""
        self._thread.start()

    def snapshot(self) -> ClusterSnapshot:
        """The fleet as of the last step; from memory, at once."""
        view = self._view
        return ClusterSnapshot(
            at_s=self._clock.now_s(), devices=view.devices, replicas=view.replicas, targets=view.targets
        )

    def scale(self, service: ServiceId, targets: Sequence[VariantTarget]) -> None:
        """Keep these counts and return; variants that are not named stay as they are.

        Raises RefusedError (unknown service or variant, a full or read-only disk, being closed), UnavailableError.
        """
        with self._lock:
            self._supervisor.ask(service, targets)
            self._view = self._supervisor.view()
        self._wake.set()

    def configure(self, templates: Sequence[ReplicaTemplate], devices: Sequence[Device]) -> None:
        """Use another configuration from now on. Running replicas keep the command they were started with."""
        with self._lock:
            self._supervisor.configure(templates, devices, now_s=self._clock.now_s())
            self._view = self._supervisor.view()
        self._wake.set()

    def close(self, *, leave_running: bool = False) -> None:
        """Drain and end all replicas, or leave them to the next controller. The targets stay kept.

        Takes up to twice the longest grace period. Interrupted meanwhile, it ends them at once.
        """
        self._ending.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()
        try:
            if leave_running:
                self._supervisor.release()
            else:
                self._stop()
        finally:
            self._probes.close()

    def _run(self) -> None:
        complaint = ""
        while not self._ending.is_set():
            try:
                self._step()
            except Exception as error:  # the only loop of this thread: whatever it is, the replicas need watching
                if repr(error) != complaint:
                    _log.exception("a step of the supervisor failed; it is tried again")
                complaint = repr(error)
            else:
                complaint = ""
            self._wake.wait(self._pace.step_s)
            self._wake.clear()

    def _step(self) -> None:
        with self._lock:
            self._supervisor.step(self._clock.now_s())
            self._view = self._supervisor.view()

    def _stop(self) -> None:
        try:
            self._supervisor.stop_all()
            self._step_until_gone(limit_s=self._supervisor.longest_end_s() + _KILLED_S)
        except BaseException:
            self._supervisor.kill_all()
            self._step_until_gone(limit_s=_KILLED_S)
            raise
        finally:
            self._supervisor.release()

    def _step_until_gone(self, *, limit_s: float) -> None:
        begun_s = self._clock.now_s()
        pause = threading.Event()
        self._step()
        while self._supervisor.alive():
            pause.wait(self._pace.step_s)
            self._step()
            if self._clock.now_s() - begun_s > limit_s:
                _log.error("replicas that can't be ended: %s", ", ".join(self._supervisor.alive()))
                return
