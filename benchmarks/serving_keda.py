"""How fast KEDA's external scaler answers GetMetrics: ``python -m benchmarks.serving_keda``.

A real server in a process of its own, on one core, tells of many services that change all the while; a client on
another core asks on a fixed schedule (a slow answer does not hold back the next call), about another service each
time, over one connection, as KEDA does. The client is KEDA's own (benchmarks/keda_client, which takes the Go
toolchain), or one in Python that costs little. Times are from the sending of a call to its answer in the client. The
exit code is 1 above the allowed p99; that takes a machine with nothing else to do (or ``--real-time``), so the server's
processor time for a call is shown beside it.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from adapters.serving.keda.server import ScalerServer, ScalerSettings
from autoscaler.compose import collect_garbage_less_often
from autoscaler.domain.publication import Publication
from benchmarks.keda_client import NoClientError, built, call_times
from benchmarks.lean_grpc import LeanClient

ALLOWED_P99_MS = 1.0

_METHOD = "/externalscaler.ExternalScaler/GetMetrics"
_NAMESPACE = "inference"
_STALE_AFTER_S = 60.0
# The loop's own timers are too coarse for the schedule. A client without a pause would be held for 50 ms of each
# second where it runs in real time (Linux: Documentation/scheduler/sched-rt-group.rst, sched_rt_runtime_us).
_PAUSE_S = 3e-5


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """So many calls a second, for so many seconds, about so many services in turn."""

    port: int
    rate: int
    seconds: int
    services: int


class Services:
    """Publications of so many services, all of them renewed again and again by another thread."""

    def __init__(self, number: int) -> None:
        self._names = [_name(index) for index in range(number)]
        self._latest: dict[str, Publication] = {}
        self._wakes: list[Callable[[], None]] = []
        self.renew(replicas=1)

    def renew(self, *, replicas: int) -> None:
        """Publish anew for each."""
        for name in self._names:
            self._latest[name] = Publication(
                namespace=_NAMESPACE,
                name=name,
                at_s=time.time(),
                stale_after_s=_STALE_AFTER_S,
                desired_replicas=replicas,
                targets=(("full", replicas),),
                signals=(("arrival_rate_rps", 12.5), ("queued_requests", 3.0)),
            )
            for wake in self._wakes:
                wake()

    def of(self, namespace: str, name: str) -> Publication | None:
        """As the port says."""
        return self._latest.get(name) if namespace == _NAMESPACE else None

    def within(self, namespace: str) -> Sequence[Publication]:
        """As the port says."""
        return [self._latest[name] for name in sorted(self._latest)] if namespace == _NAMESPACE else []

    def subscribe(self, wake: Callable[[], None]) -> Callable[[], None]:
        """As the port says."""
        self._wakes.append(wake)
        return lambda: self._wakes.remove(wake)


def main() -> int:
    """Measure and print. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serving_keda", description=__doc__)
    parser.add_argument("--rate", type=int, default=1000, help="calls per second")
    parser.add_argument("--seconds", type=int, default=10, help="how long to measure")
    parser.add_argument("--services", type=int, default=200, help="how many are told of")
    parser.add_argument("--real-time", action="store_true", help="as root: go before all else that runs here")
    parser.add_argument("--client", choices=("keda", "python"), help="unset: KEDA's where there is Go")
    options = parser.parse_args()
    program = None if options.client == "python" else _keda(required=options.client == "keda")

    if options.real_time:  # inherited by the process that is started
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    cores = sorted(os.sched_getaffinity(0))
    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(
        target=_serve, args=(there, options.services, cores[0]), daemon=True
    )
    server.start()
    os.sched_setaffinity(0, {cores[-1]})
    port: int = here.recv()
    load = Load(port=port, rate=options.rate, seconds=options.seconds, services=options.services)
    try:
        times_s, cpu_s = asyncio.run(_by_python(here, load)) if program is None else _by_keda(here, load, program)
    finally:
        here.send("stop")
        server.join(timeout=10)
    return _report(times_s, cpu_s, load, client="python's" if program is None else "KEDA's")


def _keda(*, required: bool) -> Path | None:
    try:
        return built()
    except NoClientError as error:
        if required:
            raise SystemExit(f"no client of KEDA's: {error}") from error
        print(f"a client in Python asks, as there is none of KEDA's: {error}")
        return None


def _name(index: int) -> str:
    return f"service-{index}"


def _serve(pipe: Connection, services: int, core: int) -> None:
    os.sched_setaffinity(0, {core})
    collect_garbage_less_often()  # as every controller does
    publications = Services(services)
    server = ScalerServer(publications, ScalerSettings(port=0), now_s=time.time)
    server.start()
    ended = threading.Event()

    def renew() -> None:
        replicas = 1
        while not ended.wait(1.0):
            replicas = replicas % 50 + 1
            publications.renew(replicas=replicas)

    writer = threading.Thread(target=renew)
    writer.start()
    pipe.send(server.port)
    while pipe.recv() != "stop":
        pipe.send(time.process_time())
    ended.set()
    writer.join()
    server.stop()


def _by_keda(pipe: Connection, load: Load, program: Path) -> tuple[list[float], float]:
    """Seconds of each call, and the server's seconds of processor time for all."""
    before_s: list[float] = []
    times_s = call_times(
        program,
        load.port,
        rate=load.rate,
        seconds=load.seconds,
        services=load.services,
        begun=lambda: before_s.append(_cpu_s(pipe)),
    )
    return times_s, _cpu_s(pipe) - before_s[0]


async def _by_python(pipe: Connection, load: Load) -> tuple[list[float], float]:
    """As ``_by_keda``."""
    requests = [_request(_name(index)) for index in range(load.services)]
    transport, client = await asyncio.get_running_loop().create_connection(
        lambda: LeanClient(_METHOD), "127.0.0.1", load.port
    )
    await _offer(client, requests, rate=load.rate, seconds=2)  # warms caches
    gc.collect()
    gc.disable()  # the client's own pauses are not the server's
    before_s = _cpu_s(pipe)
    times_s = await _offer(client, requests, rate=load.rate, seconds=load.seconds)
    cpu_s = _cpu_s(pipe) - before_s
    transport.close()
    return times_s, cpu_s


async def _offer(client: LeanClient, requests: list[bytes], *, rate: int, seconds: int) -> list[float]:
    begun_s, calls = time.perf_counter(), []
    for index in range(rate * seconds):
        await asyncio.sleep(0)  # take answers
        while time.perf_counter() < begun_s + index / rate:
            time.sleep(_PAUSE_S)
            await asyncio.sleep(0)
        calls.append(client.call(requests[index % len(requests)]))
    await client.all_answered()
    wrong = [call.answer for call in calls if b"desired_replicas" not in call.answer]
    if wrong:
        raise SystemExit(f"{len(wrong)} calls were not answered with a number, the first with {wrong[0]!r}")
    return [call.took_s for call in calls if call.took_s is not None]


def _request(service: str) -> bytes:
    """A GetMetricsRequest with a trigger's usual metadata, written by hand: field, length, content."""
    metadata = {"scalerAddress": "gpu-autoscaler.gpu-autoscaler:9090", "service": service}
    entries = b"".join(
        _field(3, _field(1, key.encode()) + _field(2, value.encode())) for key, value in metadata.items()
    )
    scaled_object = _field(1, service.encode()) + _field(2, _NAMESPACE.encode()) + entries
    return _field(1, scaled_object) + _field(2, b"desired_replicas")


def _field(number: int, content: bytes) -> bytes:
    if len(content) > 255:
        raise ValueError(f"a length of {len(content)} takes more than two bytes")
    length = bytes([len(content)]) if len(content) < 128 else bytes([0x80 | len(content) & 0x7F, 1])
    return bytes([number << 3 | 2]) + length + content


def _cpu_s(pipe: Connection) -> float:
    pipe.send("cpu")
    told: float = pipe.recv()
    return told


def _report(times_s: list[float], cpu_s: float, load: Load, *, client: str) -> int:
    ordered = sorted(times_s)
    quantiles = {q: 1e3 * ordered[min(len(ordered) - 1, int(q * len(ordered)))] for q in (0.5, 0.99, 0.999)}
    print(f"GetMetrics               {len(ordered)} calls at {load.rate}/s, {client} client")
    print(f"p50, p99, p99.9          {quantiles[0.5]:.2f}, {quantiles[0.99]:.2f}, {quantiles[0.999]:.2f} ms")
    cpu_us = 1e6 * cpu_s / len(ordered)
    print(f"server's CPU             {cpu_us:.0f} us a call, {cpu_us * load.rate / 1e4:.0f} % of a core")
    if quantiles[0.99] > ALLOWED_P99_MS:
        print(f"p99 above the allowed {ALLOWED_P99_MS:g} ms")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
