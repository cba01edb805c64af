"""The source over a server that speaks the query API: the same readings as direct scraping, or Unknown, and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.engines.pods import PodScraper
from autoscaler.domain.cluster import Phase
from autoscaler.domain.reading import EngineReading, Unknown, UnknownReason
from tests.adapters_engines.conftest import Serve
from tests.adapters_prometheus.asking import LONG_S, chat, one, reading, reason, running, target
from tests.adapters_prometheus.conftest import HandClock
from tests.adapters_prometheus.fleets import FLEET, comparable, page, replica, snapshot
from tests.adapters_prometheus.query_api import ScrapedPages

# Labels by which Prometheus may know a replica: those of a cluster, with or without its address, or the address alone.
KNOWN_BY: dict[str, Callable[[int], dict[str, str]]] = {
    "pod": lambda number: target(number, instance=f"chat-{number}"),
    "pod and address": target,
    "address": lambda number: target(number, pod="", namespace=""),
    "exported pod": lambda number: target(
        number,
        pod="collector",
        namespace="ops",
        instance="collector:1",
        exported_pod=f"chat-{number}",
        exported_namespace="llm",
    ),
}
# Who passes pages on, passes none on in place of one that it could not get, and sets labels of its own.
NOT_PASSED_ON = {"unreachable", "runtime alone", "Dynamo before any request", "labels that the target has too"}


@pytest.mark.parametrize("labels", [pytest.param(value, id=key) for key, value in KNOWN_BY.items()])
def test_a_fleet_reads_as_it_does_directly(
    serve: Serve, clock: HandClock, labels: Callable[[int], dict[str, str]]
) -> None:
    stored, direct, through = ScrapedPages(), [], []
    passed_on = "exported_pod" in labels(0)
    fleet = [each for name, each in FLEET.items() if not passed_on or name not in NOT_PASSED_ON]
    for number, engine in enumerate(fleet):
        body, at_s = engine.page, 995.0 + number / 100
        stored.scrape(page(1, 1), at_s=at_s - 15, **labels(number))
        stored.scrape(body, at_s=at_s, **labels(number))

        async def fetched(_: web.Request, body: bytes | None = body) -> web.StreamResponse:
            return web.Response(body=body, status=200 if body is not None else 503)

        direct.append(replica(f"llm/chat-{number}", serve(fetched)))
        through.append(chat(number))
    with PodScraper(clock=clock, engines={}, timeout_s=LONG_S) as scraper:
        wanted = scraper.read(snapshot(*direct)).engines
    with reading(serve(stored.answer), clock) as source:
        for _ in range(2):
            seen = source.read(snapshot(*through)).engines
            assert {name: comparable(each) for name, each in seen.items()} == {
                name: comparable(each) for name, each in wanted.items()
            }
    for number, engine in enumerate(fleet):
        for readings in (wanted, seen):
            each = readings[f"llm/chat-{number}"]
            assert isinstance(each, Unknown) == bool(engine.reasons)
            assert not isinstance(each, Unknown) or each.reason in engine.reasons
    moments = {each.at_s for each in seen.values() if isinstance(each, EngineReading)}
    assert moments <= {995.0 + number / 100 for number in range(len(fleet))}


def test_few_queries_serve_a_large_fleet(serve: Serve, clock: HandClock) -> None:
    stored = ScrapedPages()
    fleet = [chat(number) for number in range(130)]
    for number, _ in enumerate(fleet):
        for at_s in (985.0, 995.0):
            stored.scrape(page(number, 0), at_s=at_s, **target(number))
    with reading(serve(stored.answer), clock) as source:
        source.read(snapshot(*fleet))
        stored.forms.clear()
        seen = source.read(snapshot(*fleet)).engines
    assert [running(each) for each in seen.values()] == list(range(130))
    assert len(stored.forms) == 3
    assert {form["query"].rpartition("[")[2] for form in stored.forms} == {"26000ms]"}


@pytest.mark.parametrize(
    ("age_s", "expected"),
    [
        pytest.param(1.0, None, id="now"),
        pytest.param(44.0, None, id="just fresh"),
        pytest.param(46.0, UnknownReason.STALE, id="just stale"),
        pytest.param(290.0, UnknownReason.STALE, id="within what Prometheus still shows"),
        pytest.param(400.0, UnknownReason.MISSING_SERIES, id="gone for good"),
    ],
)
def test_an_old_scrape_is_never_fresh(
    serve: Serve, clock: HandClock, age_s: float, expected: UnknownReason | None
) -> None:
    stored = ScrapedPages()
    stored.scrape(page(7, 0), at_s=1000.0 - age_s, **target(1))
    with reading(serve(stored.answer), clock) as source:
        seen = one(source, chat(1))
    assert running(seen) == 7 if expected is None else reason(seen) is expected


@pytest.mark.parametrize("off_s", [pytest.param(-60.0, id="behind"), pytest.param(60.0, id="ahead")])
def test_a_clock_that_is_wrong_makes_nothing_fresh(serve: Serve, clock: HandClock, off_s: float) -> None:
    stored = ScrapedPages(at_s=1000.0 + off_s)
    stored.scrape(page(7, 0), at_s=1000.0 + off_s - 1, **target(1))
    with reading(serve(stored.answer), clock) as source:
        assert reason(one(source, chat(1))) is UnknownReason.STALE


@pytest.mark.parametrize(
    ("interval_s", "warned"),
    [pytest.param(15.0, True, id="decisions every 15 s"), pytest.param(30.0, False, id="decisions every 30 s")],
)
def test_8001_scrapes_further_apart_than_decisions_are_warned_of(
    serve: Serve, clock: HandClock, *, interval_s: float, warned: bool
) -> None:
    stored = ScrapedPages()
    for at_s in (967.0, 997.0):
        stored.scrape(page(7, 0), at_s=at_s, **target(1))
    with reading(serve(stored.answer), clock, lambda: interval_s) as source:
        one(source, chat(1))
        seen = one(source, chat(1))
    assert isinstance(seen, EngineReading)
    assert any("every 30 s, less often than decisions" in warning for warning in seen.warnings) is warned


def test_a_failed_scrape_is_unreachable_though_the_last_page_is_young(serve: Serve, clock: HandClock) -> None:
    stored = ScrapedPages()
    stored.scrape(page(7, 0), at_s=990.0, **target(1))
    stored.scrape(None, at_s=995.0, **target(1))
    with reading(serve(stored.answer), clock) as source:
        assert reason(one(source, chat(1))) is UnknownReason.UNREACHABLE


def test_a_series_that_left_the_page_is_not_shown_on(serve: Serve, clock: HandClock) -> None:
    stored = ScrapedPages()
    stored.scrape(page(1, 1, first_tokens=50) + b"vllm:prompt_tokens_total 9\n", at_s=980.0, **target(1))
    stored.scrape(page(2, 1), at_s=990.0, **target(1))
    with reading(serve(stored.answer), clock) as source:
        seen = one(source, chat(1))
    assert isinstance(seen, EngineReading)
    assert (seen.running, isinstance(seen.prompt_tokens, Unknown)) == (2, True)


def test_a_scrape_that_came_in_part_waits_for_the_rest(serve: Serve, clock: HandClock) -> None:
    stored = ScrapedPages()
    stored.scrape(page(1, 1, first_tokens=50), at_s=985.0, **target(1))
    stored.scrape(b"vllm:num_requests_running 5\n", at_s=999.5, **target(1))
    with reading(serve(stored.answer), clock) as source:
        assert running(one(source, chat(1))) == 1


@pytest.mark.parametrize(
    ("others", "given"),
    [
        pytest.param({"prometheus_replica": "b"}, {}, id="two Prometheis"),
        pytest.param({"monitor": "b"}, {"replica_labels": ("monitor",)}, id="two Prometheis, another label"),
        pytest.param({"job": "another", "endpoint": "http"}, {}, id="two jobs"),
    ],
)
def test_who_is_scraped_twice_counts_once(
    serve: Serve, clock: HandClock, others: dict[str, str], given: dict[str, object]
) -> None:
    stored = ScrapedPages()
    first = target(1, **{name: "a" for name in others if name not in ("job", "endpoint")})
    for at_s, labels in ((990.0, first), (995.0, target(1, **others))):
        stored.scrape(page(4, 2), at_s=at_s, **labels)
    with reading(serve(stored.answer), clock, **given) as source:
        seen = one(source, chat(1))
    assert isinstance(seen, EngineReading)
    assert (seen.running, seen.waiting) == (4, 2)


@pytest.mark.parametrize(
    ("labels", "given", "expected"),
    [
        pytest.param({"cluster": "b"}, {}, UnknownReason.CONTRADICTION, id="two clusters"),
        pytest.param({"cluster": "b"}, {"matchers": {"cluster": "a"}}, None, id="two clusters, one chosen"),
        pytest.param({"instance": "elsewhere:1"}, {}, None, id="two ports, one is its page"),
    ],
)
def test_who_could_be_two_is_unknown(
    serve: Serve, clock: HandClock, labels: dict[str, str], given: dict[str, object], expected: UnknownReason | None
) -> None:
    stored = ScrapedPages()
    stored.scrape(page(4, 2), at_s=990.0, **target(1, cluster="a"))
    stored.scrape(page(9, 9), at_s=995.0, **(target(1, cluster="a") | labels))
    with reading(serve(stored.answer), clock, **given) as source:
        seen = one(source, chat(1))
    assert running(seen) == 4 if expected is None else reason(seen) is expected


def test_two_addresses_and_neither_its_own_is_unknown(serve: Serve, clock: HandClock) -> None:
    stored = ScrapedPages()
    for port in (1, 2):
        stored.scrape(page(port, 0), at_s=990.0, **target(1, instance=f"elsewhere:{port}"))
    with reading(serve(stored.answer), clock) as source:
        assert reason(one(source, chat(1))) is UnknownReason.CONTRADICTION


def test_an_address_used_anew_is_not_its_former_holders(serve: Serve, clock: HandClock) -> None:
    stored = ScrapedPages()
    stored.scrape(page(9, 9), at_s=999.0, **target(1, pod="gone"))
    with reading(serve(stored.answer), clock) as source:
        assert reason(one(source, chat(1))) is UnknownReason.MISSING_SERIES


def test_a_part_that_is_missing_makes_all_asked_for_unknown(serve: Serve, clock: HandClock) -> None:
    stored = ScrapedPages(warnings=["store is unreachable"])
    stored.scrape(page(9, 9), at_s=999.0, **target(1))
    with reading(serve(stored.answer), clock) as source:
        seen = one(source, chat(1))
    assert reason(seen) is UnknownReason.HTTP_ERROR
    assert "store is unreachable" in str(seen)


def test_without_up_a_page_is_read_all_the_same(serve: Serve, clock: HandClock) -> None:
    stored = ScrapedPages()
    stored.scrape(page(9, 9), at_s=999.0, **target(1))
    stored.forget("up")
    with reading(serve(stored.answer), clock) as source:
        assert running(one(source, chat(1))) == 9


def test_who_is_not_ready_is_not_asked_for(serve: Serve, clock: HandClock) -> None:
    stored = ScrapedPages()
    world = snapshot(replace(chat(1), phase=Phase.STARTING), replace(chat(2), metrics_url=None))
    with reading(serve(stored.answer), clock) as source:
        assert source.read(world).engines == {}
    assert stored.forms == []


SCRAPES = st.lists(
    st.tuples(st.floats(0, 2000), st.integers(0, 3), st.none() | st.integers(0, 1000)),
    max_size=12,
    unique_by=lambda each: each[0],
).map(sorted)


def test_what_is_told_is_the_newest_page_and_young_or_nothing(serve: Serve) -> None:
    """However scrapes and failures follow one another; the source keeps what it learned of earlier fleets."""
    clock, stores = HandClock(), [ScrapedPages()]

    async def answer(request: web.Request) -> web.StreamResponse:
        return await stores[-1].answer(request)

    @given(scrapes=SCRAPES, now_s=st.floats(900, 1100))
    @settings(max_examples=60, deadline=None)
    def check(scrapes: list[tuple[float, int, int | None]], now_s: float) -> None:
        clock.at_s = now_s
        stores.append(ScrapedPages(at_s=now_s))
        for at_s, number, count in scrapes:
            stores[-1].scrape(None if count is None else page(count, 0), at_s=at_s, **target(number))
        readings = source.read(snapshot(*(chat(number) for number in range(4)))).engines
        for number in range(4):
            seen = readings[f"llm/chat-{number}"]
            mine = [(at_s, count) for at_s, each, count in scrapes if each == number and at_s <= now_s]
            newest_s, count = max(mine, default=(-1.0, None), key=lambda each: each[0])
            if isinstance(seen, EngineReading):
                assert (seen.at_s, seen.running) == (newest_s, count)
                assert now_s - seen.at_s <= 45.0
            else:
                assert count is None or now_s - newest_s >= 45.0

    with reading(serve(answer), clock) as source:
        check()
