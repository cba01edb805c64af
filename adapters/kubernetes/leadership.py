"""Leader election among the replicas of this program, on a Lease."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from adapters.kubernetes.api_errors import NotFoundError
from adapters.kubernetes.connection import Collection, KubernetesApi
from adapters.kubernetes.election import (
    Create,
    Lease,
    Standing,
    Terms,
    Wait,
    accepted,
    given_up,
    lease_of,
    step,
)
from adapters.kubernetes.raw_json import JsonObject, optional_text
from adapters.kubernetes.waiting import Backoff, EventWaiter, Waiter
from autoscaler.ports import ConflictError, InvalidAnswerError, PortError

_log = logging.getLogger(__name__)
LEASES = Collection(group="coordination.k8s.io", version="v1", plural="leases")


class Leadership:
    """Contends for one Lease in a thread of its own.

    Needs the rights get, create and update on ``leases``. ``terms.identity`` must be another one in each process, and
    after each restart: the pod's name with something random.
    """

    def __init__(
        self,
        api: KubernetesApi,
        *,
        namespace: str,
        name: str,
        terms: Terms,
        now_s: Callable[[], float],
        on_change: Callable[[bool], None] = lambda leads: None,
        waiter: Waiter | None = None,
    ) -> None:
        """``now_s``: seconds since the epoch that never run back. ``on_change``: told in the thread, so a leader whose
        API server hangs hears of its loss late; ``is_leader`` knows in time.
        """
        self._api = api
        self._leases = LEASES.within(namespace)
        self._name = name
        self._terms = terms
        self._now_s = now_s
        self._on_change = on_change
        self._waiter = waiter or EventWaiter()
        # Two calls, a read and a write, end between two looks before the lease is lost.
        self._call_s = (terms.renew_s - terms.retry_s) / 2
        self._backoff = Backoff(first_s=terms.retry_s / 4, most_s=terms.retry_s)
        self._standing = Standing()
        self._aside_until_s = 0.0
        self._told = False
        self._closed = False
        self._holder: str | None = None
        self._failure: str | None = None
        self._thread = threading.Thread(target=self._run, name=f"lease {namespace}/{name}", daemon=True)

    def start(self) -> None:
        """Begin to contend."""
        self._thread.start()

    def is_leader(self) -> bool:
        """Whether this process leads now. Ask before each act: the answer becomes false by itself, in time."""
        return self.remaining_s() > 0.0

    def remaining_s(self) -> float:
        """For how long it leads even if no renewal succeeds: the timeout of a call that must not outlive it."""
        return 0.0 if self._closed or self._stands_aside() else max(0.0, self._standing.until_s - self._now_s())

    def step_aside(self) -> None:
        """Stop to lead at once, let another replica in, and contend again after two times the lease's duration.

        Call it after the last act.
        """
        self._aside_until_s = self._now_s() + 2 * self._terms.lease_s

    @property
    def holder(self) -> str | None:
        """Who was last seen to hold the Lease, "" for nobody; None where none was seen."""
        return self._holder

    @property
    def failure(self) -> str | None:
        """What the last attempt failed of; None while all is well."""
        return self._failure

    def close(self) -> None:
        """Stop to lead and let another replica in at once. Call it after the last act; raises nothing."""
        self._closed = True
        self._waiter.stop()
        if self._thread.is_alive():
            self._thread.join(timeout=3 * self._call_s)
        try:
            self._give_up(self._read())
        except PortError as error:
            _log.warning("the lease %s could not be given up, it runs out by itself: %s", self._name, error)
        self._tell()

    def _run(self) -> None:
        while True:
            pause_s = self._round()
            self._tell()
            if self._waiter.wait(pause_s):
                return

    def _round(self) -> float:
        """Look, and act on what is seen; how long to pause."""
        try:
            pause_s = self._contend()
        except ConflictError:
            # Another was faster; what it wrote is seen at once.
            return self._backoff.next_s()
        except PortError as error:
            if self._failure is None:
                _log.warning("the lease %s is out of reach: %s", self._name, error)
            self._failure = str(error)
            return self._backoff.next_s()
        except Exception as error:  # a thread that died would leave nobody to lead
            _log.exception("contending for the lease %s failed", self._name)
            self._failure = repr(error)
            return self._backoff.next_s()
        self._failure = None
        self._backoff.reset()
        return pause_s

    def _stands_aside(self) -> bool:
        return self._now_s() < self._aside_until_s

    def _give_up(self, seen: Lease | None) -> None:
        if seen is not None and seen.holder == self._terms.identity:
            self._write(seen, given_up(seen, now_s=self._now_s()))

    def _contend(self) -> float:
        seen = self._read()
        self._holder = None if seen is None else seen.holder
        if self._stands_aside():
            self._standing = Standing()
            self._give_up(seen)
            return self._terms.retry_s
        self._standing, wanted = step(self._standing, self._terms, seen, now_s=self._now_s())
        if isinstance(wanted, Wait):
            return wanted.pause_s
        if seen is None or isinstance(wanted, Create):
            self._api.create(
                self._leases.path,
                {**_LEASE, "metadata": {"name": self._name}, "spec": wanted.spec},
                timeout_s=self._call_s,
            )
            return 0.0
        began_s = self._now_s()
        self._write(seen, wanted.spec)
        # Had it stepped aside meanwhile, the next round gives up what this one has won.
        self._standing = accepted(self._standing, self._terms, began_s=began_s)
        self._holder = self._terms.identity
        return self._terms.retry_s

    def _read(self) -> Lease | None:
        try:
            return lease_of(self._api.get(self._leases.item(self._name), timeout_s=self._call_s))
        except NotFoundError:
            return None

    def _write(self, seen: Lease, spec: JsonObject) -> None:
        """Raises InvalidAnswerError where what the server answers is not what was written: then it counts as lost."""
        metadata = {key: value for key, value in seen.metadata.items() if key != "managedFields"}
        answer = self._api.replace(
            self._leases.item(self._name), {**_LEASE, "metadata": metadata, "spec": spec}, timeout_s=self._call_s
        )
        if lease_of(answer).holder != (optional_text(spec, "holderIdentity") or ""):
            raise InvalidAnswerError(f"the lease {self._name} was written, and the answer shows another holder")

    def _tell(self) -> None:
        leads = self.is_leader()
        if leads == self._told:
            return
        self._told = leads
        _log.info("%s %s the lease %s", self._terms.identity, "holds" if leads else "no longer holds", self._name)
        try:
            self._on_change(leads)
        except Exception:
            _log.exception("a listener of the lease %s failed", self._name)


_LEASE: JsonObject = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
