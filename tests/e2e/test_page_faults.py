"""Page faults of the emulator through the real scraper, on one of four replicas and on all: never a shrink.

A frozen page is not among them: it looks like an idle engine's until its heartbeat has stood still for minutes (see
tests/policy/test_frozen_pages.py).

The engines and the scraping are real; the controller's clock is set by hand, so an hour of decisions takes seconds.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field

import pytest

from adapters.engines.pods import PodScraper
from autoscaler.compose import build_models
from autoscaler.domain.capacity import StepTime
from autoscaler.domain.cluster import ClusterSnapshot, Phase, Replica, Target
from autoscaler.domain.params import Params
from autoscaler.domain.plan import Reason, ServiceDecision
from autoscaler.domain.service import Engine, Service, ServiceId, Slo, Variant
from autoscaler.domain.state import ControllerState
from autoscaler.policy.deciding import decide
from loadtests.emulator.faults import PageFault
from tests.cluster.processes import free_port
from tests.e2e.local_stack import until

CHAT = ServiceId("chat")
# Slow on paper (one request takes about half of a replica's time), so that few real requests are much load.
PROFILE = StepTime(c_s=0.5, d_s=0.001, e_s=0.0, a_s=0.0)


@dataclass
class HandClock:
    """Time moves when it is told to."""

    at_s: float = 1_790_000_000.0

    def now_s(self) -> float:
        return self.at_s

    def wait_until(self, at_s: float) -> None:
        self.at_s = max(self.at_s, at_s)


@dataclass
class Fleet:
    """Four real emulated engines under a controller whose time is set by hand."""

    ports: tuple[int, ...]
    clock: HandClock = field(default_factory=HandClock)
    state: ControllerState = field(default_factory=lambda: ControllerState(services={}))
    params: Params = field(default_factory=Params)
    asked: int = 4

    def __post_init__(self) -> None:
        variant = Variant(name="default", step_time=PROFILE, max_num_seqs=1)
        self.service = Service(id=CHAT, slo=Slo(ttft_s=20.0, itl_s=1.0), variants=(variant,))
        self.models = build_models()
        self.scraper = PodScraper(clock=self.clock, engines={CHAT: Engine.VLLM}, timeout_s=0.4, max_page_bytes=200_000)
        self.began_s = self.clock.at_s - 3600

    def tick(self, requests: int) -> ServiceDecision:
        """Fifteen seconds later, after ``requests`` to every replica."""
        self.clock.at_s += self.params.interval_s
        for port in self.ports:
            for _ in range(requests):
                complete(port)
        replicas = tuple(
            Replica(
                name=f"chat-{port}",
                service=CHAT,
                variant="default",
                phase=Phase.READY,
                created_s=self.began_s,
                ready_s=self.began_s + 1,
                metrics_url=f"http://127.0.0.1:{port}/metrics",
            )
            for port in self.ports
        )
        target = Target(service=CHAT, variant="default", replicas=self.asked)
        snapshot = ClusterSnapshot(at_s=self.clock.at_s, devices=(), replicas=replicas, targets=(target,))
        decision, self.state = decide(
            now_s=self.clock.at_s,
            state=self.state,
            services=(self.service,),
            snapshot=snapshot,
            observations=self.scraper.read(snapshot),
            models=self.models,
            params=self.params,
        )
        part = decision.services[0]
        self.asked = max(part.desired, 4)  # the four engines stay; what was decided is what counts
        return part


def say(port: int, method: str, path: str, body: dict[str, object] | None = None) -> int:
    """One exchange with an engine; its status."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=20)) as connection:
        connection.request(method, path, json.dumps(body) if body else None, {"Content-Type": "application/json"})
        response = connection.getresponse()
        response.read()
        return response.status


def complete(port: int) -> None:
    body: dict[str, object] = {"model": "chat", "prompt": "one two", "max_tokens": 2, "ignore_eos": True}
    assert say(port, "POST", "/v1/completions", body) == 200


def set_fault(port: int, kind: PageFault) -> None:
    assert say(port, "POST", "/faults", {"page": {"kind": kind.value, "seconds": 30}}) == 200


def clear_faults(port: int) -> None:
    assert say(port, "DELETE", "/faults") == 200


def answers(port: int) -> bool:
    try:
        return say(port, "GET", "/health") == 200
    except OSError:
        return False


@pytest.fixture(scope="module")
def ports() -> Iterator[tuple[int, ...]]:
    chosen = tuple(free_port() for _ in range(4))
    engines = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "loadtests.engine_emulator", "--port", str(port), "--model", "chat"),
                *("--step-base-ms", "0.2", "--startup-s", "0"),
            ],
            stdin=subprocess.DEVNULL,
        )
        for port in chosen
    ]
    try:
        for port in chosen:
            until(lambda port=port: answers(port), what=f"the engine at {port} answers")  # type: ignore[misc]
        yield chosen
    finally:
        for engine in engines:
            engine.kill()
            engine.wait()


@pytest.fixture
def fleet(ports: tuple[int, ...]) -> Iterator[Fleet]:
    made = Fleet(ports)
    yield made
    made.scraper.close()
    for port in ports:
        clear_faults(port)


@pytest.mark.parametrize("dark", [1, 4], ids=["one-of-four", "four-of-four"])
@pytest.mark.parametrize("kind", sorted(set(PageFault) - {PageFault.STALE}), ids=lambda kind: kind.value)
def test_a_page_fault_never_shrinks_and_is_told_and_ends_by_itself(fleet: Fleet, kind: PageFault, dark: int) -> None:
    for _ in range(6):
        before = fleet.tick(3)
    assert before.desired >= 2
    for port in fleet.ports[:dark]:
        set_fault(port, kind)
    parts = [fleet.tick(0) for _ in range(7)]
    told = " ".join(stage.detail for part in parts[1:] for stage in part.stages)
    assert all(part.desired >= 4 for part in parts)
    reasons = {stage.reason for stage in parts[-1].stages}
    assert reasons & {Reason.PARTIAL_COVERAGE, Reason.UNKNOWN_DEMAND}
    assert "unknown" in told
    for port in fleet.ports:
        clear_faults(port)
    assert min(fleet.tick(0).desired for _ in range(30)) == 1
