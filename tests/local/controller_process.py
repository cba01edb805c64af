"""A controller for tests that is killed with -9: at a chosen call, or by the test at a moment of its own.

Arguments: state directory, replicas to ask for, and where to die ("before spawn", "after spawn", "before keep", "after
keep", "after ready", "never"), with the number of the call that is the last.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from adapters.local.fleet_store import Fleet, FleetStore
from adapters.local.lifecycle import Pace
from adapters.local.os_processes import OsProcesses
from adapters.local.probes import HttpProbes
from adapters.local.process import Launch, ProcessId
from adapters.local.routes import DirectRoutes
from adapters.local.state_directory import StateDirectory
from adapters.local.supervisor import Supervisor
from adapters.wallclock import WallClock
from autoscaler.domain.cluster import Phase
from autoscaler.domain.plan import VariantTarget
from tests.local.real import CHAT, serving


class Fate:
    """Ends the process at the ``calls``-th passing of ``place``."""

    def __init__(self, place: str, calls: int) -> None:
        self.place = place
        self.calls = calls

    def passes(self, place: str) -> None:
        if place == self.place:
            self.calls -= 1
            if self.calls <= 0:
                os.kill(os.getpid(), signal.SIGKILL)


class MortalProcesses(OsProcesses):
    """The real ones, with a chance to die around each spawn."""

    fate: Fate

    def spawn(self, launch: Launch) -> ProcessId:
        self.fate.passes("before spawn")
        process = super().spawn(launch)
        self.fate.passes("after spawn")
        return process


class MortalStore(FleetStore):
    """The real one, with a chance to die around each write."""

    fate: Fate

    def keep(self, fleet: Fleet) -> None:
        self.fate.passes("before keep")
        super().keep(fleet)
        self.fate.passes("after keep")


def main(path: str, replicas: str, place: str, calls: str) -> None:
    fate = Fate(place, int(calls))
    clock = WallClock()
    state = StateDirectory(Path(path), now_s=clock.now_s)
    processes = MortalProcesses(owner=state.owner, environ=os.environ)
    store = MortalStore(state.database)
    processes.fate = store.fate = fate
    supervisor = Supervisor(
        store=store,
        processes=processes,
        probes=HttpProbes(),
        routes=DirectRoutes(),
        logs=state.logs,
        pace=Pace(),
    )
    supervisor.adopt([serving()], [], now_s=clock.now_s())
    supervisor.ask(CHAT, [VariantTarget(variant="v", replicas=int(replicas))])
    while True:
        supervisor.step(clock.now_s())
        ready = sum(replica.phase is Phase.READY for replica in supervisor.view().replicas)
        if ready == int(replicas):
            print("ready", flush=True)
            fate.passes("after ready")
        clock.wait_until(clock.now_s() + 0.02)


if __name__ == "__main__":
    main(*sys.argv[1:])
