"""XID errors as the driver reports them, from the time that they are listened for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

from adapters.gpus.nvml_library import Nvml
from autoscaler.domain.reading import Measured, Unknown, UnknownReason

_XID = 8  # nvmlEventTypeXidCriticalError
_NO_INSTANCE = 0xFFFFFFFF
_MOST_AT_ONCE = 256
_NOT_HEARD = Unknown(UnknownReason.NOT_EXPORTED, "the driver reports no XID events of this GPU")


class XidListener:
    """Remembers every XID by GPU, and MIG instance where the driver names one."""

    def __init__(self, nvml: Nvml) -> None:
        self._nvml = nvml
        self._events: Any = None
        self._listening: set[str] = set()
        self._heard: dict[str, list[tuple[int, int | None]]] = {}

    def hear(self, gpus: Iterable[tuple[str, Any]]) -> None:
        """Take in what happened since the last call. ``gpus``: (UUID, handle) of each. Raises nothing."""
        nvml = self._nvml
        try:
            if self._events is None:
                self._events = nvml.nvmlEventSetCreate()
        except nvml.NVMLError:
            return
        for uuid, handle in gpus:
            if uuid not in self._listening:
                try:
                    nvml.nvmlDeviceRegisterEvents(handle, _XID, self._events)
                except nvml.NVMLError:
                    continue
                self._listening.add(uuid)
        for _ in range(_MOST_AT_ONCE):
            try:
                event = nvml.nvmlEventSetWait_v2(self._events, 0)
                uuid = nvml.nvmlDeviceGetUUID(event.device)
            except nvml.NVMLError:  # nothing more happened
                return
            instance = None if event.gpuInstanceId == _NO_INSTANCE else int(event.gpuInstanceId)
            self._heard.setdefault(uuid, []).append((int(event.eventData), instance))

    def last(self, uuid: str, instance: int | None = None) -> Measured:
        """The last XID, 0 for none since it is listened for."""
        if uuid not in self._listening:
            return _NOT_HEARD
        heard = self._of(uuid, instance)
        return float(heard[-1]) if heard else 0.0

    def all(self, uuid: str, instance: int | None = None) -> tuple[int, ...]:
        """Every XID heard of a GPU, or of one instance of it."""
        return tuple(sorted(set(self._of(uuid, instance))))

    def close(self) -> None:
        """Listen no more."""
        if self._events is not None:
            with contextlib.suppress(self._nvml.NVMLError):
                self._nvml.nvmlEventSetFree(self._events)
            self._events = None
            self._listening.clear()

    def _of(self, uuid: str, instance: int | None) -> list[int]:
        """Those of an instance are its own; those of the GPU are the ones that name no instance."""
        return [xid for xid, where in self._heard.get(uuid, ()) if where == instance]
