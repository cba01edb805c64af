"""The scraper against real servers: every way a page can fail, and none costs another replica its reading."""

from __future__ import annotations

import asyncio
import gzip
import re
import socket
import threading
import zlib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

import pytest
from aiohttp import web

from adapters.engines.pods import PodScraper
from autoscaler.domain.cluster import ClusterSnapshot, Phase, Replica
from autoscaler.domain.reading import EngineReading, Unknown, UnknownReason
from autoscaler.domain.service import Engine, ServiceId

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Serve = Callable[[Handler], str]

SERVICE = ServiceId("chat")
SHORT_S = 0.3  # where the answer is to come too late
LONG_S = 30.0  # where it is to come in time, however slow the machine
PAGE = b'vllm:num_requests_running{model_name="m"} 4\nvllm:num_requests_waiting{model_name="m"} 2\n'


@dataclass
class HandClock:
    """Shows what it is set to."""

    at_s: float = 1000.0

    def now_s(self) -> float:
        return self.at_s

    def wait_until(self, at_s: float) -> None:
        self.at_s = max(self.at_s, at_s)


def replica(name: str, url: str | None, *, phase: Phase = Phase.READY, service: ServiceId = SERVICE) -> Replica:
    return Replica(name=name, service=service, variant="v", phase=phase, created_s=0.0, metrics_url=url)


def snapshot(*replicas: Replica) -> ClusterSnapshot:
    return ClusterSnapshot(at_s=1000.0, devices=(), replicas=replicas, targets=())


@pytest.fixture
def scraper() -> Iterator[PodScraper]:
    with PodScraper(clock=HandClock(), engines={}, timeout_s=LONG_S, max_page_bytes=100_000) as one:
        yield one


@pytest.fixture
def hasty() -> Iterator[PodScraper]:
    with PodScraper(clock=HandClock(), engines={}, timeout_s=SHORT_S, max_page_bytes=100_000) as one:
        yield one


async def good(_: web.Request) -> web.StreamResponse:
    return web.Response(body=PAGE, content_type="text/plain")


def answer(body: bytes, *, status: int = 200, **headers: str) -> Handler:
    spelled = {name.replace("_", "-"): value for name, value in headers.items()}

    async def handler(_: web.Request) -> web.StreamResponse:
        return web.Response(body=body, status=status, headers=spelled)

    return handler


def known(reading: EngineReading | Unknown) -> EngineReading:
    assert isinstance(reading, EngineReading), reading
    return reading


def reason(reading: EngineReading | Unknown) -> UnknownReason:
    assert isinstance(reading, Unknown), reading
    return reading.reason


def no_library_speaks(reading: EngineReading | Unknown) -> bool:
    """Its text names none of Python's errors."""
    return isinstance(reading, Unknown) and not re.search(r"Error\b|Errno|Client|\bssl\b", reading.detail)


def test_a_round_reads_every_ready_and_draining_replica(serve: Serve, overloaded_page: bytes) -> None:
    url = serve(answer(overloaded_page, Content_Type="text/plain; version=0.0.4; charset=utf-8")) + "/metrics"
    clock = HandClock(at_s=1234.5)
    world = snapshot(
        replica("a", url),
        replica("b", url, phase=Phase.DRAINING),
        replica("c", url, phase=Phase.STARTING),
        replica("d", url, phase=Phase.FAILED),
        replica("e", None),
    )
    with PodScraper(clock=clock, engines={SERVICE: Engine.VLLM}, timeout_s=LONG_S) as scraper:
        seen = scraper.read(world)
        assert list(seen.engines) == ["a", "b"]
        assert seen.gateways == {}
        assert seen.at_s == 1234.5
        for name in ("a", "b"):
            reading = known(seen.engines[name])
            assert (reading.replica, reading.at_s, reading.waiting) == (name, 1234.5, 272.0)
        assert scraper.read(snapshot()).engines == {}


def test_the_services_engine_and_model_are_used(serve: Serve) -> None:
    url = serve(answer(PAGE + PAGE.replace(b'"m"', b'"n"')))
    other = ServiceId("other")
    world = snapshot(replica("a", url), replica("b", url, service=other))
    with PodScraper(
        clock=HandClock(), engines={SERVICE: Engine.VLLM}, models={other: "n"}, timeout_s=LONG_S
    ) as scraper:
        seen = scraper.read(world).engines
    assert (known(seen["a"]).running, known(seen["b"]).running) == (8.0, 4.0)


@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        pytest.param(answer(b"", status=500), UnknownReason.HTTP_ERROR, id="500"),
        pytest.param(answer(PAGE, status=503), UnknownReason.HTTP_ERROR, id="503 with a page"),
        pytest.param(answer(b"", status=404), UnknownReason.HTTP_ERROR, id="404"),
        pytest.param(answer(b"", status=204), UnknownReason.HTTP_ERROR, id="204"),
        pytest.param(answer(b"", status=307), UnknownReason.HTTP_ERROR, id="307 to nowhere"),
        pytest.param(answer(b"", status=307, Location="mailto:a@b"), UnknownReason.HTTP_ERROR, id="307 to a mailbox"),
        pytest.param(
            answer(b"", status=307, Location="http://[::bad/"), UnknownReason.HTTP_ERROR, id="307 to a bad address"
        ),
        pytest.param(answer(b"", status=307, Location="/metrics"), UnknownReason.HTTP_ERROR, id="307 in a circle"),
        pytest.param(answer(b""), UnknownReason.EMPTY_PAGE, id="empty"),
        pytest.param(answer(b"python_info 1\n"), UnknownReason.EMPTY_PAGE, id="python_* only"),
        pytest.param(
            answer(b"vllm:num_requests_running 1\n"), UnknownReason.MISSING_SERIES, id="a required family missing"
        ),
        pytest.param(answer(b"my_app 1\n"), UnknownReason.UNKNOWN_ENGINE, id="no engine"),
        pytest.param(answer(b"[]", Content_Type="application/json"), UnknownReason.WRONG_CONTENT, id="JSON"),
        pytest.param(answer(b'{"a": 1}', Content_Type="text/plain"), UnknownReason.WRONG_CONTENT, id="JSON as text"),
        pytest.param(answer(PAGE, Content_Type="text/html"), UnknownReason.WRONG_CONTENT, id="HTML"),
        pytest.param(
            answer(b"\x0a\x03", Content_Type="application/vnd.google.protobuf; proto=io.prometheus.client"),
            UnknownReason.WRONG_CONTENT,
            id="protobuf",
        ),
        pytest.param(answer(PAGE, Content_Encoding="zstd"), UnknownReason.WRONG_CONTENT, id="another compression"),
        pytest.param(answer(PAGE, Content_Encoding="gzip"), UnknownReason.MALFORMED_PAGE, id="not gzip after all"),
        pytest.param(
            answer(gzip.compress(PAGE)[:-9], Content_Encoding="gzip"), UnknownReason.MALFORMED_PAGE, id="half a gzip"
        ),
        pytest.param(
            answer(gzip.compress(b"x 1\n" * 10_000_000), Content_Encoding="gzip"),
            UnknownReason.PAGE_TOO_LARGE,
            id="gzip bomb",
        ),
        pytest.param(answer(b"x 1\n" * 30_000), UnknownReason.PAGE_TOO_LARGE, id="huge"),
        pytest.param(answer(PAGE[:-9]), UnknownReason.MALFORMED_PAGE, id="cut inside a line"),
        pytest.param(answer(b"\x00\xff" * 50), UnknownReason.MALFORMED_PAGE, id="binary"),
    ],
)
def test_a_bad_answer_is_unknown_and_leaves_others_alone(
    serve: Serve, scraper: PodScraper, handler: Handler, expected: UnknownReason
) -> None:
    world = snapshot(replica("bad", serve(handler) + "/metrics"), replica("fine", serve(good) + "/metrics"))
    for _ in range(2):
        seen = scraper.read(world).engines
        assert reason(seen["bad"]) is expected
        assert known(seen["fine"]).running == 4.0


@pytest.mark.parametrize(
    ("body", "encoding"),
    [
        pytest.param(gzip.compress(PAGE), "gzip", id="gzip"),
        pytest.param(zlib.compress(PAGE), "deflate", id="deflate"),
        pytest.param(PAGE, "identity", id="identity"),
    ],
)
def test_compressed_pages_are_read(serve: Serve, scraper: PodScraper, body: bytes, encoding: str) -> None:
    url = serve(answer(body, Content_Encoding=encoding))
    assert known(scraper.read(snapshot(replica("a", url))).engines["a"]).waiting == 2.0


def test_a_redirect_on_the_same_server_is_followed(serve: Serve, scraper: PodScraper) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        if request.path == "/metrics":
            return web.Response(status=307, headers={"Location": "/metrics/"})
        return await good(request)

    url = serve(handler) + "/metrics"
    assert known(scraper.read(snapshot(replica("a", url))).engines["a"]).waiting == 2.0


def test_a_redirect_to_another_server_is_not_followed(serve: Serve, scraper: PodScraper) -> None:
    asked = threading.Event()

    async def elsewhere(request: web.Request) -> web.StreamResponse:
        asked.set()
        return await good(request)

    target = serve(elsewhere)
    by_name = target.replace("127.0.0.1", "localhost")
    world = snapshot(
        replica("port", serve(answer(b"", status=302, Location=target))),
        replica("name", serve(answer(b"", status=302, Location=by_name))),
    )
    seen = scraper.read(world).engines
    assert {reason(one) for one in seen.values()} == {UnknownReason.HTTP_ERROR}
    assert not asked.is_set()


async def hang(_: web.Request) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError("never gets here")


async def trickle(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b"#")
        await asyncio.sleep(0.01)


async def stop_half_way(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(PAGE)
    await asyncio.Event().wait()
    return response


async def endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b"x 1\n" * 1000)


async def hang_up(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def babble(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.write(b"this is no HTTP\r\n\r\n")
    request.transport.close()
    return web.Response()


async def cut_short(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": "100000"})
    await response.prepare(request)
    await response.write(PAGE)
    assert request.transport is not None
    request.transport.close()
    return response


@pytest.mark.parametrize(
    "handler",
    [
        pytest.param(hang, id="no answer"),
        pytest.param(trickle, id="a byte at a time for ever"),
        pytest.param(stop_half_way, id="no end"),
    ],
)
def test_a_server_that_never_finishes_times_out(serve: Serve, hasty: PodScraper, handler: Handler) -> None:
    seen = hasty.read(snapshot(replica("a", serve(handler)))).engines
    assert reason(seen["a"]) is UnknownReason.TIMEOUT


@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        pytest.param(endless, UnknownReason.PAGE_TOO_LARGE, id="endless"),
        pytest.param(babble, UnknownReason.HTTP_ERROR, id="no HTTP"),
        pytest.param(hang_up, UnknownReason.UNREACHABLE, id="hangs up"),
        pytest.param(cut_short, UnknownReason.MALFORMED_PAGE, id="cut short"),
    ],
)
def test_a_body_that_does_not_end_as_it_should(
    serve: Serve, scraper: PodScraper, handler: Handler, expected: UnknownReason
) -> None:
    seen = scraper.read(snapshot(replica("a", serve(handler)))).engines
    assert reason(seen["a"]) is expected
    assert no_library_speaks(seen["a"])


def test_replicas_are_asked_at_the_same_time(serve: Serve, scraper: PodScraper) -> None:
    asked = asyncio.Event()

    async def waits_for_the_other(request: web.Request) -> web.StreamResponse:
        await asked.wait()
        return await good(request)

    async def frees_the_other(request: web.Request) -> web.StreamResponse:
        asked.set()
        return await good(request)

    world = snapshot(replica("a", serve(waits_for_the_other)), replica("b", serve(frees_the_other)))
    seen = scraper.read(world).engines
    assert known(seen["a"]).running == known(seen["b"]).running == 4.0


def test_a_round_ends_in_time_though_not_all_had_their_turn(serve: Serve) -> None:
    url = serve(hang)
    with PodScraper(
        clock=HandClock(), engines={}, timeout_s=SHORT_S, round_timeout_s=1.5 * SHORT_S, max_connections=1
    ) as scraper:
        seen = scraper.read(snapshot(*[replica(f"r{index}", url) for index in range(4)])).engines
    assert [reason(seen[f"r{index}"]) for index in range(4)] == [UnknownReason.TIMEOUT] * 4


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("http://127.0.0.1:{port}/metrics", id="connection refused"),
        pytest.param("not an address", id="no address"),
        pytest.param("ftp://127.0.0.1/metrics", id="another scheme"),
        pytest.param("http://:0/", id="no host"),
        pytest.param("", id="empty"),
        pytest.param("//127.0.0.1/", id="no scheme"),
        pytest.param("http://a..b/", id="no host name"),
        pytest.param("http://127.0.0.1:99999/", id="no such port"),
    ],
)
def test_an_address_where_nobody_answers(scraper: PodScraper, url: str) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        seen = scraper.read(snapshot(replica("a", url.format(port=port)))).engines
    assert reason(seen["a"]) is UnknownReason.UNREACHABLE
    assert no_library_speaks(seen["a"])


def test_connections_are_kept_between_rounds(serve: Serve, scraper: PodScraper) -> None:
    peers = set()

    async def handler(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        peers.add(request.transport.get_extra_info("peername"))
        return await good(request)

    world = snapshot(replica("a", serve(handler)))
    for _ in range(4):
        known(scraper.read(world).engines["a"])
    assert len(peers) == 1


def test_a_replica_that_recovers_is_read_again(serve: Serve, scraper: PodScraper) -> None:
    answers = iter([500, 200, 503, 200])

    async def handler(_: web.Request) -> web.StreamResponse:
        return web.Response(body=PAGE, status=next(answers))

    world = snapshot(replica("a", serve(handler)))
    outcomes = [isinstance(scraper.read(world).engines["a"], EngineReading) for _ in range(4)]
    assert outcomes == [False, True, False, True]


def test_closing_ends_a_round_in_progress(serve: Serve) -> None:
    asked = threading.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        asked.set()
        return await hang(request)

    scraper = PodScraper(clock=HandClock(), engines={}, timeout_s=LONG_S)
    url = serve(handler)

    def close_once_asked() -> None:
        assert asked.wait(LONG_S)
        scraper.close()

    closing = threading.Thread(target=close_once_asked)
    closing.start()
    seen = scraper.read(snapshot(replica("a", url))).engines
    closing.join()
    assert reason(seen["a"]) is UnknownReason.UNREACHABLE
    scraper.close()
    assert not any(thread.name == "scrape" for thread in threading.enumerate())


def test_a_scraper_that_never_read_can_be_closed() -> None:
    PodScraper(clock=HandClock(), engines={}).close()
