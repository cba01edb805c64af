"""What the gateway counted between two ticks: unknown time is not taken for time without requests."""

from __future__ import annotations

import pytest

from autoscaler.domain.params import Params
from autoscaler.domain.reading import GatewayReading, Histogram, Unknown, UnknownReason
from autoscaler.policy.counting import Counted, gateway_progress

NOTHING = Histogram((1.0,), (0.0,), 0.0, 0.0)


def reading(*, at_s: float, started_s: float, arrivals: float) -> GatewayReading:
    return GatewayReading(
        service="chat",
        at_s=at_s,
        started_s=started_s,
        arrivals=arrivals,
        finished=0.0,
        failed=0.0,
        refused=0.0,
        waiting=0.0,
        in_flight=0.0,
        judged=arrivals,
        within_slo=arrivals,
        ttft=NOTHING,
        itl=NOTHING,
        e2e=NOTHING,
    )


BEFORE = reading(at_s=100.0, started_s=50.0, arrivals=30.0)


@pytest.mark.parametrize(
    ("now", "span_s", "arrivals"),
    [
        pytest.param(reading(at_s=105.0, started_s=50.0, arrivals=40.0), 5.0, 10.0, id="it goes on"),
        pytest.param(reading(at_s=105.0, started_s=103.0, arrivals=8.0), 2.0, 8.0, id="a new start"),
        pytest.param(reading(at_s=105.0, started_s=50.0, arrivals=8.0), 5.0, 8.0, id="its counts ran back"),
    ],
)
def test_the_span_is_that_in_which_it_counted(now: GatewayReading, span_s: float, arrivals: float) -> None:
    counted = gateway_progress(now, BEFORE, now_s=now.at_s, params=Params())
    assert counted == Counted(span_s=span_s, arrivals=arrivals, judged=arrivals, within_slo=arrivals, at_least=False)


def test_what_has_only_just_started_has_counted_nothing_yet() -> None:
    now = reading(at_s=105.0, started_s=105.0, arrivals=0.0)
    counted = gateway_progress(now, BEFORE, now_s=105.0, params=Params())
    assert isinstance(counted, Unknown)
    assert counted.reason is UnknownReason.WARMING_UP
