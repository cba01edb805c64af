"""TGI's pages: chat requests counted twice, series that come with their first use, a server that is fresh or hangs."""

from __future__ import annotations

import pytest

from autoscaler.domain.reading import UnknownReason
from autoscaler.domain.service import Engine
from tests.adapters_engines.known import SCRAPES, known, read, reason, refused, without

OVERLOADED = (SCRAPES / "tgi_3_overloaded.prom").read_text()
FRESH = (SCRAPES / "tgi_3_fresh.prom").read_text()
HISTOGRAMS = {"itl": (60, 1.875), "request_itl": (60, 1.875), "e2e": (60, 210.5), "queue_time": (60, 18.25)}


def test_a_hundred_chat_requests_are_a_hundred_arrivals_though_two_hundred_are_counted() -> None:
    reading = read(OVERLOADED)
    assert "tgi_request_count 200" in OVERLOADED
    assert reading.engine == Engine.TGI
    assert known(reading) == HISTOGRAMS | {
        "waiting": 30,
        "running": 8,
        "kv_fraction": 0.25,  # 12000 of 48000 tokens reserved
        "kv_capacity_tokens": 48_000,
        "completed": 60,
        "refused": 2,
        "prompt_tokens": 6000,
        "generation_tokens": 5760,
        "arrivals_stock": 100,  # 60 + 2 + 30 + 8
        "steps": 1541,  # 31 prefills and 1510 decodes
        "prompt_length": (60, 6000),
        "output_length": (60, 5760),
    }


def test_the_page_of_a_fresh_server_means_that_nothing_has_happened_yet() -> None:
    assert known(read(FRESH)) == {
        "waiting": 0,
        "running": 0,
        "kv_fraction": 0,
        "kv_capacity_tokens": 48_000,
        "completed": 0,
        "refused": 0,
        "prompt_tokens": 0,
        "generation_tokens": 0,
        "arrivals_stock": 0,
        "steps": 0,
    }
    assert ["no request has come yet" in warning for warning in read(FRESH).warnings] == [True]
    assert read(FIRST_QUEUED).warnings == ()


FIRST_QUEUED = FRESH + "tgi_request_count 2\ntgi_queue_size 1\n"
FIRST_RUNNING = FIRST_QUEUED.replace("queue_size 1", "queue_size 0") + "tgi_batch_current_size 1\n"
FIRST_DONE = FIRST_RUNNING.replace("current_size 1", "current_size 0") + "tgi_request_success 1\n"
FIRST_REFUSED = FRESH + 'tgi_request_count 2\ntgi_request_failure{err="validation"} 1\n'


@pytest.mark.parametrize(
    ("page", "stock"),
    [
        pytest.param(FIRST_QUEUED, 1, id="queued"),
        pytest.param(FIRST_RUNNING, 1, id="in the batch"),
        pytest.param(FIRST_DONE, 1, id="answered"),
        pytest.param(FIRST_REFUSED, 1, id="refused at once"),
    ],
)
def test_the_first_request_is_one_arrival_at_every_stage(page: str, stock: float) -> None:
    assert read(page).arrivals_stock == stock


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        pytest.param("tgi_queue_size", "tgi_queue_size", id="queue"),
        pytest.param("tgi_batch_current_size", "tgi_batch_current_size", id="batch"),
    ],
)
def test_a_gauge_that_lacks_after_requests_were_answered_is_unknown_not_zero(lost: str, said: str) -> None:
    answer = refused(without(OVERLOADED, lost))
    assert answer.reason is UnknownReason.MISSING_SERIES
    assert said in answer.detail


def test_version_2_tells_no_token_budget() -> None:
    reading = read(without(OVERLOADED, "tgi_batch_max_total_tokens"))
    assert reason(reading, "kv_fraction") is UnknownReason.MISSING_SERIES
    assert reading.arrivals_stock == 100


@pytest.mark.parametrize(
    ("reserved", "budget"), [pytest.param(48_001, 48_000, id="more than all"), pytest.param(0, 0, id="of nothing")]
)
def test_a_senseless_reservation_is_unknown(reserved: int, budget: int) -> None:
    page = OVERLOADED.replace("max_tokens 12000", f"max_tokens {reserved}").replace(
        "total_tokens 48000", f"total_tokens {budget}"
    )
    assert reason(read(page), "kv_fraction") is UnknownReason.OUT_OF_RANGE


def test_an_empty_page_is_no_fresh_server() -> None:
    assert refused("", engine=Engine.TGI).reason is UnknownReason.EMPTY_PAGE
