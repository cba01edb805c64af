"""Engines of four kinds whose counters follow the wall clock, in one process, a port each."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from aiohttp import web

from adapters.loop_thread import LoopThread
from autoscaler.domain.service import Engine

Render = Callable[[int, int], str]


def vllm(arrived: int, running: int) -> str:
    """Requests that have a first token count as soon as they have come."""
    return (
        f'vllm:num_requests_running{{engine="0"}} {running}\nvllm:num_requests_waiting{{engine="0"}} 0\n'
        f'vllm:request_success_total{{engine="0",finished_reason="stop"}} {arrived - running}\n'
        + _histogram("vllm:time_to_first_token_seconds", arrived)
        + _histogram("vllm:e2e_request_latency_seconds", arrived - running)
    )


def sglang(arrived: int, running: int) -> str:
    return (
        f'sglang:num_running_reqs{{tp_rank="0"}} {running}\nsglang:num_running_reqs{{tp_rank="1"}} {running}\n'
        f'sglang:num_queue_reqs{{tp_rank="0"}} 0\nsglang:num_queue_reqs{{tp_rank="1"}} 0\n'
        f"sglang:num_requests_total {arrived - running}\n" + _histogram("sglang:time_to_first_token_seconds", arrived)
    )


def tgi(arrived: int, running: int) -> str:
    done = arrived - running
    return f"tgi_queue_size 0\ntgi_batch_current_size {running}\ntgi_request_success {done}\n" + _histogram(
        "tgi_request_duration", done
    )


def triton(arrived: int, running: int) -> str:
    """What is executed has left the pending requests and is counted when it is done."""
    of_model = '{model="m",version="1"}'
    return "".join(
        f"nv_inference_{name}{of_model} {value}\n"
        for name, value in {
            "request_success": arrived - running,
            "request_failure": 0,
            "pending_request_count": running,
            "exec_count": arrived - running,
            "count": arrived - running,
            "request_duration_us": 1000 * arrived,
            "queue_duration_us": 100 * arrived,
            "compute_input_duration_us": 100 * arrived,
            "compute_infer_duration_us": 700 * arrived,
            "compute_output_duration_us": 100 * arrived,
        }.items()
    )


def _histogram(name: str, count: int) -> str:
    buckets = "".join(f'{name}_bucket{{le="{bound}"}} {count}\n' for bound in ("0.1", "1", "+Inf"))
    return f"{buckets}{name}_count {count}\n{name}_sum {count / 20}\n"


KINDS: Mapping[Engine, Render] = {
    Engine.VLLM: vllm,
    Engine.SGLANG: sglang,
    Engine.TGI: tgi,
    Engine.TRITON: triton,
}


@dataclass(frozen=True, slots=True)
class Swing:
    """Requests per second that go up and down around a mean."""

    mean_rps: float
    swing_rps: float
    period_s: float
    phase: float

    def arrived(self, after_s: float) -> float:
        """Requests since the start."""
        angle = 2 * math.pi / self.period_s
        swung = math.cos(self.phase) - math.cos(angle * after_s + self.phase)
        return self.mean_rps * after_s + self.swing_rps / angle * swung


@dataclass
class SteadyEngines:
    """Serves pages from a thread of its own. ``ports``: of each engine, in the order in which they were given."""

    engines: list[tuple[Render, Swing]]
    ports: list[int] = field(default_factory=list)

    def __enter__(self) -> SteadyEngines:
        self._begun_s = time.time()
        self._loop = LoopThread("served")
        self._loop.begin(self._open()).result()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.begin(self._runner.cleanup()).result()
        self._loop.close()

    async def _open(self) -> None:
        app = web.Application()
        app.router.add_get("/metrics", self._page)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
        await self._runner.setup()
        for _ in self.engines:
            await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.ports = [address[1] for address in self._runner.addresses]

    async def _page(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        port = request.transport.get_extra_info("sockname")[1]
        render, swing = self.engines[self.ports.index(port)]
        arrived = int(swing.arrived(time.time() - self._begun_s))
        return web.Response(text=render(arrived, min(1, arrived)), content_type="text/plain")
