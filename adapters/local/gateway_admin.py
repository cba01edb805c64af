"""The gateway's side of the admin socket: takes routes and settings, gives readings and demand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from aiohttp import web

from adapters.local import gateway_protocol as protocol
from adapters.local.gateway_handling import Handler
from adapters.local.gateway_protocol import DemandAnswer, DemandQuestion, Identity, RoutesUpdate, StopOrder
from adapters.local.gateway_traffic import Traffic
from adapters.local.template import GatewaySettings
from autoscaler import codec

T = TypeVar("T")

_MAX_MESSAGE_BYTES = 64 * 1024 * 1024


class Admin:
    """Answers the controller. ``stop`` is called with the grace period."""

    def __init__(
        self,
        traffic: Traffic,
        handler: Handler,
        identity: Identity,
        stop: Callable[[float], None],
    ) -> None:
        self._traffic = traffic
        self._handler = handler
        self._identity = identity
        self._stop = stop

    def application(self) -> web.Application:
        """The paths of the protocol."""
        application = web.Application(client_max_size=_MAX_MESSAGE_BYTES)
        application.add_routes(
            [
                web.get(protocol.IDENTITY, self._get_identity),
                web.put(protocol.SETTINGS, self._put_settings),
                web.put(protocol.ROUTES, self._put_routes),
                web.get(protocol.READINGS, self._get_readings),
                web.get(protocol.IN_FLIGHT, self._get_in_flight),
                web.post(protocol.DEMAND, self._ask_demand),
                web.post(protocol.STOP, self._post_stop),
            ]
        )
        return application

    async def _get_identity(self, _: web.Request) -> web.Response:
        return _json(self._identity)

    async def _put_settings(self, request: web.Request) -> web.Response:
        settings = await _read(GatewaySettings, request)
        present = self._identity.settings
        if settings.addresses != present.addresses:
            raise web.HTTPConflict(text="the address can only be changed by another start")
        self._handler.set_settings(settings)
        self._identity = replace(self._identity, settings=settings)
        return _json(self._identity)

    async def _put_routes(self, request: web.Request) -> web.Response:
        try:
            self._traffic.put(await _read(RoutesUpdate, request))
        except ValueError as error:
            raise web.HTTPBadRequest(text=str(error)) from error
        return web.Response(status=204)

    async def _get_readings(self, _: web.Request) -> web.Response:
        return _json(tuple(self._traffic.readings()))

    async def _get_in_flight(self, _: web.Request) -> web.Response:
        return _json(self._traffic.table.in_flight())

    async def _ask_demand(self, request: web.Request) -> web.Response:
        question = await _read(DemandQuestion, request)
        signal = self._traffic.demand
        loop = asyncio.get_running_loop()
        until_s = loop.time() + min(question.timeout_s, protocol.MAX_POLL_S)
        while not (is_news := signal.rise != question.seen and self._traffic.is_anyone_waiting()):
            left_s = until_s - loop.time()
            if left_s <= 0:
                break
            await signal.wait(timeout_s=left_s)
        return _json(DemandAnswer(waiting=is_news, rise=signal.rise))

    async def _post_stop(self, request: web.Request) -> web.Response:
        self._stop((await _read(StopOrder, request)).grace_s)
        return web.Response(status=204)


async def _read(kind: type[T], request: web.Request) -> T:
    try:
        return codec.decode(kind, await request.read())
    except ValueError as error:
        raise web.HTTPBadRequest(text=str(error)) from error


def _json(content: object) -> web.Response:
    return web.Response(body=codec.encode(content), content_type="application/json")
