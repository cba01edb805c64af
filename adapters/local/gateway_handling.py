"""One request of a client from its arrival to its answer."""

from __future__ import annotations

import asyncio
import logging
from itertools import count

from aiohttp import hdrs, web

from adapters.local.gateway_answers import (
    busy,
    client_error,
    closing,
    json_answer,
    unroutable,
    upstream_error,
)
from adapters.local.gateway_choosing import SERVICE_HEADER, Unroutable, choose, model_list
from adapters.local.gateway_forwarding import Forwarder, ReplicaFailedError, break_off
from adapters.local.gateway_headers import asks_for_upgrade
from adapters.local.gateway_metrics import Exchange, ServiceMeter
from adapters.local.gateway_receiving import Body, BodyTooLargeError, BodyTooSlowError, target_of
from adapters.local.gateway_traffic import Lane, Traffic
from adapters.local.gateway_waiting import (
    MemoryBudget,
    OutOfMemoryBudgetError,
    Place,
    RoomClosedError,
    RoomFullError,
    WaitedTooLongError,
)
from adapters.local.template import GatewaySettings
from autoscaler.domain.service import Slo

_log = logging.getLogger(__name__)

HEALTH_PATH = "/-/gpu-autoscaler/health"
_MODELS_PATH = "/v1/models"

# To ask how a service is, is not to ask something of it: such a request is neither demand nor held, so that a monitor
# does not keep a service from going to zero.
_STATUS_PATHS = frozenset(
    {
        _MODELS_PATH,
        "/health",
        "/healthz",
        "/info",
        "/livez",
        "/metrics",
        "/ping",
        "/readyz",
        "/v2/health/live",
        "/v2/health/ready",
        "/version",
    }
)

# What the bodies of unanswered requests may take up together; always enough for one of the largest.
_BODIES_BYTES = 512 * 1024 * 1024


class Handler:
    """Receives, finds the service, forwards, and answers itself where no replica does."""

    def __init__(self, traffic: Traffic, forwarder: Forwarder, settings: GatewaySettings) -> None:
        self._traffic = traffic
        self._forwarder = forwarder
        self._numbers = count()
        self._uncounted = ServiceMeter(Slo(e2e_s=1.0))
        self._budget = MemoryBudget(limit_bytes=_BODIES_BYTES)
        self.set_settings(settings)

    def set_settings(self, settings: GatewaySettings) -> None:
        """Hold to these from the next request on."""
        self._settings = settings
        self._budget.limit_bytes = max(_BODIES_BYTES, settings.max_body_bytes)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """The answer to any request."""
        if request.path == HEALTH_PATH:
            return json_answer(200, {"status": "ok"})
        if not target_of(request).startswith("/"):
            return client_error(400, "The request names no path.", code="no_path")
        if request.method == hdrs.METH_CONNECT or asks_for_upgrade(request.headers):
            return client_error(501, "This gateway speaks plain HTTP only, no upgrades.", code="not_implemented")
        body = Body(self._budget)
        try:
            await body.receive(request, max_bytes=self._settings.max_body_bytes)
            return await self._answer(request, body)
        except (BodyTooLargeError, BodyTooSlowError, web.RequestPayloadError, OutOfMemoryBudgetError) as error:
            return self._not_received(error)
        finally:
            body.release()

    def _not_received(self, error: Exception) -> web.StreamResponse:
        if isinstance(error, BodyTooLargeError):
            limit = f"{self._settings.max_body_bytes} bytes"
            return client_error(413, f"The body is larger than {limit}.", code="request_too_large")
        if isinstance(error, BodyTooSlowError):
            return client_error(408, "The body did not arrive in time.", code="request_timeout")
        if isinstance(error, OutOfMemoryBudgetError):
            return closing(busy("Too many bytes of requests are waiting."))
        return client_error(400, "The body is malformed.", code="malformed_body")

    async def _answer(self, request: web.BaseRequest, body: Body) -> web.StreamResponse:
        policies = self._traffic.policies()
        if not policies:
            return busy("No service is set up yet.")
        is_status = request.method in (hdrs.METH_GET, hdrs.METH_HEAD) and request.path in _STATUS_PATHS
        if is_status and request.path == _MODELS_PATH and SERVICE_HEADER not in request.headers:
            only = policies[0].service if len(policies) == 1 else None
            if only is None or not self._traffic.table.can_begin(only):
                return json_answer(200, model_list(policies, started_s=self._traffic.started_s))
        found = choose(policies, named=request.headers.get(SERVICE_HEADER), body=body.data)
        if isinstance(found, Unroutable):
            return unroutable(found)
        lane = self._traffic.lane(found.service)
        loop = asyncio.get_running_loop()
        exchange = (self._uncounted if is_status else lane.meter).arrive(loop.time())
        try:
            async with asyncio.timeout(found.request_timeout_s):
                return await self._forward(request, body, lane, exchange, 0 if is_status else found.max_waiting)
        except TimeoutError:
            exchange.fail()
            message = f"No whole answer within {found.request_timeout_s} s."
            return _begun(request) or upstream_error(504, message)
        finally:
            exchange.abandon(loop.time())

    async def _forward(
        self, request: web.BaseRequest, body: Body, lane: Lane, exchange: Exchange, max_waiting: int
    ) -> web.StreamResponse:
        until_s = asyncio.get_running_loop().time() + lane.policy.max_wait_s
        try:
            return await self._forwarder.forward(
                request,
                body,
                lane=lane,
                exchange=exchange,
                place=Place(number=next(self._numbers), until_s=until_s),
                max_waiting=max_waiting,
                connect_timeout_s=self._settings.connect_timeout_s,
            )
        except RoomFullError:
            exchange.refuse()
            return busy("No replica is ready, and no more requests may wait.")
        except WaitedTooLongError:
            exchange.refuse()
            return busy(f"No replica became ready within {lane.policy.max_wait_s} s.")
        except RoomClosedError:
            exchange.refuse()
            return closing(busy("The service is being stopped."))
        except ReplicaFailedError as failure:
            exchange.fail()
            _log.warning("service %s: replica failed during a request: %s", lane.policy.service, failure)
            return _begun(request) or upstream_error(502, "The replica broke off.")
        except ConnectionError:  # the client has gone
            return break_off(request)


def _begun(request: web.BaseRequest) -> web.StreamResponse | None:
    return break_off(request) if request.writer.output_size else None
