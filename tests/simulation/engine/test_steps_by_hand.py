"""Courses of requests worked out by hand. A step takes 100 + 10 B + K + 2 q picoseconds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from adapters.simulation.engine_fleet import EngineFleet
from adapters.simulation.requests import Requests
from adapters.simulation.serving import Outcome
from adapters.simulation.step_times import PICOSECONDS, EngineShape, StepTimes
from autoscaler.domain.service import Slo

TIMES = StepTimes(c=100, d=10, e=1, a=2)
AMPLE = EngineShape(kv_tokens=1000, chunk_tokens=100, max_num_seqs=16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A request, with its arrival in picoseconds."""

    at: int
    prompt: int
    output: int
    cached: int = 0


def requests_of(asks: list[Ask]) -> Requests:
    return Requests(
        at_s=np.array([ask.at / PICOSECONDS for ask in asks]),
        prompt_tokens=np.array([ask.prompt for ask in asks]),
        output_tokens=np.array([ask.output for ask in asks]),
        cached_tokens=np.array([ask.cached for ask in asks]),
        duration_s=1.0,
    )


def fleet_of(asks: list[Ask], *, shape: EngineShape = AMPLE, replicas: int = 1) -> EngineFleet:
    fleet = EngineFleet(requests_of(asks), times=TIMES, shape=shape, slo=Slo(e2e_s=1.0))
    for _ in range(replicas):
        fleet.open(fleet.add())
    return fleet


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """``first`` and ``finish``: moments in picoseconds, by request."""

    shape: EngineShape = AMPLE
    asks: list[Ask]
    first: list[int]
    finish: list[int]


COURSES = {
    "one output token finishes in its prefill step": Course(
        asks=[Ask(at=0, prompt=10, output=1)], first=[120], finish=[120]
    ),
    # 120, then steps with a context of 11 and 12 tokens: 121 and 122.
    "the context counts the first generated token": Course(
        asks=[Ask(at=0, prompt=10, output=3)], first=[120], finish=[363]
    ),
    "an idle engine's time jumps to the next arrival": Course(
        asks=[Ask(at=0, prompt=10, output=1), Ask(at=10_000, prompt=10, output=1)],
        first=[120, 10_120],
        finish=[120, 10_120],
    ),
    # The step from 241 has K = 12 and q = 5: 132; the two after it K = 13 and 14: 123 and 124.
    "an arrival on a boundary is in the step that begins there": Course(
        asks=[Ask(at=0, prompt=10, output=5), Ask(at=241, prompt=5, output=1)],
        first=[120, 373],
        finish=[373 + 123 + 124, 373],
    ),
    # The step from 241 ends at 363 then, and the one from there has K = 13 and q = 5: 133.
    "an arrival just after a boundary waits for the next": Course(
        asks=[Ask(at=0, prompt=10, output=5), Ask(at=242, prompt=5, output=1)],
        first=[120, 496],
        finish=[496 + 124, 496],
    ),
    "arrivals at one moment share an idle engine's first step": Course(
        asks=[Ask(at=7, prompt=10, output=2), Ask(at=7, prompt=20, output=2)],
        first=[167, 167],
        finish=[167 + 152, 167 + 152],
    ),
    "a prompt longer than the chunk takes several steps": Course(
        shape=EngineShape(kv_tokens=1000, chunk_tokens=10, max_num_seqs=4),
        asks=[Ask(at=0, prompt=25, output=1)],
        first=[350],
        finish=[350],
    ),
    # From 110 on a token of the chunk of 10 goes to the decoding request (K = 6, 7, 8): q = 9, 9 and the last 2.
    "a long prompt leaves room for the tokens of the decoding": Course(
        shape=EngineShape(kv_tokens=1000, chunk_tokens=10, max_num_seqs=4),
        asks=[Ask(at=0, prompt=5, output=5), Ask(at=50, prompt=20, output=1)],
        first=[110, 110 + 134 + 135 + 122],
        finish=[110 + 134 + 135 + 122 + 119, 110 + 134 + 135 + 122],
    ),
    "a prefix hit shortens the prefill": Course(
        asks=[Ask(at=0, prompt=10, output=1, cached=6)], first=[108], finish=[108]
    ),
    # 7 places for each of the hits, whatever is cached: the third doesn't fit until one of the two is done.
    "a prefix hit takes its whole room in the cache": Course(
        shape=EngineShape(kv_tokens=15, chunk_tokens=100, max_num_seqs=4),
        asks=[Ask(at=0, prompt=6, output=1, cached=5) for _ in range(3)],
        first=[104, 104, 206],
        finish=[104, 104, 206],
    ),
    "more requests than sequences wait": Course(
        shape=EngineShape(kv_tokens=1000, chunk_tokens=100, max_num_seqs=1),
        asks=[Ask(at=0, prompt=10, output=2), Ask(at=0, prompt=10, output=1)],
        first=[120, 241 + 120],
        finish=[241, 241 + 120],
    ),
    # Both fit until a context of 20 at 270. The second is taken out there with two tokens, and computed anew (10
    # tokens) when the first is done at 756. The third would fit at once, but is behind the second in the queue.
    "the head of the queue blocks, and what is taken out is the head": Course(
        shape=EngineShape(kv_tokens=20, chunk_tokens=100, max_num_seqs=4),
        asks=[Ask(at=0, prompt=8, output=6), Ask(at=0, prompt=8, output=6), Ask(at=300, prompt=1, output=1)],
        first=[132, 132, 878],
        finish=[756, 878 + 121 + 122 + 123, 878],
    ),
}


@pytest.mark.parametrize("course", COURSES.values(), ids=[name.replace(" ", "-") for name in COURSES])
def test_course_by_hand(course: Course) -> None:
    fleet = fleet_of(course.asks, shape=course.shape)
    fleet.advance(1.0)
    outcomes = fleet.outcomes()
    arrivals = np.array([ask.at for ask in course.asks])
    assert np.rint(outcomes.ttft_s * PICOSECONDS + arrivals).tolist() == course.first
    assert np.rint(outcomes.finish_s * PICOSECONDS).tolist() == course.finish


def test_preemption_is_counted_and_the_first_token_keeps_its_time() -> None:
    course = COURSES["the head of the queue blocks, and what is taken out is the head"]
    fleet = fleet_of(course.asks, shape=course.shape)
    fleet.advance(1.0)
    assert fleet.outcomes().preemptions.tolist() == [0, 1, 0]
    page = fleet.page(0)
    assert page.preemptions == 1
    assert page.first_tokens == 3
    assert page.prompt_tokens == 17
    assert page.generation_tokens == 13
    assert page.itl is not None
    assert page.itl.count == 10


def test_request_that_can_never_fit_is_refused() -> None:
    shape = EngineShape(kv_tokens=11, chunk_tokens=100, max_num_seqs=4)
    fleet = fleet_of([Ask(at=0, prompt=8, output=4), Ask(at=0, prompt=8, output=3)], shape=shape)
    fleet.advance(1.0)
    assert fleet.outcomes().code.tolist() == [Outcome.REFUSED, Outcome.FINISHED]
    assert fleet.gateway().refused == 1
    assert fleet.gateway().judged == 1


def test_requests_of_equal_length_finish_in_one_step() -> None:
    fleet = fleet_of([Ask(at=0, prompt=10, output=7) for _ in range(5)])
    fleet.advance(1.0)
    outcomes = fleet.outcomes()
    assert len(set(outcomes.finish_s.tolist())) == 1
    assert outcomes.itl_s == pytest.approx((outcomes.finish_s - outcomes.ttft_s) / 6)
    assert fleet.page(0).steps == 7


@pytest.mark.parametrize(
    ("at", "chosen"),
    [pytest.param(120, 1, id="at-the-finish-it-still-counts"), pytest.param(121, 0, id="after-the-finish-it-is-free")],
)
def test_router_sees_finishes_before_the_arrival(at: int, chosen: int) -> None:
    fleet = fleet_of([Ask(at=0, prompt=10, output=1), Ask(at=at, prompt=10, output=1)], replicas=2)
    fleet.advance(at / PICOSECONDS)
    assert fleet.page(chosen).arrived == (2 if chosen == 0 else 1)


def test_round_robin_leaves_out_closed_replicas() -> None:
    asks = [Ask(at=at, prompt=10, output=1) for at in range(1000, 9000, 1000)]
    fleet = fleet_of(asks, replicas=4)
    fleet.close(2)
    fleet.remove(0)
    fleet.advance(1.0)
    assert [fleet.page(replica).arrived for replica in (1, 2, 3)] == [8, 0, 0]
