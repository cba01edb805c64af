"""Whatever a Prometheus says, or does not say, every replica keeps an entry with the reason."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import pytest
from aiohttp import web

from autoscaler.domain.reading import UnknownReason
from tests.adapters_engines.conftest import Handler, Serve
from tests.adapters_prometheus.asking import chat, one, reading, reason, running, target
from tests.adapters_prometheus.conftest import HandClock
from tests.adapters_prometheus.fleets import page, snapshot
from tests.adapters_prometheus.query_api import ScrapedPages


async def hang(_: web.Request) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError("never gets here")


def told(body: bytes | str, *, status: int = 200, **headers: str) -> Handler:
    async def handler(_: web.Request) -> web.StreamResponse:
        return web.Response(body=body if isinstance(body, bytes) else body.encode(), status=status, headers=headers)

    return handler


@pytest.mark.parametrize(
    ("handler", "expected", "detail"),
    [
        pytest.param(told("<html>", Content_Type="text/html"), UnknownReason.WRONG_CONTENT, "<html>", id="HTML"),
        pytest.param(told("[]"), UnknownReason.WRONG_CONTENT, "query API", id="another JSON"),
        pytest.param(told('{"status": "success"}'), UnknownReason.WRONG_CONTENT, "without series", id="no data"),
        pytest.param(
            told('{"status":"error","errorType":"execution","error":"too many samples"}', status=422),
            UnknownReason.HTTP_ERROR,
            "422 Unprocessable Entity execution: too many samples",
            id="422",
        ),
        pytest.param(told("upstream", status=503), UnknownReason.HTTP_ERROR, "503", id="503"),
        pytest.param(told("", status=401), UnknownReason.HTTP_ERROR, "401 Unauthorized", id="401"),
        pytest.param(
            told("", status=302, Location="http://login/"), UnknownReason.HTTP_ERROR, "not followed", id="redirect"
        ),
        pytest.param(
            told('{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1,"x"]]}]}}'),
            UnknownReason.MALFORMED_PAGE,
            "'x'",
            id="no number",
        ),
        pytest.param(told(b" " * 200_000), UnknownReason.PAGE_TOO_LARGE, "100000", id="too large"),
    ],
)
def test_whatever_prometheus_says_no_replica_is_lost(
    serve: Serve, clock: HandClock, handler: Handler, expected: UnknownReason, detail: str
) -> None:
    fleet = [chat(number) for number in range(3)]
    with reading(serve(handler), clock, max_answer_bytes=100_000) as source:
        seen = source.read(snapshot(*fleet)).engines
    assert list(seen) == [each.name for each in fleet]
    assert {reason(each) for each in seen.values()} == {expected}
    assert all(detail in str(each) for each in seen.values())


def test_one_that_does_not_answer_is_waited_for_in_bounds(serve: Serve, clock: HandClock) -> None:
    with reading(serve(hang), clock, timeout_s=0.3) as source:
        assert reason(one(source, chat(1))) is UnknownReason.TIMEOUT


def test_nobody_there(clock: HandClock) -> None:
    with reading("http://127.0.0.1:1", clock) as source:
        assert reason(one(source, chat(1))) is UnknownReason.UNREACHABLE


def test_a_batch_that_fails_costs_no_other(serve: Serve, clock: HandClock) -> None:
    stored = ScrapedPages()
    for number in range(4):
        stored.scrape(page(number, 0), at_s=999.0, **target(number))

    async def partly(request: web.Request) -> web.StreamResponse:
        if "chat-3" in str((await request.post())["query"]):
            return web.Response(status=500)
        return await stored.answer(request)

    with ExitStack() as opened:
        source = opened.enter_context(reading(serve(partly), clock, replicas_per_query=2))
        seen = source.read(snapshot(*(chat(number) for number in range(4)))).engines
    assert [running(seen[f"llm/chat-{number}"]) for number in (0, 1)] == [0, 1]
    assert {reason(seen[f"llm/chat-{number}"]) for number in (2, 3)} == {UnknownReason.HTTP_ERROR}
