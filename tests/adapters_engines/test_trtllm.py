"""trtllm-serve's pages: newer ones with gauges, older ones without, and the JSON of its other address."""

from __future__ import annotations

import pytest

from autoscaler.domain.reading import UnknownReason
from autoscaler.domain.service import Engine
from tests.adapters_engines.known import SCRAPES, known, read, reason, refused, without

PAGE = (SCRAPES / "trtllm_serve.prom").read_text()
JSON = (SCRAPES / "trtllm_serve_json.json").read_bytes()
VALUES = {
    "waiting": 4,
    "running": 6,
    "kv_fraction": 0.62,
    "completed": 100,
    "prompt_tokens": 5000,
    "generation_tokens": 2500,
    "arrivals_stock": 110,  # 95 + 5 have ended, 4 wait, 6 run
    "ttft": (100, 12.5),
    "itl": (100, 2.0),
    "request_itl": (100, 2.0),
    "e2e": (100, 150.0),
    "queue_time": (100, 4.0),
}


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(PAGE, id="trtllm-serve"),
        pytest.param(PAGE.replace("trtllm_", "trtllm:"), id="under Dynamo 0.7"),
    ],
)
def test_a_page_with_gauges(page: str) -> None:
    reading = read(page)
    assert reading.engine == Engine.TRTLLM
    assert known(reading) == VALUES


def test_without_the_gauges_completions_alone_are_no_arrivals() -> None:
    reading = read(without(PAGE, "trtllm_num_requests", "trtllm_kv_cache", "_tokens_total"))
    assert set(known(reading)) == {"completed", "ttft", "itl", "request_itl", "e2e", "queue_time"}
    assert reason(reading, "arrivals_stock") is UnknownReason.MISSING_SERIES


def test_before_the_first_end_none_has_completed() -> None:
    reading = read(without(PAGE, "trtllm_request_success_total"))
    assert (reading.completed, reading.arrivals_stock) == (0, 10)


@pytest.mark.parametrize("engine", [Engine.AUTO, Engine.TRTLLM])
def test_the_json_of_the_other_address_is_told_with_the_right_one(engine: Engine) -> None:
    answer = refused(JSON, engine=engine)
    assert answer.reason is UnknownReason.WRONG_CONTENT
    assert "/prometheus/metrics" in answer.detail
