"""What replicas feel of the arrivals: their mean over as long as a request lasts."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.domain.capacity import RequestShape
from autoscaler.domain.reading import Measured, Unknown, UnknownReason
from autoscaler.domain.service import Slo
from autoscaler.domain.state import Increment
from autoscaler.policy.lasting import felt_rps, lasts_s, load_rps
from autoscaler.policy.windows import Window, window

UNKNOWN = Unknown(UnknownReason.UNREACHABLE)
RATES = st.floats(0.0, 1e4)


def short(arrivals: float, span_s: float = 15.0) -> Window:
    one = Increment(
        end_s=100.0,
        span_s=span_s,
        arrivals=arrivals,
        observed_s=span_s,
        live_s=span_s,
        judged=0.0,
        within_slo=0.0,
        gateway=False,
        loads=(),
    )
    return window([one], now_s=100.0, window_s=span_s)


@pytest.mark.parametrize(
    ("slo", "shape", "expected"),
    [
        pytest.param(Slo(itl_s=0.05), RequestShape.of_means(100.0, 1200.0), 60.0, id="a thousand tokens at 50 ms"),
        pytest.param(Slo(ttft_s=2.0), RequestShape.of_means(100.0, 1200.0), 0.0, id="no pace is promised"),
        pytest.param(Slo(itl_s=0.05), UNKNOWN, 0.0, id="unknown lengths"),
    ],
)
def test_how_long_a_request_lasts(slo: Slo, shape: RequestShape | Unknown, expected: float) -> None:
    assert lasts_s(slo, shape) == pytest.approx(expected)


@given(st.lists(RATES, min_size=1, max_size=50), st.floats(1.0, 600.0), st.floats(0.5, 60.0))
def test_as_many_are_in_flight_as_came_and_stay(rates: list[float], lasting_s: float, span_s: float) -> None:
    """Felt rate x T is the mean number in flight of requests with exponential times, begun at the first rate."""
    felt: Measured = rates[0]
    in_flight = rates[0] * lasting_s
    for rate in rates:
        felt = felt_rps(felt, tick_rps=rate, span_s=span_s, in_flight=1.0, lasting_s=lasting_s)
        stays = math.exp(-span_s / lasting_s)
        in_flight = in_flight * stays + rate * lasting_s * (1 - stays)
        assert felt == pytest.approx(in_flight / lasting_s, abs=1e-9)


@given(RATES, RATES)
def test_where_nothing_lasts_the_tick_is_felt_as_it_is(before: float, rate: float) -> None:
    assert felt_rps(before, tick_rps=rate, span_s=15.0, in_flight=1.0, lasting_s=0.0) == rate


def test_unknown_is_not_felt_and_nothing_in_flight_is_nothing() -> None:
    assert felt_rps(5.0, tick_rps=UNKNOWN, span_s=15.0, in_flight=1.0, lasting_s=60.0) is UNKNOWN
    assert felt_rps(UNKNOWN, tick_rps=3.0, span_s=15.0, in_flight=1.0, lasting_s=60.0) == 3.0
    assert felt_rps(5.0, tick_rps=0.0, span_s=15.0, in_flight=0.0, lasting_s=60.0) == 0.0
    assert felt_rps(5.0, tick_rps=0.0, span_s=15.0, in_flight=UNKNOWN, lasting_s=60.0) > 0.0  # type: ignore[operator]


@pytest.mark.parametrize(
    ("arrivals", "running", "lasting_s", "expected"),
    [
        pytest.param(150.0, 0.0, 10.0, 10.0, id="short requests: as the window counts"),
        pytest.param(150.0, 500.0, 10.0, 10.0, id="short requests: whatever runs"),
        # 120 came in 15 s; 2 sqrt(120) = 21.9 are chance, three quarters of them count.
        pytest.param(120.0, 0.0, 60.0, 8.0 - 21.9089 / 15 * 0.75, id="more than chance makes: so much is proven"),
        pytest.param(90.0, 0.0, 60.0, 6.0, id="within chance of what is felt"),
        # 6 a second, each for 60 s at the promised pace: up to 360 run.
        pytest.param(90.0, 280.0, 60.0, 6.0, id="no more run than the rate explains"),
        pytest.param(90.0, 480.0, 60.0, 10.0, id="more run: answers are longer than those that have ended"),
        pytest.param(30.0, 0.0, 60.0, 6.0, id="fewer than before are still felt"),
    ],
)
def test_the_rate_to_size_for(arrivals: float, running: float, lasting_s: float, expected: float) -> None:
    load = load_rps(short(arrivals), 6.0, short_rps=arrivals / 15, running=running, lasting_s=lasting_s, window_s=15.0)
    assert load == pytest.approx(expected)


def test_an_unknown_rate_is_none_to_size_for() -> None:
    assert load_rps(short(0.0), 6.0, short_rps=UNKNOWN, running=9.0, lasting_s=60.0, window_s=15.0) is UNKNOWN
