"""A real vLLM server: it answers, and what its page says is what was sent to it."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait

import pytest

from adapters.engines.pods import PodScraper
from adapters.wallclock import WallClock
from autoscaler.domain.cluster import ClusterSnapshot, Phase, Replica
from autoscaler.domain.reading import EngineReading, Histogram, Measured, is_known
from autoscaler.domain.service import Engine, ServiceId

pytestmark = pytest.mark.engines

SERVICE = ServiceId("tiny")
REQUESTS = 48
AT_ONCE = 16
OUTPUT_TOKENS = 64
PROMPT = "the quick brown fox jumps over the lazy dog"


@pytest.fixture
def read_page(vllm_on_a_core: str) -> Callable[[], EngineReading]:
    """Scrapes the server as the controller does."""
    clock = WallClock()

    def read() -> EngineReading:
        now_s = clock.now_s()
        replica = Replica(
            name="tiny-1",
            service=SERVICE,
            variant="default",
            phase=Phase.READY,
            created_s=now_s,
            metrics_url=f"{vllm_on_a_core}/metrics",
        )
        snapshot = ClusterSnapshot(at_s=now_s, devices=(), replicas=(replica,), targets=())
        with PodScraper(clock=clock, engines={SERVICE: Engine.AUTO}) as scraper:
            reading = scraper.read(snapshot).engines["tiny-1"]
        assert isinstance(reading, EngineReading), reading
        return reading

    return read


def _complete(url: str) -> dict[str, int]:
    """Token counts of one answered request."""
    body = {"model": str(SERVICE), "prompt": PROMPT, "max_tokens": OUTPUT_TOKENS, "ignore_eos": True}
    request = urllib.request.Request(
        f"{url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=300) as answer:
        usage: dict[str, int] = json.load(answer)["usage"]
    return usage


def _known(value: Measured) -> float:
    assert is_known(value), value
    return value


def test_the_page_counts_every_request_from_its_arrival_on(
    vllm_on_a_core: str, read_page: Callable[[], EngineReading]
) -> None:
    """Three times as many requests as the server runs at once: those that wait count before their first token."""
    before = read_page()
    during = []
    with ThreadPoolExecutor(REQUESTS) as clients:
        answers = [clients.submit(_complete, vllm_on_a_core) for _ in range(REQUESTS)]
        while wait(answers, timeout=0.05).not_done:
            during.append(read_page())
    usage = [answer.result() for answer in answers]
    after = read_page()

    assert [each["completion_tokens"] for each in usage] == [OUTPUT_TOKENS] * REQUESTS
    stocks = [_known(reading.arrivals_stock) for reading in (before, *during, after)]
    assert stocks == sorted(stocks)
    assert stocks[-1] - stocks[0] == REQUESTS
    assert max(_known(reading.running) for reading in during) <= AT_ONCE
    queued = [reading for reading in during if _known(reading.waiting) > 0]
    assert queued, "the load was too light to make requests wait"
    assert all(_known(reading.completed) - _known(before.completed) < REQUESTS for reading in queued)
    assert _known(after.completed) - _known(before.completed) == REQUESTS
    assert _known(after.generation_tokens) - _known(before.generation_tokens) == REQUESTS * OUTPUT_TOKENS
    prompt_tokens = sum(each["prompt_tokens"] for each in usage)
    assert _known(after.prompt_tokens) - _known(before.prompt_tokens) == prompt_tokens


@pytest.mark.parametrize("name", ["ttft", "itl", "e2e", "queue_time", "prompt_length", "output_length"])
def test_the_page_has_the_histograms(read_page: Callable[[], EngineReading], name: str) -> None:
    assert isinstance(getattr(read_page(), name), Histogram)


def test_the_engine_is_told_by_its_page(read_page: Callable[[], EngineReading]) -> None:
    reading = read_page()
    assert reading.engine == "vllm"
    assert _known(reading.kv_capacity_tokens) > 0
    assert reading.warnings == ()
