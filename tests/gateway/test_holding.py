"""No replica: requests wait, wake whoever can start one, and none is lost."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web

from adapters.local.gateway_client import GatewayClient
from autoscaler.domain.service import ServiceId

if TYPE_CHECKING:
    from adapters.local.template import RoutePolicy
    from tests.gateway.conftest import Gateway, Serve

pytestmark = pytest.mark.anyio


async def echo(request: web.BaseRequest) -> web.StreamResponse:
    return web.Response(body=await request.read())


async def ask(client: aiohttp.ClientSession, url: str, body: str = "") -> tuple[int, str]:
    async with client.post(url, data=body) as answer:
        return answer.status, await answer.text()


async def test_a_hundred_wait_and_all_are_answered_when_a_replica_is_there(
    gateway: Gateway, policy: RoutePolicy, serve: Serve, client: aiohttp.ClientSession
) -> None:
    gateway.route(policy)
    asked = [asyncio.create_task(ask(client, gateway.url, f"request {number}")) for number in range(100)]
    reading = await gateway.until(policy.service, lambda reading: reading.waiting == 100)
    assert (reading.arrivals, reading.in_flight) == (100, 100)
    async with serve(echo) as replica:
        gateway.route(policy, replica.endpoint(policy.service, accepting=False))
        assert gateway.reading(policy.service).waiting == 100
        gateway.route(policy, replica.endpoint(policy.service))
        assert await asyncio.gather(*asked) == [(200, f"request {number}") for number in range(100)]
        assert len(replica.requests) == 100
    reading = await gateway.until(policy.service, lambda reading: reading.in_flight == 0)
    assert (reading.arrivals, reading.finished, reading.refused, reading.waiting) == (100, 100, 0, 0)


async def test_they_are_let_go_in_order_of_arrival(
    gateway: Gateway, policy: RoutePolicy, serve: Serve, client: aiohttp.ClientSession
) -> None:
    gateway.route(policy)
    order: list[bytes] = []

    async def noting(request: web.BaseRequest) -> web.StreamResponse:
        order.append(await request.read())
        return web.Response()

    asked = []
    for number in range(10):
        asked.append(asyncio.create_task(ask(client, gateway.url, str(number))))
        await gateway.until(policy.service, lambda reading, number=number: reading.waiting == number + 1)  # type: ignore[misc]
    async with serve(noting) as replica:
        gateway.route(policy, replica.endpoint(policy.service))
        await asyncio.gather(*asked)
    assert order == [str(number).encode() for number in range(10)]


async def test_no_more_than_max_waiting(
    gateway: Gateway, policy: RoutePolicy, serve: Serve, client: aiohttp.ClientSession
) -> None:
    bounded = replace(policy, max_waiting=3)
    gateway.route(bounded)
    asked = [asyncio.create_task(ask(client, gateway.url)) for _ in range(3)]
    await gateway.until(policy.service, lambda reading: reading.waiting == 3)
    async with client.post(gateway.url) as answer:
        assert answer.status == 503
        assert int(answer.headers["Retry-After"]) > 0
        assert (await answer.json())["error"]["code"] == "service_unavailable"
    async with serve(echo) as replica:
        gateway.route(bounded, replica.endpoint(policy.service))
        assert await asyncio.gather(*asked) == [(200, "")] * 3
    reading = await gateway.until(policy.service, lambda reading: reading.in_flight == 0)
    assert (reading.arrivals, reading.finished, reading.refused) == (4, 3, 1)
    assert (reading.judged, reading.within_slo) == (4, 3)


async def test_no_longer_than_max_wait(gateway: Gateway, policy: RoutePolicy, client: aiohttp.ClientSession) -> None:
    gateway.route(replace(policy, max_wait_s=0.1))
    async with client.post(gateway.url) as answer:
        assert answer.status == 503
        assert int(answer.headers["Retry-After"]) > 0
        assert "within 0.1 s" in (await answer.json())["error"]["message"]
    reading = gateway.reading(policy.service)
    assert (reading.arrivals, reading.refused, reading.judged, reading.within_slo) == (1, 1, 1, 0)


async def test_who_gives_up_waiting_is_not_sent_on(
    gateway: Gateway, policy: RoutePolicy, serve: Serve, client: aiohttp.ClientSession
) -> None:
    gateway.route(policy)
    asked = [asyncio.create_task(ask(client, gateway.url, str(number))) for number in range(3)]
    await gateway.until(policy.service, lambda reading: reading.waiting == 3)
    asked[1].cancel()
    reading = await gateway.until(policy.service, lambda reading: reading.waiting == 2)
    assert (reading.arrivals, reading.in_flight, reading.judged) == (3, 2, 0)
    async with serve(echo) as replica:
        gateway.route(policy, replica.endpoint(policy.service))
        assert [await asked[0], await asked[2]] == [(200, "0"), (200, "2")]
        assert len(replica.requests) == 2


async def test_a_request_that_came_and_went_is_counted(
    gateway: Gateway, policy: RoutePolicy, client: aiohttp.ClientSession
) -> None:
    gateway.route(policy)
    asked = asyncio.create_task(ask(client, gateway.url))
    await gateway.until(policy.service, lambda reading: reading.waiting == 1)
    asked.cancel()
    reading = await gateway.until(policy.service, lambda reading: reading.waiting == 0)
    assert reading.arrivals == 1


async def test_demand_is_told_once_for_each_beginning(
    gateway: Gateway, policy: RoutePolicy, serve: Serve, client: aiohttp.ClientSession
) -> None:
    gateway.route(policy)
    gateway.client.wait_for_demand(0.0)
    asking = asyncio.create_task(asyncio.to_thread(gateway.client.wait_for_demand, 50.0))
    first = asyncio.create_task(ask(client, gateway.url))
    assert await asking is True
    second = asyncio.create_task(ask(client, gateway.url))
    await gateway.until(policy.service, lambda reading: reading.waiting == 2)
    assert gateway.client.wait_for_demand(0.0) is False  # they still wait, which is no news
    async with serve(echo) as replica:
        gateway.route(policy, replica.endpoint(policy.service))
        await asyncio.gather(first, second)
    gateway.route(policy)
    third = asyncio.create_task(ask(client, gateway.url))
    await gateway.until(policy.service, lambda reading: reading.waiting == 1)
    assert gateway.client.wait_for_demand(50.0) is True
    third.cancel()


async def test_whoever_asks_for_the_first_time_hears_of_those_who_wait_already(
    gateway: Gateway, policy: RoutePolicy, client: aiohttp.ClientSession
) -> None:
    gateway.route(policy)
    asked = asyncio.create_task(ask(client, gateway.url))
    await gateway.until(policy.service, lambda reading: reading.waiting == 1)
    another = GatewayClient(gateway.directory / "gateway.sock")
    assert another.wait_for_demand(50.0) is True
    asked.cancel()


async def test_a_service_that_is_taken_away_turns_its_waiting_requests_away(
    gateway: Gateway, policy: RoutePolicy, client: aiohttp.ClientSession
) -> None:
    gateway.route(policy)
    asked = asyncio.create_task(ask(client, gateway.url))
    await gateway.until(policy.service, lambda reading: reading.waiting == 1)
    gateway.route(replace(policy, service=ServiceId("another")))
    status, _ = await asked
    assert status == 503


@pytest.mark.parametrize("path", ["/health", "/metrics", "/version"])
async def test_asking_how_it_is_wakes_nobody(
    gateway: Gateway, policy: RoutePolicy, serve: Serve, client: aiohttp.ClientSession, path: str
) -> None:
    gateway.route(policy)
    async with client.get(gateway.url + path) as answer:
        assert answer.status == 503
    async with serve(echo) as replica:
        gateway.route(policy, replica.endpoint(policy.service))
        async with client.get(gateway.url + path) as answer:
            assert answer.status == 200
    assert gateway.reading(policy.service).arrivals == 0
