"""The gateway as the controller uses it: kept running, asked for readings, waking the controller."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web

from adapters.local.gateway_keeping import GatewayKeeper
from adapters.local.gateway_ports import GatewayRoutes, GatewaySource
from adapters.local.gateway_process import GatewayProcess
from adapters.local.routes import Endpoint, RouteTable
from adapters.local.template import GatewaySettings
from autoscaler.domain.cluster import ClusterSnapshot, Phase, Replica, Target
from autoscaler.domain.reading import AnyGatewayReading, GatewayReading, Unknown, UnknownReason
from autoscaler.domain.service import ServiceId
from autoscaler.ports import MetricsSource, RefusedError

if TYPE_CHECKING:
    from adapters.local.template import RoutePolicy
    from tests.gateway.conftest import Gateway, Serve

pytestmark = pytest.mark.anyio


async def hello(_: web.BaseRequest) -> web.StreamResponse:
    return web.Response(text="hello")


class Kept:
    """A kept gateway, and whether it has woken the controller."""

    def __init__(self, directory: Path, policy: RoutePolicy, port: int) -> None:
        self.directory = directory
        self.process = GatewayProcess(directory=directory, settings=GatewaySettings(port=port))
        self.routes = GatewayRoutes(self.process.client, [policy])
        self.woken = threading.Event()
        self.keeper = GatewayKeeper(self.process, self.routes, on_demand=self.woken.set)
        self.identity = self.keeper.start()
        self.url = f"http://127.0.0.1:{port}"


@pytest.fixture
def kept(tmp_path: Path, policy: RoutePolicy, free_port: int) -> Iterator[Kept]:
    kept = Kept(tmp_path, policy, free_port)
    try:
        yield kept
    finally:
        kept.keeper.close(leave_running=False, grace_s=0.0)


async def test_a_killed_gateway_is_back_with_its_routes(
    kept: Kept, policy: RoutePolicy, serve: Serve, client: aiohttp.ClientSession
) -> None:
    async with serve(hello) as replica:
        kept.routes.set_routes([replica.endpoint(policy.service)])
        os.kill(kept.identity.pid, signal.SIGKILL)
        while kept.routes.in_flight() != {replica.name: 0}:
            await asyncio.sleep(0.01)
        assert kept.process.client.identity().pid != kept.identity.pid
        async with client.post(kept.url) as answer:
            assert await answer.text() == "hello"


async def test_routes_that_change_while_it_is_dead_are_told_to_the_next(
    kept: Kept, policy: RoutePolicy, serve: Serve, client: aiohttp.ClientSession
) -> None:
    async with serve(hello) as first, serve(hello) as second:
        kept.routes.set_routes([first.endpoint(policy.service)])
        os.kill(kept.identity.pid, signal.SIGKILL)
        kept.routes.set_routes([second.endpoint(policy.service)])
        while kept.routes.in_flight() != {second.name: 0}:
            await asyncio.sleep(0.01)
        async with client.post(kept.url) as answer:
            assert answer.status == 200
        assert len(second.requests) == 1


async def test_a_waiting_request_wakes_the_controller(
    kept: Kept, policy: RoutePolicy, client: aiohttp.ClientSession
) -> None:
    kept.routes.set_routes([])
    asked = asyncio.create_task(ask(client, kept.url))
    await asyncio.to_thread(kept.woken.wait)
    assert read(kept.process.client.readings(0.0), policy.service).waiting == 1
    asked.cancel()


async def test_left_running_it_serves_on_for_the_next(
    kept: Kept, policy: RoutePolicy, serve: Serve, client: aiohttp.ClientSession
) -> None:
    async with serve(hello) as replica:
        kept.routes.set_routes([replica.endpoint(policy.service)])
        kept.keeper.close(leave_running=True, grace_s=0.0)
        next_one = Kept(kept.directory, policy, kept.identity.port)
        assert next_one.identity == kept.identity
        async with client.post(kept.url) as answer:  # its routes are kept until the next one knows its replicas
            assert answer.status == 200
        next_one.keeper.close(leave_running=True, grace_s=0.0)


async def test_a_change_of_configuration_that_is_refused_changes_nothing(kept: Kept, policy: RoutePolicy) -> None:
    kept.routes.set_routes([])
    before = kept.process.settings
    with pytest.raises(RefusedError, match=r"gateway\.port must lie in"):
        kept.keeper.configure(replace(before, port=70000), [])
    assert kept.process.settings == before
    assert list(kept.process.client.readings(0.0)) == [policy.service]
    renamed = replace(policy, service=ServiceId("renamed"))
    kept.keeper.configure(replace(before, max_body_bytes=10), [renamed])
    assert list(kept.process.client.readings(0.0)) == ["renamed"]
    assert kept.process.client.identity().settings.max_body_bytes == 10


def test_without_a_gateway_nothing_is_known(tmp_path: Path, policy: RoutePolicy) -> None:
    process = GatewayProcess(directory=tmp_path, settings=GatewaySettings(port=0))
    routes: RouteTable = GatewayRoutes(process.client, [policy])
    routes.set_routes([])
    assert routes.in_flight() == {}


class Stopped:
    """A clock that stands at 42 s."""

    def now_s(self) -> float:
        return 42.0

    def wait_until(self, at_s: float) -> None:
        raise AssertionError(f"nobody should wait until {at_s}")


def snapshot(*services: str) -> ClusterSnapshot:
    """The first service is known by its target, the others by a replica."""
    first, *others = map(ServiceId, services)
    return ClusterSnapshot(
        at_s=41.0,
        devices=(),
        replicas=tuple(
            Replica(name=f"{name}-0", service=name, variant="v", phase=Phase.READY, created_s=0.0) for name in others
        ),
        targets=(Target(service=first, variant="v", replicas=0),),
    )


async def test_readings_become_observations(
    gateway: Gateway, policy: RoutePolicy, serve: Serve, client: aiohttp.ClientSession
) -> None:
    source: MetricsSource = GatewaySource(gateway.client, Stopped())
    async with serve(hello) as replica:
        gateway.route(policy, replica.endpoint(policy.service))
        async with client.post(gateway.url) as answer:
            assert answer.status == 200
        await gateway.until(policy.service, lambda reading: reading.in_flight == 0)
    observed = source.read(snapshot(policy.service, "unrouted"))
    assert (observed.at_s, observed.engines) == (42.0, {})
    reading = read(observed.gateways, policy.service)
    assert (reading.at_s, reading.arrivals, reading.finished) == (42.0, 1, 1)
    assert reading.started_s == gateway.client.identity().started_s
    unrouted = observed.gateways["unrouted"]
    assert isinstance(unrouted, Unknown)
    assert unrouted.reason is UnknownReason.MISSING_SERIES


def test_a_gateway_that_does_not_answer_is_unknown_not_zero(tmp_path: Path) -> None:
    process = GatewayProcess(directory=tmp_path, settings=GatewaySettings(port=0))
    observed = GatewaySource(process.client, Stopped()).read(snapshot("chat", "embed"))
    assert sorted(observed.gateways) == ["chat", "embed"]
    for unknown in observed.gateways.values():
        assert isinstance(unknown, Unknown)
        assert unknown.reason is UnknownReason.UNREACHABLE


def test_an_endpoint_that_is_unknown_to_it_is_not_in_flight(gateway: Gateway, policy: RoutePolicy) -> None:
    endpoint = Endpoint(service=policy.service, replica="a", url="http://127.0.0.1:1", accepting=False)
    routes = GatewayRoutes(gateway.client, [policy])
    routes.set_routes([endpoint])
    assert routes.in_flight() == {"a": 0}


async def ask(client: aiohttp.ClientSession, url: str) -> None:
    async with client.post(url) as answer:
        await answer.read()


def read(readings: Mapping[str, AnyGatewayReading | Unknown], service: ServiceId) -> GatewayReading:
    reading = readings[service]
    assert isinstance(reading, GatewayReading)
    return reading
