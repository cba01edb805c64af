"""Senseless pages for every table: a reading in its ranges or a reason, however often a page is read.

``python -m benchmarks.fuzz --seconds 600`` does the same for long.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapters.engines.detection import TABLES
from adapters.engines.gateway_tables import GATEWAY_TABLES
from autoscaler.domain.service import Engine
from benchmarks.fuzz import Fuzzer, check_sensible
from benchmarks.fuzz_gateways import GatewayFuzzer, StatisticsFuzzer
from tests.adapters_engines.known import read


@pytest.fixture(scope="module")
def fuzzer() -> Fuzzer:
    return Fuzzer()


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(number=st.integers(0, 2**62))
def test_any_page_is_read_or_refused_with_a_reason(fuzzer: Fuzzer, number: int) -> None:
    fuzzer.check(number)


def test_the_pages_reach_every_table_and_many_are_read(fuzzer: Fuzzer) -> None:
    outcomes = [fuzzer.check(number) for number in range(600)]
    assert {str(table.engine) for table in TABLES} <= set(outcomes)
    assert sum(outcome in set(Engine) for outcome in outcomes) > len(outcomes) / 4


def test_a_reading_out_of_its_range_would_be_noticed() -> None:
    reading = read("vllm:num_requests_running 1\nvllm:num_requests_waiting 2\n")
    check_sensible(reading)
    object.__setattr__(reading, "kv_fraction", 1.5)
    with pytest.raises(AssertionError, match="kv_fraction"):
        check_sensible(reading)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(number=st.integers(0, 2**62))
def test_any_page_of_a_gateway_is_read_or_refused_with_a_reason(number: int) -> None:
    GatewayFuzzer().check(number)


def test_pages_of_every_gateway_are_reached_and_many_are_read() -> None:
    fuzzer = GatewayFuzzer()
    outcomes = [fuzzer.check(number) for number in range(900)]
    assert {str(kind) for kind in GATEWAY_TABLES} | {"ours"} <= set(outcomes)


@settings(max_examples=300, deadline=None)
@given(number=st.integers(0, 2**62))
def test_any_statistics_are_read_or_refused_with_a_reason(number: int) -> None:
    StatisticsFuzzer().check(number)
