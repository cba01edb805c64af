"""The gateway in front of a simulated fleet: holding, losing, judging."""

from __future__ import annotations

import numpy as np
import pytest

from adapters.simulation.engine_fleet import EngineFleet
from adapters.simulation.requests import Requests
from adapters.simulation.serving import Outcome
from adapters.simulation.step_times import EngineShape, StepTimes
from autoscaler.domain.service import Slo

# A prompt of 10 tokens takes 0.1 s, each further token 0.05 s.
TIMES = StepTimes.of_seconds(c_s=0.05, d_s=0.0, e_s=0.0, a_s=0.005)
SHAPE = EngineShape(kv_tokens=10_000)
SLO = Slo(ttft_s=0.5, itl_s=0.06)


def _fleet(at_s: list[float], *, output: int = 3, held_limit: int = 10, held_s: float = 60.0) -> EngineFleet:
    requests = Requests(
        at_s=np.array(at_s),
        prompt_tokens=np.full(len(at_s), 10),
        output_tokens=np.full(len(at_s), output),
        cached_tokens=np.zeros(len(at_s), dtype=np.int64),
        duration_s=100.0,
    )
    return EngineFleet(requests, times=TIMES, shape=SHAPE, slo=SLO, held_limit=held_limit, held_s=held_s)


def test_request_is_held_until_a_replica_opens() -> None:
    fleet = _fleet([1.0])
    replica = fleet.add()
    fleet.advance(3.0)
    assert (fleet.gateway().waiting, fleet.gateway().in_flight) == (1, 1)
    assert fleet.page(replica).arrived == 0
    fleet.open(replica)
    fleet.advance(10.0)
    assert fleet.outcomes().ttft_s.tolist() == pytest.approx([2.1])
    page, gateway = fleet.page(replica), fleet.gateway()
    assert page.ttft is not None
    assert page.ttft.total == pytest.approx(0.1)  # the engine's clock starts when the request reaches it
    assert gateway.ttft is not None
    assert gateway.ttft.total == pytest.approx(2.1)
    assert (gateway.waiting, gateway.finished, gateway.judged, gateway.within_slo) == (0, 1, 1, 0)


def test_held_requests_spread_over_the_replicas_that_open_together() -> None:
    fleet = _fleet([1.0, 1.1, 1.2, 1.3])
    fleet.advance(2.0)
    for _ in range(2):
        fleet.open(fleet.add())
    fleet.advance(2.01)
    assert [fleet.in_flight(replica) for replica in (0, 1)] == [2, 2]


def test_hold_is_limited_in_number() -> None:
    fleet = _fleet([1.0, 1.1, 1.2], held_limit=2)
    fleet.advance(2.0)
    assert fleet.outcomes().code.tolist() == [Outcome.UNFINISHED, Outcome.UNFINISHED, Outcome.REFUSED]
    assert (fleet.gateway().refused, fleet.gateway().judged, fleet.gateway().within_slo) == (1, 1, 0)


@pytest.mark.parametrize(
    ("opens_s", "code"),
    [
        pytest.param(3.0, Outcome.FINISHED, id="opens-at-the-limit"),
        pytest.param(3.5, Outcome.REFUSED, id="opens-later"),
    ],
)
def test_hold_is_limited_in_time(opens_s: float, code: Outcome) -> None:
    fleet = _fleet([1.0], held_s=2.0)
    fleet.advance(opens_s)
    fleet.open(fleet.add())
    fleet.advance(10.0)
    assert fleet.outcomes().code.tolist() == [code]


def test_removal_loses_what_is_in_flight_there() -> None:
    fleet = _fleet([1.0, 1.01, 1.02, 1.03], output=50)
    for _ in range(2):
        fleet.open(fleet.add())
    fleet.advance(2.0)
    fleet.remove(0)
    fleet.advance(50.0)
    assert fleet.outcomes().code.tolist() == [Outcome.LOST, Outcome.FINISHED, Outcome.LOST, Outcome.FINISHED]
    gateway = fleet.gateway()
    assert (gateway.failed, gateway.finished, gateway.in_flight, gateway.judged) == (2, 2, 0, 4)


def test_closed_replica_finishes_what_it_has() -> None:
    fleet = _fleet([1.0, 2.0], output=11)
    first, second = fleet.add(), fleet.add()
    fleet.open(first)
    fleet.advance(1.2)
    fleet.open(second)
    fleet.close(first)
    assert fleet.empty_since_s(first) is None
    fleet.advance(5.0)
    assert fleet.empty_since_s(first) == pytest.approx(1.0 + 0.1 + 10 * 0.05)
    assert fleet.empty_since_s(second) is None
    assert [fleet.page(replica).completed for replica in (first, second)] == [1, 1]


def test_replica_that_had_nothing_is_empty_since_it_was_closed() -> None:
    fleet = _fleet([50.0])
    fleet.open(fleet.add())
    fleet.advance(7.0)
    fleet.close(0)
    assert fleet.empty_since_s(0) == 7.0


@pytest.mark.parametrize(
    ("slo", "is_met"),
    [
        pytest.param(Slo(ttft_s=0.11, itl_s=0.051), True, id="both-met"),
        pytest.param(Slo(ttft_s=0.09), False, id="first-token-late"),
        pytest.param(Slo(itl_s=0.049), False, id="tokens-slow"),
        pytest.param(Slo(e2e_s=0.21), True, id="whole-time-met"),
        pytest.param(Slo(e2e_s=0.19), False, id="whole-time-missed"),
    ],
)
def test_gateway_and_outcomes_judge_alike(slo: Slo, is_met: bool) -> None:  # noqa: FBT001
    requests = Requests(
        at_s=np.array([0.0]),
        prompt_tokens=np.array([10]),
        output_tokens=np.array([3]),
        cached_tokens=np.array([0]),
        duration_s=1.0,
    )
    fleet = EngineFleet(requests, times=TIMES, shape=SHAPE, slo=slo)
    fleet.open(fleet.add())
    fleet.advance(1.0)
    assert fleet.outcomes().in_slo(slo).tolist() == [is_met]
    assert fleet.gateway().within_slo == is_met


def test_time_never_goes_back_and_replicas_must_exist() -> None:
    fleet = _fleet([1.0])
    fleet.advance(2.0)
    with pytest.raises(ValueError, match="never goes back"):
        fleet.advance(1.9)
    with pytest.raises(ValueError, match="no replica 0"):
        fleet.open(0)
