"""Servers that hang: waited for once, then asked on beside until they answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest
from aiohttp import web

from adapters.engines.fetched import FetchedPage
from adapters.engines.patience import PatientFetcher
from adapters.engines.pods import PodScraper
from autoscaler.domain.cluster import ClusterSnapshot, Phase, Replica
from autoscaler.domain.reading import EngineReading, Unknown, UnknownReason
from autoscaler.domain.service import ServiceId

SHORT_S = 0.3  # where the answer is to come too late
WITHIN_S = 20.0
PAGE = b'vllm:num_requests_running{model_name="m"} 4\nvllm:num_requests_waiting{model_name="m"} 2\n'
Serve = Callable[[Callable[[web.Request], Awaitable[web.StreamResponse]]], str]


@dataclass
class Hanging:
    """A server that hangs until it is told otherwise."""

    hangs: bool = True
    asked: int = 0

    async def answer(self, _: web.Request) -> web.StreamResponse:
        self.asked += 1
        while self.hangs:
            await asyncio.sleep(0.01)
        return web.Response(body=PAGE, content_type="text/plain")


class Clock:
    """Stands."""

    def now_s(self) -> float:
        return 1000.0

    def wait_until(self, at_s: float) -> None:
        raise AssertionError(f"nobody waits until {at_s}")


def snapshot(**urls: str) -> ClusterSnapshot:
    replicas = tuple(
        Replica(name=name, service=ServiceId("chat"), variant="v", phase=Phase.READY, created_s=0.0, metrics_url=url)
        for name, url in urls.items()
    )
    return ClusterSnapshot(at_s=1000.0, devices=(), replicas=replicas, targets=())


@pytest.fixture
def hanging() -> Hanging:
    return Hanging()


def test_one_that_hangs_stays_unknown_beside_others_until_it_answers(serve: Serve, hanging: Hanging) -> None:
    async def well(_: web.Request) -> web.StreamResponse:
        return web.Response(body=PAGE, content_type="text/plain")

    world = snapshot(ill=serve(hanging.answer), well=serve(well))
    with PodScraper(clock=Clock(), engines={}, timeout_s=SHORT_S) as scraper:
        for _round in range(10):
            seen = scraper.read(world).engines
            assert isinstance(seen["ill"], Unknown)
            assert seen["ill"].reason is UnknownReason.TIMEOUT
        hanging.hangs = False
        deadline_s = time.monotonic() + WITHIN_S
        while isinstance(scraper.read(world).engines["ill"], Unknown):
            assert time.monotonic() < deadline_s, "its recovery is not noticed"
        both = scraper.read(world).engines
    assert all(isinstance(each, EngineReading) for each in both.values())


def test_while_it_hangs_it_is_not_waited_for_and_asked_one_request_at_a_time(serve: Serve, hanging: Hanging) -> None:
    url = serve(hanging.answer)

    async def ask() -> list[FetchedPage | Unknown]:
        fetcher = PatientFetcher(timeout_s=SHORT_S, max_bytes=1000, max_connections=4)
        await fetcher.fetch(url)
        pages = await asyncio.gather(*(fetcher.fetch(url) for _each in range(5)))
        async with asyncio.timeout(WITHIN_S):
            while hanging.asked < 2:
                await asyncio.sleep(0.01)
        await fetcher.close()
        return pages

    pages = asyncio.run(ask())
    assert [each.reason for each in pages if isinstance(each, Unknown)] == [UnknownReason.TIMEOUT] * 5
    assert hanging.asked == 2


def test_many_that_hang_are_all_asked_again_in_turn(serve: Serve) -> None:
    servers = [Hanging() for _each in range(4)]
    urls = [serve(each.answer) for each in servers]

    async def ask() -> list[FetchedPage | Unknown]:
        fetcher = PatientFetcher(timeout_s=SHORT_S, max_bytes=1000, max_connections=2)
        pages: list[FetchedPage | Unknown] = []
        async with asyncio.timeout(WITHIN_S):
            await asyncio.gather(*map(fetcher.fetch, urls))
            for each in servers:
                each.hangs = False
            for url in urls:
                while isinstance(page := await fetcher.fetch(url), Unknown):
                    await asyncio.sleep(0)
                pages.append(page)
        await fetcher.close()
        return pages

    assert [page.body for page in asyncio.run(ask()) if isinstance(page, FetchedPage)] == [PAGE] * 4


def test_one_that_is_no_longer_asked_is_forgotten(serve: Serve, hanging: Hanging) -> None:
    url = serve(hanging.answer)

    async def ask() -> FetchedPage | Unknown:
        fetcher = PatientFetcher(timeout_s=SHORT_S, max_bytes=1000, max_connections=4)
        await fetcher.fetch(url)
        fetcher.keep_only(())
        hanging.hangs = False
        try:
            return await fetcher.fetch(url)
        finally:
            await fetcher.close()

    assert isinstance(asyncio.run(ask()), FetchedPage)
    assert hanging.asked == 2
