"""Real pages, and real servers on the loopback interface that answer as told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from aiohttp import web

from adapters.loop_thread import LoopThread

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Serve = Callable[[Handler], str]

SCRAPES = Path(__file__).parents[1] / "fixtures" / "scrapes"


@pytest.fixture(scope="session")
def overloaded_page() -> bytes:
    """vLLM 0.32 four seconds after 400 requests at once: 128 run, 272 wait."""
    return (SCRAPES / "vllm_0.32_cpu_overloaded.prom").read_bytes()


@pytest.fixture(scope="session")
def idle_page() -> bytes:
    """vLLM 0.32 before any request."""
    return (SCRAPES / "vllm_0.32_cpu_idle.prom").read_bytes()


@pytest.fixture(scope="session")
def triton_page() -> bytes:
    """Triton with a Python model and 32 pending requests."""
    return (SCRAPES / "triton_cpu_loaded.prom").read_bytes()


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts a server whose every path is answered by the handler; returns "http://127.0.0.1:PORT"."""
    loop = LoopThread("served")
    runners: list[web.AppRunner] = []

    async def start(handler: Handler) -> str:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handler)
        runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        runners.append(runner)
        host, port = runner.addresses[0]
        return f"http://{host}:{port}"

    async def stop() -> None:
        for runner in runners:
            await runner.cleanup()

    yield lambda handler: loop.begin(start(handler)).result()
    loop.begin(stop()).result()
    loop.close()
