"""Keeps a gateway running for as long as the controller does, and wakes the controller when requests begin to wait."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from adapters.local.gateway_ports import GatewayRoutes
from adapters.local.gateway_process import GatewayProcess
from adapters.local.gateway_protocol import Identity
from adapters.local.template import GatewaySettings, RoutePolicy
from autoscaler.ports import PortError

_log = logging.getLogger(__name__)

_POLL_S = 1.0
_TRY_AGAIN_S = 1.0


class GatewayKeeper:
    """One thread, between ``start`` and ``close``, that notices at once when the gateway dies or requests wait."""

    def __init__(self, process: GatewayProcess, routes: GatewayRoutes, *, on_demand: Callable[[], None]) -> None:
        """``on_demand`` is called from the thread."""
        self._process = process
        self._routes = routes
        self._on_demand = on_demand
        self._pid: int | None = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gateway-keeper", daemon=True)

    def start(self) -> Identity:
        """Start a gateway or take over the one that runs, and keep it from now on.

        Raises RefusedError where its address can't be had (the message says what to do), else UnavailableError.
        """
        identity = self._process.ensure()
        self._pid = identity.pid
        self._thread.start()
        return identity

    def configure(self, settings: GatewaySettings, policies: Sequence[RoutePolicy]) -> None:
        """Use these from now on. Raises PortError, with the old settings still in use: RefusedError where another
        address can't be had.
        """
        before, self._process.settings = self._process.settings, settings
        try:
            self._process.ensure()
        except PortError:
            self._process.settings = before
            raise
        self._routes.set_policies(policies)

    def close(self, *, leave_running: bool, grace_s: float) -> None:
        """Keep it no longer; unless it is left running, end it, giving requests in flight ``grace_s`` seconds."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join()
        if not leave_running:
            self._process.stop(grace_s=grace_s)

    def _run(self) -> None:
        complaint = ""
        while not self._ending.is_set():
            try:
                if self._process.client.wait_for_demand(_POLL_S):
                    self._on_demand()
            except PortError as lost:
                complaint = self._restore(lost, complaint)

    def _restore(self, lost: PortError, complaint: str) -> str:
        """Have one run again; what was complained of, so that it is said once."""
        if self._ending.is_set():
            return complaint
        try:
            identity = self._process.ensure()
            self._routes.put_again()
        except PortError as error:
            if str(error) != complaint:
                _log.error("%s; the gateway can't be started again: %s", lost, error)
            self._ending.wait(_TRY_AGAIN_S)
            return str(error)
        if identity.pid != self._pid:
            _log.warning("the gateway was lost (%s); process %d is the gateway now", lost, identity.pid)
            self._pid = identity.pid
        return ""
