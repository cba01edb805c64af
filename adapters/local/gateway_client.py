"""The controller's side of the admin socket: plain blocking calls, safe from any thread."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from adapters.local import gateway_protocol as protocol
from adapters.local.gateway_protocol import DemandAnswer, DemandQuestion, Identity, RoutesUpdate, StopOrder
from adapters.local.routes import Endpoint
from adapters.local.template import GatewaySettings, RoutePolicy
from autoscaler import codec
from autoscaler.domain.reading import GatewayReading, Unknown
from autoscaler.ports import InvalidAnswerError, UnavailableError

T = TypeVar("T")

_ANSWER_WITHIN_S = 5.0


class GatewayClient:
    """Speaks to the gateway at one socket, whichever process answers there.

    All methods raise UnavailableError where none answers, and InvalidAnswerError where the answer makes no sense.
    """

    def __init__(self, socket_path: Path) -> None:
        self._socket_path = socket_path
        self._seen_rise: int | None = None

    def identity(self, *, within_s: float = _ANSWER_WITHIN_S) -> Identity:
        """Who answers."""
        return self._ask(Identity, "GET", protocol.IDENTITY, within_s=within_s)

    def put_settings(self, settings: GatewaySettings) -> None:
        """Change all but the address."""
        self._send("PUT", protocol.SETTINGS, codec.encode(settings))

    def put_routes(self, policies: Sequence[RoutePolicy], endpoints: Sequence[Endpoint]) -> None:
        """Make these the services and replicas; requests that wait for one of them go on at once. Idempotent."""
        update = RoutesUpdate(policies=tuple(policies), endpoints=tuple(endpoints))
        self._send("PUT", protocol.ROUTES, codec.encode(update))

    def readings(self, now_s: float) -> dict[str, GatewayReading | Unknown]:
        """What was counted of each service, by its id; ``at_s`` is ``now_s``."""
        readings = self._ask(tuple[GatewayReading, ...], "GET", protocol.READINGS)
        return {reading.service: replace(reading, at_s=now_s) for reading in readings}

    def in_flight(self) -> dict[str, int]:
        """Unanswered requests by replica name."""
        return self._ask(dict[str, int], "GET", protocol.IN_FLIGHT)

    def wait_for_demand(self, timeout_s: float) -> bool:
        """True when a service begins to hold requests because no replica of it takes them; False after ``timeout_s``.

        Each beginning is told once: while the same requests wait on, this waits for the next.
        """
        answer_s = min(timeout_s, protocol.MAX_POLL_S)
        question = DemandQuestion(seen=self._seen_rise, timeout_s=answer_s)
        self._seen_rise = None  # should this fail, the next gateway counts anew
        answer = self._ask(
            DemandAnswer, "POST", protocol.DEMAND, codec.encode(question), within_s=answer_s + _ANSWER_WITHIN_S
        )
        self._seen_rise = answer.rise
        return answer.waiting

    def stop(self, *, grace_s: float) -> None:
        """Have it take no more requests, and end when those in flight are answered or after ``grace_s``.

        When this returns its address and its socket are free.
        """
        self._send("POST", protocol.STOP, codec.encode(StopOrder(grace_s=grace_s)))

    def _ask(
        self, kind: type[T], method: str, path: str, body: bytes | None = None, within_s: float = _ANSWER_WITHIN_S
    ) -> T:
        content = self._send(method, path, body, within_s)
        try:
            return codec.decode(kind, content)
        except ValueError as error:
            raise InvalidAnswerError(f"the gateway answered {path} with something else: {error}") from error

    def _send(self, method: str, path: str, body: bytes | None = None, within_s: float = _ANSWER_WITHIN_S) -> bytes:
        connection = _UnixConnection(self._socket_path, timeout_s=within_s)
        try:
            connection.request(method, path, body=body)
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise UnavailableError(
                f"no gateway answers at {self._socket_path}: {type(error).__name__}: {error}"
            ) from error
        finally:
            connection.close()
        if answer.status >= 300:
            raise InvalidAnswerError(
                f"the gateway refused {method} {path} ({answer.status}): {content[:1000].decode(errors='replace')}"
            )
        return content


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, socket_path: Path, *, timeout_s: float) -> None:
        super().__init__("gateway", timeout=timeout_s)
        self._socket_path = socket_path
        self._timeout_s = timeout_s

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self._timeout_s)
        self.sock.connect(str(self._socket_path))
