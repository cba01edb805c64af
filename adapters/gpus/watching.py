"""Looks at devices again and again, in a thread: a driver or an exporter that hangs holds up nobody else."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from types import TracebackType

from adapters.gpus.freshness import Freshness
from autoscaler.domain.gpu_reading import DeviceKey, DevicesRead
from autoscaler.policy.device_health import BrokenDevice, broken_devices

_log = logging.getLogger(__name__)
PERIOD_S = 15.0
_CLOSING_TIMEOUT_S = 5.0


class DeviceWatch:
    """Keeps the devices as last read, and those that are broken. Safe to ask from any thread."""

    def __init__(
        self, read: Callable[[float], DevicesRead], *, now_s: Callable[[], float], period_s: float = PERIOD_S
    ) -> None:
        """``read``: the devices at this time; called in the thread, may take long."""
        self._read = read
        self._now_s = now_s
        self._period_s = period_s
        self._freshness = Freshness()
        self._latest = DevicesRead()
        self._broken: Mapping[DeviceKey, BrokenDevice] = {}
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="devices", daemon=True)

    def __enter__(self) -> DeviceWatch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        self._thread.join(timeout=_CLOSING_TIMEOUT_S)

    def latest(self) -> DevicesRead:
        """The devices as last read."""
        return self._latest

    def broken(self) -> tuple[BrokenDevice, ...]:
        """Those that are no capacity."""
        return tuple(self._broken.values())

    def look(self) -> None:
        """Read once."""
        now_s = self._now_s()
        read = self._freshness.checked(self._read(now_s))
        found = broken_devices(self._broken, read.devices, now_s=now_s)
        for key, device in found.items():
            if key not in self._broken:
                _log.warning("broken, and no capacity any more: %s", device)
        for key in self._broken.keys() - found.keys():
            _log.warning("capacity again: %s", key)
        for warning in set(read.warnings) - set(self._latest.warnings):
            _log.warning(warning)
        self._latest, self._broken = read, found

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                self.look()
            except Exception:  # the only loop of this thread: whatever one look meets, the next may be better
                _log.exception("a look at the devices failed")
            self._ending.wait(self._period_s)
