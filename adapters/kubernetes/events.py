"""Events on objects, written in a thread of their own: telling must never hold up deciding."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from secrets import token_hex

from adapters.kubernetes.api_errors import NotFoundError
from adapters.kubernetes.connection import KubernetesApi, PatchKind
from adapters.kubernetes.event_folding import (
    EVENTS,
    EventFolding,
    EventType,
    Happening,
    Limits,
    NewEvent,
    Repeated,
    Subject,
)
from adapters.kubernetes.waiting import Backoff, EventWaiter, Waiter
from autoscaler.ports import ConflictError, PortError, UnavailableError

_log = logging.getLogger(__name__)
_CALL_S = 5.0
_ATTEMPTS = 6
_LOOK_S = 5.0


class EventRecorder:
    """Takes what happens and writes it when it can. Needs the rights create and patch on ``events.k8s.io`` events.

    ``record`` returns at once and raises nothing. What can't be written (the server refuses, stays away for about half
    a minute, or more than ``capacity`` happenings wait) is lost, and ``report`` is told.
    """

    def __init__(
        self,
        api: KubernetesApi,
        *,
        instance: str,
        now_s: Callable[[], float],
        report: Callable[[str], None] = lambda message: _log.warning("%s", message),
        limits: Limits | None = None,
        capacity: int = 1000,
        waiter: Waiter | None = None,
    ) -> None:
        """``instance``: this process, such as the pod's name. ``report`` is called in the recorder's thread."""
        self._api = api
        self._now_s = now_s
        self._report = report
        self._waiter = waiter or EventWaiter()
        self._folding = EventFolding(instance=instance, tag=lambda: token_hex(8), limits=limits or Limits())
        self._queue: queue.Queue[Happening | None] = queue.Queue(capacity)
        self._lost = 0
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def record(self, subject: Subject, *, type: EventType, reason: str, action: str, note: str) -> None:
        """Say that something happened to ``subject``; repetitions are counted, not written again."""
        try:
            self._queue.put_nowait(Happening(subject=subject, type=type, reason=reason, action=action, note=note))
        except queue.Full:
            self._lost += 1

    def close(self) -> None:
        """Write what waits, without further attempts, for a few seconds at most."""
        self._waiter.stop()
        try:
            self._queue.put(None, timeout=_CALL_S)
        except queue.Full:
            self._lost += 1
        if self._thread.is_alive():
            self._thread.join(timeout=_CALL_S)

    def _run(self) -> None:
        ended = False
        while not ended:
            try:
                ended = self._round()
            except Exception:  # a thread that died would take all later events with it
                _log.exception("an event was lost")

    def _round(self) -> bool:
        """Write what happened next, and the counts that are due; whether that was the end."""
        with suppress(queue.Empty):
            happening = self._queue.get(timeout=_LOOK_S)
            if happening is None:
                return True
            if (new := self._folding.take(happening, now_s=self._now_s())) is not None:
                self._write(new)
        for repeated in self._folding.due(now_s=self._now_s()):
            self._write(repeated)
        if self._lost:
            lost, self._lost = self._lost, 0
            self._report(f"{lost} events were lost: too many waited to be written")
        return False

    def _write(self, event: NewEvent | Repeated) -> None:
        """Several attempts while the server is away; what fails for good is reported."""
        backoff = Backoff(first_s=1.0, most_s=10.0)
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._send(event)
                return
            except UnavailableError as error:
                if attempt == _ATTEMPTS or self._waiter.wait(backoff.next_s()):
                    self._fail(event, error)
                    return
            except PortError as error:
                self._fail(event, error)
                return

    def _send(self, event: NewEvent | Repeated) -> None:
        within = EVENTS.within(event.namespace)
        if isinstance(event, Repeated):
            self._api.patch(within.item(event.name), event.body, kind=PatchKind.MERGE, timeout_s=_CALL_S)
            return
        try:
            self._api.create(within.path, event.body, timeout_s=_CALL_S)
        except ConflictError:
            # An attempt whose answer was lost had been taken: names are never used twice.
            _log.debug("the event %s is there already", event.body)

    def _fail(self, event: NewEvent | Repeated, error: PortError) -> None:
        self._folding.forget(event.happening)
        # An event that has expired (after an hour by default) is simply begun again.
        if not (isinstance(event, Repeated) and isinstance(error, NotFoundError)):
            self._report(f"the event {event.happening.reason} on {event.happening.subject.name} is lost: {error}")
