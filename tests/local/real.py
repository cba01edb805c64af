"""Real replica processes for tests: waiting for what must happen, and making sure that nothing is left behind."""

from __future__ import annotations

import os
import signal
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from adapters.local.os_processes import MARK_VARIABLE, OsProcesses
from adapters.local.template import ReplicaTemplate
from autoscaler.domain.service import DeviceRequest, ServiceId, Variant

SERVER = Path(__file__).with_name("replica_server.py")
CHAT = ServiceId("chat")
_PATIENCE_S = 30.0


def serving(
    *options: str, service: ServiceId = CHAT, devices: DeviceRequest | None = None, grace_period_s: float = 10.0
) -> ReplicaTemplate:
    """The template of a replica that runs ``replica_server``."""
    return ReplicaTemplate(
        service=service,
        variant=Variant(name="v", devices=devices),
        command=(sys.executable, "-S", str(SERVER), "--port", "{port}", *options),
        grace_period_s=grace_period_s,
        start_deadline_s=60.0,
    )


def wait_for(condition: Callable[[], object], what: str) -> None:
    """Return as soon as it holds; fail where it does not within half a minute."""
    deadline = time.monotonic() + _PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"in vain: {what}")
        time.sleep(0.02)


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=_PATIENCE_S) as response:
        return str(response.read().decode())


def processes_of(owner: str) -> Mapping[int, str]:
    """Living processes that bear the mark of a state directory: number -> replica name."""
    found = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            mark = process.environ().get(MARK_VARIABLE, "")
            if mark.startswith(f"{owner}/") and process.status() != psutil.STATUS_ZOMBIE:
                found[process.pid] = mark.partition("/")[2]
    return found


def leaders_of(owner: str) -> Mapping[int, str]:
    """Those of ``processes_of`` that were spawned by a controller."""
    return {pid: name for pid, name in processes_of(owner).items() if _session(pid) == pid}


def _session(pid: int) -> int | None:
    with suppress(ProcessLookupError):
        return os.getsid(pid)
    return None


@contextmanager
def nothing_left_of(owner: str) -> Iterator[None]:
    """Kill at the end what a failed test left."""
    try:
        yield
    finally:
        while left := processes_of(owner):
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)


def processes(owner: str) -> OsProcesses:
    return OsProcesses(owner=owner, environ=os.environ)
