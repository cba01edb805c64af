"""Gateways' pages from real servers: each service gets all of its requests or a reason, and is woken at zero."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from adapters.engines.gateway_pages import GatewayPageReader
from adapters.engines.gateway_scraper import GatewayScraper
from adapters.local.gateway_metrics import ServiceMeter
from adapters.local.gateway_page import page_of
from autoscaler.domain.cluster import ClusterSnapshot, Target
from autoscaler.domain.gateway import GatewayPage, GatewayPages
from autoscaler.domain.reading import AnyGatewayReading, GatewayReading, Unknown, UnknownReason
from autoscaler.domain.service import ServiceId, Slo
from tests.adapters_engines.conftest import Serve

CHAT, OTHER = ServiceId("models/chat"), ServiceId("models/other")
LONG_S = 30.0
SHORT_S = 0.3


class Clock:
    """Steps a second each time that it is looked at."""

    def __init__(self) -> None:
        self.at_s = 1000.0

    def now_s(self) -> float:
        self.at_s += 1.0
        return self.at_s

    def wait_until(self, at_s: float) -> None:
        self.at_s = max(self.at_s, at_s)


@dataclass
class Gateway:
    """A gateway's counts, as its page tells them; requests that were received and wait."""

    started_s: float = 1.0
    received: dict[ServiceId, int] = field(default_factory=lambda: {CHAT: 0})
    asked: list[str] = field(default_factory=list)

    async def page(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.query_string)
        readings = []
        for service, count in self.received.items():
            meter = ServiceMeter(Slo(e2e_s=1.0))
            for _ in range(count):
                meter.arrive(0.0)
            readings.append(meter.reading(service, started_s=self.started_s, at_s=0.0, waiting=count))
        body = page_of(readings, started_s=self.started_s, names=frozenset(request.query.getall("name[]", ())))
        return web.Response(body=body, content_type="text/plain")


def snapshot(replicas: int = 1, *, chat: int | None = None) -> ClusterSnapshot:
    counts = {CHAT: replicas if chat is None else chat, OTHER: replicas}
    targets = tuple(Target(service=each, variant="v", replicas=count) for each, count in counts.items())
    return ClusterSnapshot(at_s=1000.0, devices=(), replicas=(), targets=targets)


def pages(*urls: str) -> tuple[GatewayPage, ...]:
    return tuple(GatewayPage(name=f"gw-{number}", url=f"{url}/metrics") for number, url in enumerate(urls))


@contextmanager
def scraping(
    gateways: Callable[[], GatewayPages],
    *,
    wake: Callable[[], None] = lambda: None,
    timeout_s: float = LONG_S,
    look_s: float = 3600.0,
) -> Iterator[GatewayScraper]:
    with GatewayScraper(clock=Clock(), gateways=gateways, wake=wake, timeout_s=timeout_s, look_s=look_s) as one:
        yield one


def read(scraper: GatewayScraper, *, replicas: int = 1) -> Mapping[str, AnyGatewayReading | Unknown]:
    return scraper.read(snapshot(replicas)).gateways


def known(reading: AnyGatewayReading | Unknown) -> GatewayReading:
    assert isinstance(reading, GatewayReading), reading
    return reading


def test_all_gateways_of_a_service_count_together(serve: Serve) -> None:
    one, two = Gateway(received={CHAT: 5}), Gateway(started_s=2.0, received={CHAT: 7})
    found = pages(serve(one.page), serve(two.page))
    with scraping(lambda: {CHAT: found}) as scraper:
        assert known(read(scraper)[CHAT]).arrivals == 0.0
        one.received[CHAT] += 2
        two.received[CHAT] += 1
        told = known(read(scraper)[CHAT])
    assert (told.service, told.arrivals, told.waiting, told.in_flight) == (CHAT, 3.0, 15.0, 15.0)


def test_a_service_without_a_gateway_is_not_spoken_of(serve: Serve) -> None:
    found = pages(serve(Gateway().page))
    with scraping(lambda: {CHAT: found, ServiceId("models/gone"): found}) as scraper:
        assert set(read(scraper)) == {CHAT}


async def hangs(_: web.Request) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError


async def fails(_: web.Request) -> web.StreamResponse:
    return web.Response(status=500)


async def prose(_: web.Request) -> web.StreamResponse:
    return web.Response(text="Hello.\n")


async def empty(_: web.Request) -> web.StreamResponse:
    return web.Response(text="")


BROKEN = [
    pytest.param(hangs, UnknownReason.TIMEOUT, id="hangs"),
    pytest.param(fails, UnknownReason.HTTP_ERROR, id="500"),
    pytest.param(prose, UnknownReason.MALFORMED_PAGE, id="prose"),
    pytest.param(empty, UnknownReason.MISSING_SERIES, id="nothing"),
    pytest.param(Gateway(received={OTHER: 1}).page, UnknownReason.MISSING_SERIES, id="no route yet"),
]


@pytest.mark.parametrize(("handler", "reason"), BROKEN)
def test_one_that_can_not_be_read_makes_its_services_unknown_and_no_others(
    serve: Serve, handler: Callable[[web.Request], object], reason: UnknownReason
) -> None:
    good = Gateway(received={CHAT: 5, OTHER: 5})
    well, ill = serve(good.page), serve(handler)  # type: ignore[arg-type]
    timeout_s = SHORT_S if handler is hangs else LONG_S
    with scraping(lambda: {CHAT: pages(well, ill), OTHER: pages(well)}, timeout_s=timeout_s) as scraper:
        told = read(scraper)
    unknown = told[CHAT]
    assert isinstance(unknown, Unknown)
    assert unknown.reason is reason
    assert unknown.detail.startswith("gateway gw-1: ")
    assert known(told[OTHER]).waiting == 5.0


def test_what_came_in_while_one_could_not_be_read_is_told_afterwards(serve: Serve) -> None:
    gateway = Gateway()
    broken = False

    async def page(request: web.Request) -> web.StreamResponse:
        return await (fails(request) if broken else gateway.page(request))

    found = pages(serve(page))
    with scraping(lambda: {CHAT: found}) as scraper:
        read(scraper)
        broken = True
        gateway.received[CHAT] += 4
        assert isinstance(read(scraper)[CHAT], Unknown)
        broken = False
        assert known(read(scraper)[CHAT]).arrivals == 4.0


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        pytest.param((), UnknownReason.NO_REPLICAS, id="no pod"),
        pytest.param(Unknown(UnknownReason.UNREACHABLE, "why"), UnknownReason.UNREACHABLE, id="not found"),
    ],
)
def test_a_gateway_that_is_not_there_is_told(found: tuple[GatewayPage, ...] | Unknown, reason: UnknownReason) -> None:
    with scraping(lambda: {CHAT: found}) as scraper:
        unknown = read(scraper)[CHAT]
    assert isinstance(unknown, Unknown)
    assert unknown.reason is reason


def test_the_first_request_at_zero_wakes_once(serve: Serve) -> None:
    gateway = Gateway(received={CHAT: 0, OTHER: 9})
    found = pages(serve(gateway.page))
    woken = threading.Semaphore(0)
    with scraping(lambda: {CHAT: found}, wake=woken.release, look_s=0.01) as scraper:
        read(scraper, replicas=0)
        until_asked(gateway, 3)
        assert not woken.acquire(blocking=False)  # nobody waits for a service of ours
        gateway.received[CHAT] = 1
        assert woken.acquire(timeout=LONG_S)
        until_asked(gateway, 3)
        assert not woken.acquire(blocking=False)  # the same request, still waiting
        gateway.received[CHAT] = 0
        until_asked(gateway, 3)
        gateway.received[CHAT] = 1
        assert woken.acquire(timeout=LONG_S)
        assert set(gateway.asked) == {"", "name[]=gpu_autoscaler_gateway_waiting"}


def test_a_service_with_replicas_is_left_to_the_tick(serve: Serve) -> None:
    busy, at_zero = Gateway(received={CHAT: 1}), Gateway(received={OTHER: 0})
    found: GatewayPages = {CHAT: pages(serve(busy.page)), OTHER: pages(serve(at_zero.page))}
    woken = threading.Semaphore(0)
    with scraping(lambda: found, wake=woken.release, look_s=0.01) as scraper:
        scraper.read(snapshot(0, chat=1))
        until_asked(at_zero, 3)
        assert busy.asked == [""]  # by the tick
        assert not woken.acquire(blocking=False)


def test_a_page_that_has_no_address_keeps_nobody_else_asleep(serve: Serve) -> None:
    gateway = Gateway(received={CHAT: 0})
    found: GatewayPages = {
        OTHER: (GatewayPage(name="odd", url="http://[broken/metrics"),),
        CHAT: pages(serve(gateway.page)),
    }
    woken = threading.Semaphore(0)
    with scraping(lambda: found, wake=woken.release, look_s=0.01) as scraper:
        assert isinstance(scraper.read(snapshot(0)).gateways[OTHER], Unknown)
        until_asked(gateway, 3)
        gateway.received[CHAT] = 1
        assert woken.acquire(timeout=LONG_S)


def until_asked(gateway: Gateway, times: int) -> None:
    """It has been asked so many times more."""
    wanted, deadline_s = len(gateway.asked) + times, time.monotonic() + LONG_S
    while len(gateway.asked) < wanted:
        assert time.monotonic() < deadline_s
        time.sleep(0.005)


WHOLE = page_of(
    [ServiceMeter(Slo(e2e_s=1.0)).reading(CHAT, started_s=1.0, at_s=0.0, waiting=0)], started_s=1.0
).decode()
OURS = f'{{service="{CHAT}"}}'


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        pytest.param('le="0.1"', 'le=""', id="no bound"),
        pytest.param('le="0.1"', 'le="x"', id="a bound that is no number"),
        pytest.param(f"waiting{OURS} 0", f"waiting{OURS} 1e30", id="more than can be"),
        pytest.param(f"ttft_seconds_sum{OURS} 0", f"ttft_seconds_sum{OURS} -1", id="a time below zero"),
    ],
)
def test_a_value_that_can_not_be_makes_no_reading(good: str, bad: str) -> None:
    page = WHOLE.replace(" 0.0\n", " 0\n")
    assert good in page
    for body, is_known in ((page, True), (page.replace(good, bad), False)):
        read = GatewayPageReader().read(body.encode(), at_s=5.0)
        assert not isinstance(read, Unknown)
        assert isinstance(read[CHAT], GatewayReading) is is_known


@given(
    spans_s=st.lists(st.floats(min_value=0.0, max_value=1e4), max_size=20),
    service=st.text(min_size=1, max_size=20),
    started_s=st.floats(min_value=0.0, max_value=1e10),
)
def test_a_page_means_what_the_gateway_counted(spans_s: list[float], service: str, started_s: float) -> None:
    meter = ServiceMeter(Slo(ttft_s=0.3, e2e_s=77.0))
    for span_s in spans_s:
        exchange = meter.arrive(0.0)
        exchange.begins(status=200, media_type="text/event-stream")
        exchange.passes(b"data: 1\n\ndata: 2\n\n", span_s / 2)
        exchange.finish(span_s)
    reading = meter.reading(ServiceId(service), started_s=started_s, at_s=5.0, waiting=3)
    assert GatewayPageReader().read(page_of([reading], started_s=started_s), at_s=5.0) == {service: reading}


@given(st.data())
def test_half_a_page_is_no_smaller_number(data: st.DataObject) -> None:
    meter = ServiceMeter(Slo(e2e_s=1.0))
    meter.arrive(0.0)
    reading = meter.reading(CHAT, started_s=1.0, at_s=5.0, waiting=1)
    lines = page_of([reading], started_s=1.0).splitlines(keepends=True)
    kept = data.draw(st.sets(st.integers(0, len(lines) - 1)))
    read = GatewayPageReader().read(b"".join(lines[number] for number in sorted(kept)), at_s=5.0)
    if not isinstance(read, Unknown) and CHAT in read:
        told = read[CHAT]
        if isinstance(told, GatewayReading):
            assert (told.arrivals, told.waiting, told.in_flight) == (1.0, 1.0, 1.0)
