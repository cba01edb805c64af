"""Dynamo's front end: live gauges, totals at the end, and series that come with the first request."""

from __future__ import annotations

from autoscaler.domain.reading import UnknownReason
from autoscaler.domain.service import Engine
from tests.adapters_engines.known import SCRAPES, known, read, refused, without

PAGE = (SCRAPES / "dynamo_frontend.prom").read_text()
FRESH = (SCRAPES / "dynamo_frontend_fresh.prom").read_text()


def test_twelve_in_flight_of_which_five_have_no_token_yet() -> None:
    reading = read(PAGE)
    assert reading.engine == Engine.DYNAMO
    assert known(reading) == {
        "waiting": 5,
        "running": 7,
        "completed": 10_000,  # 9000 + 980, and 20 errors
        "prompt_tokens": 20_000_000,
        "generation_tokens": 4_500_000,
        "arrivals_stock": 10_012,
        "ttft": (9007, 3200),
        "itl": (4_490_000, 90_000),
        "e2e": (10_000, 12_000),
        "prompt_length": (10_012, 20_000_000),
        "output_length": (10_000, 4_500_000),
    }


def test_before_the_first_request_nothing_has_come() -> None:
    assert known(read(FRESH)) == {"waiting": 0, "running": 0, "completed": 0, "arrivals_stock": 0}


def test_gauges_read_at_different_instants_never_make_running_negative() -> None:
    assert read(PAGE.replace("} 12\n", "} 4\n")).running == 0


def test_a_gauge_that_lacks_after_requests_have_ended_is_unknown() -> None:
    assert refused(without(PAGE, "inflight_requests")).reason is UnknownReason.MISSING_SERIES
