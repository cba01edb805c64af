"""CPU time to scrape live replicas once a second, beside what a plain client takes for the same.

The plain client asks with one aiohttp session and parses with prometheus_client, all samples. The replicas are at
addresses of their own, with other values on every page; what is read is compared with the second before. The server is
another process, and not counted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from adapters.engines.pods import PodScraper
from adapters.wallclock import WallClock
from autoscaler.domain.cluster import ClusterSnapshot, Phase, Replica
from autoscaler.domain.reading import EngineReading, Observations, Unknown
from autoscaler.domain.service import ServiceId
from benchmarks.changing_pages import PAGES, recorded
from benchmarks.live_pages import live_pages

REPLICAS = 500
INTERVAL_S = 1.0
TARGET_SHARE = 0.6
_PLAIN_ROUNDS = 2


FLEETS = {"all engines in turn": PAGES, "vLLM": PAGES[:1]}


def compare(*, rounds: int) -> bool:
    """Print both shares of a core for each fleet; whether ours are below the target."""
    print(f"\n{REPLICAS} live replicas, each read every {INTERVAL_S:g} s, in shares of one core")
    print("fleet                       samples  gpu-autoscaler  target  plain client  ratio")
    below = [_compare(fleet, names, rounds) for fleet, names in FLEETS.items()]
    return all(below)


def _compare(fleet: str, names: Sequence[str], rounds: int) -> bool:
    pages = [[page.at(step) for step in range(rounds + 1)] for page in map(recorded, names)]
    with live_pages(pages) as port:
        urls = [f"http://127.0.{number // 250 + 1}.{number % 250 + 1}:{port}/metrics" for number in range(REPLICAS)]
        plain_s = _plain_s(urls)
        ours_s = _ours_s(urls, rounds)
    samples = sum(recorded(name).samples for name in names) * REPLICAS // len(names)
    ours, plain = ours_s / INTERVAL_S, plain_s / INTERVAL_S
    print(f"{fleet:<28}{samples:>7}{ours:>16.0%}{TARGET_SHARE:>8.0%}{plain:>14.0%}{plain / ours:>7.1f}", flush=True)
    return ours < TARGET_SHARE


def _ours_s(urls: Sequence[str], rounds: int) -> float:
    """Mean CPU seconds of a round, all threads together; the first, in which all pages are new, left out."""
    replicas = tuple(
        Replica(
            name=f"r{number}",
            service=ServiceId("s"),
            variant="v",
            phase=Phase.READY,
            created_s=0.0,
            ready_s=0.0,
            metrics_url=url,
        )
        for number, url in enumerate(urls)
    )
    snapshot = ClusterSnapshot(at_s=0.0, devices=(), replicas=replicas, targets=())
    with PodScraper(clock=WallClock(), engines={}, timeout_s=10.0, max_connections=len(urls)) as scraper:
        before = scraper.read(snapshot)

        def once() -> None:
            nonlocal before
            after = scraper.read(snapshot)
            _check(before, after)
            before = after

        return _cpu_s(once, rounds)


def _cpu_s(once: Callable[[], None], rounds: int) -> float:
    begun_s, cpu_s = time.monotonic(), time.process_time()
    for number in range(rounds):
        time.sleep(max(0.0, begun_s + number * INTERVAL_S - time.monotonic()))
        once()
    return (time.process_time() - cpu_s) / rounds


def _check(before: Observations, after: Observations) -> None:
    """Exit unless every replica was read and has completed more than a second before."""
    for name, now in after.engines.items():
        then = before.engines[name]
        if not isinstance(now, EngineReading) or not isinstance(then, EngineReading):
            raise SystemExit(f"{name}: {now}")
        if isinstance(now.completed, Unknown) or isinstance(then.completed, Unknown) or now.completed <= then.completed:
            raise SystemExit(f"{name}: completed {then.completed}, then {now.completed}")


def _plain_s(urls: Sequence[str]) -> float:
    """Mean CPU seconds of a round of the plain client."""

    async def rounds() -> float:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=len(urls))) as session:

            async def one(url: str) -> int:
                async with session.get(url) as answer:
                    text = await answer.text()
                return sum(len(family.samples) for family in text_string_to_metric_families(text))

            await asyncio.gather(*map(one, urls[: len(PAGES)]))
            begun_s = time.process_time()
            for _ in range(_PLAIN_ROUNDS):
                await asyncio.gather(*map(one, urls))
            return (time.process_time() - begun_s) / _PLAIN_ROUNDS

    return asyncio.run(rounds())
