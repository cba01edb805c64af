"""A real gateway process, and real servers behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Protocol

import aiohttp
import pytest
from aiohttp import web

from adapters.local.gateway_client import GatewayClient
from adapters.local.gateway_process import GatewayProcess
from adapters.local.routes import Endpoint
from adapters.local.template import GatewaySettings, RoutePolicy
from autoscaler.domain.reading import GatewayReading
from autoscaler.domain.service import ServiceId, Slo
from tests.cluster import processes

MAX_BODY_BYTES = 1_000_000

Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@dataclass(kw_only=True)
class Upstream:
    """One replica: a server in the test's own event loop."""

    name: str
    url: str
    requests: list[web.BaseRequest] = field(default_factory=list)

    def endpoint(self, service: ServiceId, *, accepting: bool = True) -> Endpoint:
        return Endpoint(service=service, replica=self.name, url=self.url, accepting=accepting)


class Serve(Protocol):
    def __call__(self, answer: Answer, *, port: int = 0) -> AbstractAsyncContextManager[Upstream]: ...


@dataclass(kw_only=True)
class Gateway:
    """The gateway under test."""

    url: str
    port: int
    directory: Path
    process: GatewayProcess

    @property
    def client(self) -> GatewayClient:
        return self.process.client

    def route(self, policy: RoutePolicy, *endpoints: Endpoint) -> None:
        """Serve this service alone."""
        self.client.put_routes([policy], endpoints)

    def reading(self, service: ServiceId) -> GatewayReading:
        reading = self.client.readings(now_s=0.0)[service]
        assert isinstance(reading, GatewayReading)
        return reading

    async def until(self, service: ServiceId, condition: Callable[[GatewayReading], bool]) -> GatewayReading:
        """Wait for the gateway to have noticed; the test's time limit ends it."""
        while not condition(reading := self.reading(service)):
            await asyncio.sleep(0.01)
        return reading


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@contextmanager
def _running(directory: Path) -> Iterator[Gateway]:
    settings = GatewaySettings(port=0, max_body_bytes=MAX_BODY_BYTES, connect_timeout_s=2.0)
    process = GatewayProcess(directory=directory, settings=settings)
    port = process.ensure().port
    try:
        yield Gateway(url=f"http://127.0.0.1:{port}", port=port, directory=directory, process=process)
    finally:
        process.stop(grace_s=0.0)


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """One process for all tests that do not need one of their own; each test has its own service."""
    with _running(tmp_path_factory.mktemp("gateway")) as running:
        yield running


@pytest.fixture
def own_gateway(tmp_path: Path) -> Iterator[Gateway]:
    """A process that the test may end."""
    with _running(tmp_path) as running:
        yield running


@pytest.fixture
def service(request: pytest.FixtureRequest) -> ServiceId:
    """A name of the test's own, so that the counts are its own."""
    return ServiceId(request.node.nodeid)


@pytest.fixture
def policy(service: ServiceId) -> RoutePolicy:
    """An SLO that a test breaks only if it means to."""
    return RoutePolicy(service=service, models=(), slo=Slo(ttft_s=60.0, itl_s=60.0, e2e_s=60.0))


@pytest.fixture
def serve() -> Serve:
    """Servers named replica-0, replica-1 ... in order of their start."""
    numbers = count()

    @asynccontextmanager
    async def serving(answer: Answer, *, port: int = 0) -> AsyncIterator[Upstream]:
        upstream = Upstream(name=f"replica-{next(numbers)}", url="")

        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            upstream.requests.append(request)
            return await answer(request)

        # Handlers are cancelled when their client, the gateway, goes: as engines do.
        server = web.Server(handle, handler_cancellation=True, access_log=None)
        listener = await asyncio.get_running_loop().create_server(server, "127.0.0.1", port)
        host, bound = listener.sockets[0].getsockname()[:2]
        upstream.url = f"http://{host}:{bound}"
        try:
            yield upstream
        finally:
            listener.close()
            server.pre_shutdown()
            await server.shutdown(0.1)

    return serving


@pytest.fixture
def free_port() -> int:
    """A port that nobody listens on now."""
    return processes.free_port()


@pytest.fixture
async def client(anyio_backend: str) -> AsyncIterator[aiohttp.ClientSession]:
    """Speaks to the gateway with any number of connections."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), auto_decompress=False) as session:
        yield session
