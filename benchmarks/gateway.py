"""What the gateway adds to a request: ``python -m benchmarks.gateway``.

Requests arrive on a Poisson process (open loop: a slow answer does not hold back the next request) and go turn by turn
straight to a small server in another process, and to the same server through a real gateway process. All three, and
the sender, share this machine. Times are from the sending of a request to the last byte of its answer, on connections
that are kept. The exit code is 1 where the gateway adds more than 1 ms to the median; that takes a machine with
nothing else to do, so the gateway's processor time for a request is shown beside it.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import multiprocessing
import random
import sys
import tempfile
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

import psutil

from adapters.local.gateway_process import GatewayProcess
from adapters.local.routes import Endpoint
from adapters.local.template import GatewaySettings, RoutePolicy
from autoscaler.domain.service import ServiceId, Slo

ALLOWED_MS = 1.0

_BODY = json.dumps({"model": "small", "messages": [{"role": "user", "content": "word " * 400}]}).encode()
_ANSWER_BODY = json.dumps({"choices": [{"message": {"content": "word " * 200}}]}).encode()
_ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(_ANSWER_BODY)
) + _ANSWER_BODY


@dataclass(kw_only=True)
class Way:
    """A way to the server: its port, the connections that lie idle, and the times measured."""

    name: str
    port: int
    idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = field(default_factory=list)
    times_s: list[float] = field(default_factory=list)

    async def ask(self) -> float:
        """Send one request; the seconds it took."""
        begun_s = time.perf_counter()
        reader, writer = self.idle.pop() if self.idle else await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n" % len(_BODY) + _BODY
        )
        head = await reader.readuntil(b"\r\n\r\n")
        content = await reader.readexactly(len(_ANSWER_BODY))
        took_s = time.perf_counter() - begun_s
        if not head.startswith(b"HTTP/1.1 200") or content != _ANSWER_BODY:
            raise RuntimeError(f"{self.name}: answered {head[:40]!r}")
        self.idle.append((reader, writer))
        return took_s

    def quantile_ms(self, q: float) -> float:
        """Of the times, in milliseconds."""
        return sorted(self.times_s)[int(q * len(self.times_s))] * 1e3


def main() -> int:
    """Measure and print. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gateway", description=__doc__)
    parser.add_argument("--rate-rps", type=float, default=200.0, help="requests per second on each way")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long to measure")
    parser.add_argument(
        "--services", type=int, default=2, help="how many are served; with more than one, bodies are read"
    )
    options = parser.parse_args()

    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=_serve, args=(there,), daemon=True)
    server.start()
    port = here.recv()
    with tempfile.TemporaryDirectory() as directory:
        gateway = GatewayProcess(directory=Path(directory), settings=GatewaySettings(port=0))
        identity = gateway.ensure()
        process = psutil.Process(identity.pid)
        try:
            _route(gateway, port, options.services)
            ways = [Way(name="direct", port=port), Way(name="through the gateway", port=identity.port)]
            cpu_s = asyncio.run(_measure(ways, process, rate_rps=options.rate_rps, seconds=options.seconds))
        finally:
            gateway.stop(grace_s=0.0)
            server.terminate()
    return _report(ways, options.rate_rps, cpu_s)


def _route(gateway: GatewayProcess, port: int, services: int) -> None:
    policies = [
        RoutePolicy(
            service=ServiceId(f"service-{number}"),
            models=("small",) if number == 0 else (f"other-{number}",),
            slo=Slo(ttft_s=1.0),
        )
        for number in range(services)
    ]
    url = f"http://127.0.0.1:{port}"
    gateway.client.put_routes(
        policies, [Endpoint(service=policies[0].service, replica="only", url=url, accepting=True)]
    )


async def _measure(ways: list[Way], gateway: psutil.Process, *, rate_rps: float, seconds: float) -> float:
    """Fill in the times; the processor time of the gateway meanwhile."""
    await _offer(ways, rate_rps=rate_rps, seconds=2.0)  # opens connections, warms caches
    for way in ways:
        way.times_s.clear()
    gc.collect()
    gc.disable()  # the sender's own pauses are not the gateway's
    before = gateway.cpu_times()
    await _offer(ways, rate_rps=rate_rps, seconds=seconds)
    after = gateway.cpu_times()
    return (after.user - before.user) + (after.system - before.system)


async def _offer(ways: list[Way], *, rate_rps: float, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    seeded = random.Random(1)

    async def one(way: Way) -> None:
        way.times_s.append(await way.ask())

    end_s = loop.time() + seconds
    at_s = loop.time()
    async with asyncio.TaskGroup() as requests:
        while at_s < end_s:
            for way in ways:
                at_s += seeded.expovariate(rate_rps * len(ways))
                await asyncio.sleep(at_s - loop.time())
                requests.create_task(one(way))


def _report(ways: list[Way], rate_rps: float, cpu_s: float) -> int:
    direct, through = ways
    print(f"{rate_rps:.0f} requests/s on each way, {len(_BODY)} bytes to send, {len(_ANSWER_BODY)} to receive")
    print(f"{'':22}{'requests':>10}{'p50 ms':>10}{'p99 ms':>10}")
    for way in ways:
        print(f"{way.name:22}{len(way.times_s):>10}{way.quantile_ms(0.5):>10.3f}{way.quantile_ms(0.99):>10.3f}")
    added_ms = through.quantile_ms(0.5) - direct.quantile_ms(0.5)
    added_p99_ms = through.quantile_ms(0.99) - direct.quantile_ms(0.99)
    print(f"{'added by the gateway':22}{'':>10}{added_ms:>10.3f}{added_p99_ms:>10.3f}")
    print(f"processor time of the gateway: {cpu_s / len(through.times_s) * 1e3:.3f} ms a request")
    if added_ms > ALLOWED_MS:
        print(f"more than the {ALLOWED_MS} ms that it may add to the median")
        return 1
    return 0


def _serve(ready: Connection) -> None:
    asyncio.run(_serve_answers(ready))


async def _serve_answers(ready: Connection) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                await reader.readexactly(length)
                writer.write(_ANSWER)
        except asyncio.IncompleteReadError:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    ready.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()


if __name__ == "__main__":
    sys.exit(main())
