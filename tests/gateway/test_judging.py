"""What is counted of a request, and when it has met the SLO. All times are given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.local.gateway_metrics import Exchange, ServiceMeter
from autoscaler.domain.reading import Histogram
from autoscaler.domain.service import ServiceId, Slo

STREAM = "text/event-stream"
JSON = "application/json"
RECEIVED_S = 100.0

LLM = Slo(ttft_s=2.0, itl_s=0.1)
BATCH = Slo(e2e_s=5.0)
QUEUE = Slo(queue_s=1.0)


def streamed(exchange: Exchange, *, first_s: float, gap_s: float, pieces: int = 11) -> None:
    exchange.begins(status=200, media_type=STREAM)
    for number in range(pieces):
        exchange.passes(b"data: {}\n\n", RECEIVED_S + first_s + number * gap_s)
    end_s = RECEIVED_S + first_s + (pieces - 1) * gap_s
    exchange.passes(b"data: [DONE]\n\n", end_s)
    exchange.finish(end_s)


def whole(exchange: Exchange, *, after_s: float, status: int = 200, held_s: float = 0.0) -> None:
    exchange.held(held_s)
    exchange.begins(status=status, media_type=JSON)
    exchange.passes(b"{}", RECEIVED_S + after_s)
    exchange.finish(RECEIVED_S + after_s)


def given_up(exchange: Exchange, *, after_s: float, held_s: float = 0.0) -> None:
    exchange.held(held_s)
    exchange.abandon(RECEIVED_S + after_s)


@pytest.mark.parametrize(
    ("slo", "course", "counted", "judged", "within"),
    [
        pytest.param(LLM, lambda x: streamed(x, first_s=1.9, gap_s=0.09), "finished", 1, 1, id="stream in time"),
        pytest.param(LLM, lambda x: streamed(x, first_s=2.1, gap_s=0.09), "finished", 1, 0, id="late first token"),
        pytest.param(LLM, lambda x: streamed(x, first_s=1.9, gap_s=0.11), "finished", 1, 0, id="slow tokens"),
        pytest.param(LLM, lambda x: streamed(x, first_s=1.9, gap_s=9.0, pieces=1), "finished", 1, 1, id="one token"),
        pytest.param(LLM, lambda x: whole(x, after_s=30.0), "finished", 0, 0, id="whole: no token is seen"),
        pytest.param(LLM, lambda x: whole(x, after_s=30.0, held_s=3.0), "finished", 1, 0, id="whole, held too long"),
        pytest.param(LLM, lambda x: whole(x, after_s=0.1, status=400), "finished", 0, 0, id="client's fault"),
        pytest.param(LLM, lambda x: whole(x, after_s=0.1, status=500), "failed", 1, 0, id="replica's fault"),
        pytest.param(LLM, lambda x: whole(x, after_s=0.1, status=429), "refused", 1, 0, id="replica refuses, 429"),
        pytest.param(LLM, lambda x: whole(x, after_s=0.1, status=503), "refused", 1, 0, id="replica refuses, 503"),
        pytest.param(LLM, lambda x: x.refuse(), "refused", 1, 0, id="gateway refuses"),
        pytest.param(LLM, lambda x: x.fail(), "failed", 1, 0, id="broken off"),
        pytest.param(LLM, lambda x: given_up(x, after_s=1.0), None, 0, 0, id="given up in time"),
        pytest.param(LLM, lambda x: given_up(x, after_s=2.1), None, 1, 0, id="given up too late"),
        pytest.param(BATCH, lambda x: whole(x, after_s=4.9), "finished", 1, 1, id="batch in time"),
        pytest.param(BATCH, lambda x: whole(x, after_s=5.1), "finished", 1, 0, id="batch late"),
        pytest.param(BATCH, lambda x: streamed(x, first_s=1.0, gap_s=0.1), "finished", 1, 1, id="batch, streamed"),
        pytest.param(QUEUE, lambda x: whole(x, after_s=9.0), "finished", 0, 0, id="the replica's queue is not seen"),
        pytest.param(QUEUE, lambda x: whole(x, after_s=9.0, held_s=1.1), "finished", 1, 0, id="our own is"),
    ],
)
def test_course(slo: Slo, course: Callable[[Exchange], None], counted: str | None, judged: int, within: int) -> None:
    meter = ServiceMeter(slo)
    course(meter.arrive(RECEIVED_S))
    ends = {"finished": meter.finished, "failed": meter.failed, "refused": meter.refused}
    assert ends == {name: int(name == counted) for name in ends}
    assert (meter.arrivals, meter.in_flight) == (1, 0)
    assert (meter.judged, meter.within_slo) == (judged, within)


def reading_histograms(meter: ServiceMeter) -> tuple[Histogram, Histogram, Histogram]:
    reading = meter.reading(ServiceId("chat"), started_s=1.0, at_s=2.0, waiting=0)
    return reading.ttft, reading.itl, reading.e2e


def test_times_of_a_stream() -> None:
    meter = ServiceMeter(LLM)
    streamed(meter.arrive(RECEIVED_S), first_s=1.5, gap_s=0.05, pieces=21)
    ttft, itl, e2e = reading_histograms(meter)
    assert (ttft.count, ttft.total) == (1, 1.5)
    assert itl.count == e2e.count == 1
    assert itl.total == pytest.approx(0.05)
    assert e2e.total == pytest.approx(2.5)


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param([b"data: 1\n\n", b"data: 2\n\n", b"data: 3\n\ndata: [DONE]\n\n"], id="one event a chunk"),
        pytest.param([b"data: 1\n\ndata: 2\n\n", b"data: 3\n\n"], id="two in a chunk"),
        pytest.param([b"data: 1\r\n\r\n", b"data: 2\r\n\r\n", b"data: 3\r\n\r\n"], id="CR LF"),
        pytest.param([b"data: 1\n\nda", b"ta: 2\n\nda", b"ta: 3\n\n"], id="cut within events"),
    ],
)
def test_tokens_are_counted_by_events_not_by_chunks(chunks: list[bytes]) -> None:
    """Three events over 2 s are two gaps of 1 s, however the network cuts them."""
    meter = ServiceMeter(LLM)
    exchange = meter.arrive(RECEIVED_S)
    exchange.begins(status=200, media_type=STREAM)
    for number, chunk in enumerate(chunks):
        exchange.passes(chunk, RECEIVED_S + 1.0 + 2.0 * number / (len(chunks) - 1))
    exchange.finish(RECEIVED_S + 3.0)
    _, itl, _ = reading_histograms(meter)
    assert (itl.count, itl.total) == (1, 1.0)


def test_the_share_within_a_threshold_is_exact() -> None:
    meter = ServiceMeter(Slo(ttft_s=0.33))
    for first_s in (0.32, 0.33, 0.34):
        streamed(meter.arrive(RECEIVED_S), first_s=first_s - 1e-9, gap_s=0.0)
    ttft, _, _ = reading_histograms(meter)
    assert ttft.share_within(0.33) == pytest.approx(2 / 3)
    assert meter.within_slo == 2


def test_a_changed_threshold_begins_only_its_own_histogram_anew() -> None:
    meter = ServiceMeter(LLM)
    streamed(meter.arrive(RECEIVED_S), first_s=1.0, gap_s=0.05)
    meter.set_slo(replace(LLM, share=0.9))
    assert [histogram.count for histogram in reading_histograms(meter)] == [1, 1, 1]
    meter.set_slo(replace(LLM, itl_s=0.12))
    assert [histogram.count for histogram in reading_histograms(meter)] == [1, 0, 1]
    assert (meter.arrivals, meter.judged) == (1, 1)


@given(st.lists(st.sampled_from(["finish", "fail", "refuse", "abandon"]), min_size=1))
def test_an_exchange_ends_once(ends: list[str]) -> None:
    meter = ServiceMeter(LLM)
    exchange = meter.arrive(RECEIVED_S)
    exchange.begins(status=200, media_type=JSON)
    for end in ends:
        if end in ("finish", "abandon"):
            getattr(exchange, end)(RECEIVED_S + 1.0)
        else:
            getattr(exchange, end)()
    assert meter.in_flight == 0
    assert meter.finished + meter.failed + meter.refused == (ends[0] != "abandon")


@given(st.lists(st.floats(min_value=0.0, max_value=1e4)))
def test_histograms_are_cumulative_and_complete(times_s: list[float]) -> None:
    meter = ServiceMeter(BATCH)
    for time_s in times_s:
        exchange = meter.arrive(0.0)
        exchange.begins(status=200, media_type=JSON)
        exchange.finish(time_s)
    _, _, e2e = reading_histograms(meter)
    assert e2e.count == len(times_s)
    assert list(e2e.counts) == [sum(time_s <= bound for time_s in times_s) for bound in e2e.bounds]
