"""SGLang's pages: the sample of its documentation, ranks, prefixes, and gauges that lag."""

from __future__ import annotations

import pytest

from autoscaler.domain.reading import Histogram, UnknownReason, is_known
from autoscaler.domain.service import Engine
from tests.adapters_engines.known import SCRAPES, known, read, reason, refused, without

DOCUMENTED = (SCRAPES / "sglang_0.4_overloaded.prom").read_text()
RANKED = (SCRAPES / "sglang_dp2_tp2.prom").read_text()


def test_the_documentations_sample() -> None:
    reading = read(DOCUMENTED)
    assert reading.engine == Engine.SGLANG
    assert known(reading) == {
        "waiting": 2826,
        "running": 162,
        "kv_fraction": 0.28,
        "completed": 11228,
        "prompt_tokens": 8128902,
        "generation_tokens": 7557572,
        "arrivals_stock": 14216,  # 2826 + max(11008, 11228 + 162)
        "ttft": (11008, 2351897.9474117756),
        "itl": (7400757, 866964.5791549598),
        "e2e": (11228, 3116093.850019932),
    }


def test_most_first_tokens_of_the_sample_lie_above_the_last_bound() -> None:
    ttft = read(DOCUMENTED).ttft
    assert isinstance(ttft, Histogram)
    assert ttft.share_within(30.0) == 2513 / 11008
    assert ttft.quantile(0.5) == 30.0  # "at least"


def test_data_parallel_ranks_add_up_and_the_others_repeat() -> None:
    assert known(read(RANKED)) == {
        "waiting": 10,  # 7 + 0 queued, 2 + 1 waiting for a grammar; each said by two tensor-parallel ranks
        "running": 17,  # 12 + 5
        "kv_fraction": 0.8,  # the fuller of the two
        "kv_capacity_tokens": 80_000,
        "completed": 90,
        "refused": 4,
        "prompt_tokens": 10_000,  # live: 9800 computed, 200 from the cache
        "generation_tokens": 5200,  # live, where 4500 of finished requests are counted as such
        "arrivals_stock": 117,  # 10 + max(104, 90 + 17)
        "started_s": 1.76e9,
        "ttft": (104, 18.5),
        "itl": (5096, 81.25),
        "e2e": (90, 270.0),
        "queue_time": (90, 22.5),
    }


def test_behind_a_router_the_colon_is_an_underscore_and_workers_add_up() -> None:
    page = DOCUMENTED.replace("sglang:", "sglang_")
    first, second = (page.replace("{", f'{{worker_addr="http://10.0.0.{n}:30000",') for n in (1, 2))
    samples = "\n".join([line for line in second.splitlines() if not line.startswith("#")])
    reading = read(first + samples + "\n")
    assert (reading.waiting, reading.running, reading.arrivals_stock) == (2 * 2826, 2 * 162, 2 * 14216)


@pytest.mark.parametrize(
    ("page", "waiting"),
    [
        pytest.param(without(RANKED, "num_grammar_queue_reqs"), 7.0, id="no grammar queue in older versions"),
        pytest.param(
            RANKED.replace("} 2.0", "} NaN"),
            UnknownReason.NOT_A_NUMBER,
            id="a grammar queue that is no number",
        ),
    ],
)
def test_waiting_is_the_queue_and_the_grammar_queue(page: str, waiting: float | UnknownReason) -> None:
    reading = read(page)
    assert (reason(reading, "waiting") if isinstance(waiting, UnknownReason) else reading.waiting) == waiting


def test_a_gauge_that_lags_at_the_end_of_a_burst_is_made_up_for_when_it_is_written_again() -> None:
    """Three requests have ended, while the gauge says for half a minute that they run."""
    page = "sglang:num_queue_reqs 0\nsglang:num_running_reqs {running}\nsglang:num_requests_total {done}\n"
    stocks = [
        read(page.format(running=running, done=done)).arrivals_stock
        for running, done in ((3, 0), (3, 3), (0, 3), (0, 3))
    ]
    assert stocks == [3, 6, 3, 3]


def test_a_fresh_server_has_gauges_alone_and_no_arrivals() -> None:
    reading = read("sglang:num_queue_reqs 0\nsglang:num_running_reqs 0\n")
    assert (reading.completed, reading.arrivals_stock) == (0, 0)
    assert reason(reading, "refused") is UnknownReason.MISSING_SERIES


def test_a_page_without_its_queue_is_unknown() -> None:
    answer = refused(without(DOCUMENTED, "num_queue_reqs"))
    assert answer.reason is UnknownReason.MISSING_SERIES
    assert "sglang:num_queue_reqs" in answer.detail


@pytest.mark.parametrize(
    ("label", "tokens"),
    [
        pytest.param('page_size="64"', 64.0, id="told"),
        pytest.param('page_size="None"', None, id="None in text"),
        pytest.param('num_pages="8"', None, id="not told"),
    ],
)
def test_the_cache_is_given_out_in_pages(label: str, tokens: float | None) -> None:
    told = read(DOCUMENTED + f"sglang:cache_config_info{{{label}}} 1\n").kv_block_tokens
    assert (told if is_known(told) else None) == tokens
