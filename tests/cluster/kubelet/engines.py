"""Emulated engines behind pods, each a process on its pod's address."""

from __future__ import annotations

import asyncio
import itertools
import shlex
import signal
import sys
from collections.abc import Sequence

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

_IN_FLIGHT = ("vllm:num_requests_running", "vllm:num_requests_waiting")
_PROBE_TIMEOUT_S = 2.0


class Engine:
    """One running engine. ``ended``: its exit code, once it has one; negative where a signal ended it."""

    def __init__(self, key: str, url: str, host: EngineHost) -> None:
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._key = key
        self._url = url
        self._host = host

    def kill(self) -> None:
        """KILL it."""
        self._host.tell(f"kill {self._key} {int(signal.SIGKILL)}")

    async def ready(self) -> bool:
        """As a readiness probe of ``/health`` finds it."""
        try:
            async with self._host.session.get(f"{self._url}/health") as response:
                return response.status == 200
        except (aiohttp.ClientError, OSError, TimeoutError):
            return False

    async def idle(self) -> bool:
        """No request runs or waits, as its page says; without a page it counts as busy."""
        try:
            async with self._host.session.get(f"{self._url}/metrics") as response:
                text = await response.text()
            samples = [each for family in text_string_to_metric_families(text) for each in family.samples]
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
            return False
        in_flight = [each.value for each in samples if each.name in _IN_FLIGHT]
        return bool(in_flight) and not any(in_flight)


class EngineHost:
    """Starts engines in a process of their own (``engine_host``), which ends with this one."""

    def __init__(self) -> None:
        self.session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, force_close=True),
            timeout=aiohttp.ClientTimeout(total=_PROBE_TIMEOUT_S),
        )
        self._keys = itertools.count(1)
        self._running: dict[str, Engine] = {}
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Start the host."""
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "tests.cluster.kubelet.engine_host"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        self._reader = asyncio.create_task(self._read())

    async def close(self) -> None:
        """End every engine."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            await self._process.wait()
        await self.session.close()

    def start(self, host: str, port: int, flags: Sequence[str]) -> Engine:
        """Start an engine there; it is ready when it says so."""
        key = str(next(self._keys))
        engine = Engine(key, f"http://{host}:{port}", self)
        self._running[key] = engine
        words = shlex.join(("--host", host, "--port", str(port), *flags))
        self.tell(f"start {key} {words}")
        return engine

    def tell(self, line: str) -> None:
        """Send the host a line."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())

    async def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            _, key, code = line.split()
            engine = self._running.pop(key.decode())
            if not engine.ended.done():
                engine.ended.set_result(int(code))
