"""The gateway's process: started, taken over, replaced, ended."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import psutil
import pytest
from aiohttp import web

from adapters.local import gateway_protocol as protocol
from adapters.local.gateway_process import GatewayProcess
from adapters.local.template import GatewaySettings
from autoscaler.ports import InvalidAnswerError, RefusedError, UnavailableError

if TYPE_CHECKING:
    from adapters.local.template import RoutePolicy
    from tests.gateway.conftest import Gateway, Serve

pytestmark = pytest.mark.anyio

# What a controller does at its start, and then no more.
CONTROLLER = """
import pathlib, sys, time
from adapters.local.gateway_process import GatewayProcess
from adapters.local.template import GatewaySettings
gateway = GatewayProcess(directory=pathlib.Path(sys.argv[1]), settings=GatewaySettings(port=0))
print(gateway.ensure().pid, flush=True)
time.sleep(1000)
"""


async def hello(_: web.BaseRequest) -> web.StreamResponse:
    return web.Response(text="hello")


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def until_gone(pid: int) -> None:
    while is_running(pid):
        await asyncio.sleep(0.01)


@contextmanager
def stopped_at_the_end(process: GatewayProcess) -> Iterator[GatewayProcess]:
    try:
        yield process
    finally:
        process.stop(grace_s=0.0)


async def test_the_controllers_death_costs_no_request_and_the_next_takes_the_gateway_over(
    tmp_path: Path, policy: RoutePolicy, serve: Serve, client: aiohttp.ClientSession
) -> None:
    release = asyncio.Event()

    async def held(_: web.BaseRequest) -> web.StreamResponse:
        await release.wait()
        return web.Response(text="hello")

    async def ask(url: str) -> str:
        async with client.post(url) as answer:
            return await answer.text()

    with stopped_at_the_end(GatewayProcess(directory=tmp_path, settings=GatewaySettings(port=0))) as next_one:
        controller = subprocess.Popen([sys.executable, "-c", CONTROLLER, str(tmp_path)], stdout=subprocess.PIPE)
        with controller:
            assert controller.stdout is not None
            pid = int(controller.stdout.readline())
            async with serve(held) as replica:
                next_one.client.put_routes([policy], [replica.endpoint(policy.service)])
                url = f"http://127.0.0.1:{next_one.client.identity().port}"
                begun = [asyncio.create_task(ask(url)) for _ in range(5)]
                while next_one.client.in_flight() != {replica.name: 5}:
                    await asyncio.sleep(0.01)
                controller.kill()
                controller.wait()
                later = [asyncio.create_task(ask(url)) for _ in range(5)]
                release.set()
                assert await asyncio.gather(*begun, *later) == ["hello"] * 10
                assert next_one.ensure().pid == pid
                reading = next_one.client.readings(now_s=5.0)[policy.service]
                assert (reading.at_s, reading.arrivals, reading.finished) == (5.0, 10, 10)  # type: ignore[union-attr]


async def test_a_dead_gateway_is_started_again(own_gateway: Gateway) -> None:
    before = own_gateway.process.ensure()
    os.kill(before.pid, signal.SIGKILL)
    await until_gone(before.pid)
    with pytest.raises(UnavailableError, match="no gateway answers"):
        own_gateway.client.readings(now_s=0.0)
    after = own_gateway.process.ensure()
    assert after.pid != before.pid
    assert after.started_s > before.started_s
    assert own_gateway.client.readings(now_s=0.0) == {}


def test_two_that_start_it_at_once_get_the_same(tmp_path: Path) -> None:
    settings = GatewaySettings(port=0)
    processes = [GatewayProcess(directory=tmp_path, settings=settings) for _ in range(4)]
    with stopped_at_the_end(processes[0]), ThreadPoolExecutor() as threads:
        identities = set(threads.map(GatewayProcess.ensure, processes))
        assert len(identities) == 1


def test_its_socket_is_for_its_user_alone(own_gateway: Gateway) -> None:
    for name in ("gateway.sock", "gateway.log"):
        assert stat.S_IMODE((own_gateway.directory / name).stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        pytest.param(GatewaySettings(host="192.0.2.1"), r"192\.0\.2\.1 is no address of this machine", id="foreign"),
        pytest.param(GatewaySettings(host="no such host"), "gateway.host 'no such host'", id="no address"),
        pytest.param(GatewaySettings(port=70000), r"gateway\.port must lie in 0 \.\.\. 65535, got 70000", id="port"),
    ],
)
def test_an_address_that_cannot_be_had(tmp_path: Path, settings: GatewaySettings, words: str) -> None:
    with pytest.raises(RefusedError, match=words):
        GatewayProcess(directory=tmp_path, settings=settings).ensure()


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words = f"port {port} on 127.0.0.1 is taken by another program; stop that one, or set gateway.port"
        with pytest.raises(RefusedError, match=words):
            GatewayProcess(directory=tmp_path, settings=GatewaySettings(port=port)).ensure()


@pytest.mark.parametrize(
    ("directory", "words"),
    [
        pytest.param("missing", "can't make the gateway's socket .*: No such file", id="missing"),
        pytest.param("long/" + "x" * 100, "may have 103 bytes", id="path too long"),
    ],
)
def test_a_directory_that_will_not_do(tmp_path: Path, directory: str, words: str) -> None:
    with pytest.raises(RefusedError, match=words):
        GatewayProcess(directory=tmp_path / directory, settings=GatewaySettings(port=0)).ensure()


async def test_settings_change_without_another_process(
    own_gateway: Gateway, policy: RoutePolicy, serve: Serve, client: aiohttp.ClientSession
) -> None:
    pid = own_gateway.process.ensure().pid
    own_gateway.process.settings = replace(own_gateway.process.settings, max_body_bytes=10)
    assert own_gateway.process.ensure().pid == pid
    assert own_gateway.client.identity().settings.max_body_bytes == 10
    async with serve(hello) as replica:
        own_gateway.route(policy, replica.endpoint(policy.service))
        async with client.post(own_gateway.url, data=bytes(11)) as answer:
            assert answer.status == 413


async def test_another_address_is_another_process_and_the_old_finishes_its_requests(
    own_gateway: Gateway, policy: RoutePolicy, serve: Serve, client: aiohttp.ClientSession, free_port: int
) -> None:
    release = asyncio.Event()

    async def held(_: web.BaseRequest) -> web.StreamResponse:
        await release.wait()
        return web.Response(text="finished")

    async def ask() -> str:
        async with client.post(own_gateway.url) as answer:
            return await answer.text()

    async with serve(held) as replica:
        own_gateway.route(policy, replica.endpoint(policy.service))
        old = own_gateway.process.ensure()
        asked = asyncio.create_task(ask())
        await own_gateway.until(policy.service, lambda reading: reading.in_flight == 1)
        own_gateway.process.settings = replace(own_gateway.process.settings, port=free_port)
        new = own_gateway.process.ensure()
        assert (new.pid != old.pid, new.port) == (True, free_port)
        release.set()
        assert await asked == "finished"
        await until_gone(old.pid)
        assert own_gateway.process.ensure() == new


async def test_an_address_that_is_taken_leaves_the_old_in_place(own_gateway: Gateway) -> None:
    old = own_gateway.process.ensure()
    before = own_gateway.process.settings
    with socket.create_server(("127.0.0.1", 0)) as taken:
        own_gateway.process.settings = replace(before, port=taken.getsockname()[1])
        with pytest.raises(RefusedError, match="is taken by another program"):
            own_gateway.process.ensure()
    own_gateway.process.settings = before
    assert own_gateway.process.ensure() == old


async def test_a_gateway_of_another_protocol_makes_room(tmp_path: Path) -> None:
    """A stand-in for one of a later version: its identity says more and other things than ours."""
    told_to_stop = asyncio.Event()
    application = web.Application()

    async def identity(_: web.Request) -> web.Response:
        return web.json_response({"protocol": 99, "pid": 1, "listens": ["tcp://127.0.0.1:1"]})

    async def stop(_: web.Request) -> web.Response:
        (tmp_path / "gateway.sock").unlink()
        told_to_stop.set()
        return web.Response(status=204)

    application.add_routes([web.get(protocol.IDENTITY, identity), web.post(protocol.STOP, stop)])
    runner = web.AppRunner(application)
    await runner.setup()
    await web.UnixSite(runner, str(tmp_path / "gateway.sock")).start()
    process = GatewayProcess(directory=tmp_path, settings=GatewaySettings(port=0))
    with stopped_at_the_end(process):
        with pytest.raises(InvalidAnswerError):
            await asyncio.to_thread(process.client.identity)
        ours = await asyncio.to_thread(process.ensure)
        assert told_to_stop.is_set()
        assert ours.protocol == protocol.PROTOCOL
    await runner.cleanup()


@pytest.mark.parametrize("how", ["signal", "order"])
async def test_told_to_end_it_finishes_what_is_in_flight_and_turns_away_who_waits(
    own_gateway: Gateway, policy: RoutePolicy, serve: Serve, client: aiohttp.ClientSession, how: str
) -> None:
    release = asyncio.Event()

    async def held(_: web.BaseRequest) -> web.StreamResponse:
        await release.wait()
        return web.Response(text="finished")

    async def ask() -> tuple[int, str]:
        async with client.post(own_gateway.url) as answer:
            return answer.status, await answer.text()

    pid = own_gateway.process.ensure().pid
    async with serve(held) as replica:
        own_gateway.route(policy, replica.endpoint(policy.service))
        in_flight = asyncio.create_task(ask())
        await own_gateway.until(policy.service, lambda reading: reading.in_flight == 1)
        own_gateway.route(policy, replica.endpoint(policy.service, accepting=False))
        waiting = asyncio.create_task(ask())
        await own_gateway.until(policy.service, lambda reading: reading.waiting == 1)
        if how == "signal":
            os.kill(pid, signal.SIGTERM)
        else:
            own_gateway.client.stop(grace_s=30.0)
        status, _ = await waiting
        assert status == 503
        with pytest.raises(aiohttp.ClientConnectorError):
            await ask()
        assert is_running(pid)
        release.set()
        assert await in_flight == (200, "finished")
    await until_gone(pid)
    assert not (own_gateway.directory / "gateway.sock").exists()


async def test_no_request_keeps_it_longer_than_its_grace(
    own_gateway: Gateway, policy: RoutePolicy, serve: Serve, client: aiohttp.ClientSession
) -> None:
    async def never(_: web.BaseRequest) -> web.StreamResponse:
        await asyncio.Event().wait()
        return web.Response()

    async def ask() -> None:
        async with client.post(own_gateway.url) as answer:
            await answer.read()

    pid = own_gateway.process.ensure().pid
    async with serve(never) as replica:
        own_gateway.route(policy, replica.endpoint(policy.service))
        asked = asyncio.create_task(ask())
        await own_gateway.until(policy.service, lambda reading: reading.in_flight == 1)
        await asyncio.to_thread(own_gateway.process.stop, grace_s=0.1)
        assert not is_running(pid)
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await asked


def test_routes_that_make_no_sense_are_refused_and_the_old_stay(own_gateway: Gateway, policy: RoutePolicy) -> None:
    own_gateway.route(policy)
    with pytest.raises(InvalidAnswerError, match="listed twice"):
        own_gateway.client.put_routes([policy, policy], [])
    assert list(own_gateway.client.readings(0.0)) == [policy.service]
